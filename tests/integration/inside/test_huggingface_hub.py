"""Checks of ``serve`` with models of a hub, of folders, and with many models. See run.py."""

from __future__ import annotations

import json
import stat
import tempfile
import time
from pathlib import Path
from typing import Any

import tiny
from hub import Hub, Repository
from serving import Answer, Folder, Server

MAIN = "sagemaker_huggingface_inference_toolkit.serving:main"
JSON = "application/json"
SECRET = "hf_0123456789abcdefghijklmnop"
BODY = json.dumps({"inputs": "my dog lives in paris ."})

MODELS = Path(tempfile.mkdtemp())
CLASSIFIER = tiny.make("text-classification", MODELS / "classifier")
NAMER = tiny.make("token-classification", MODELS / "namer")


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def serve(base: Path, **environment: str) -> Server:
    variables = {"TMPDIR": tempfile.mkdtemp(), "SAGEMAKER_MODEL_SERVER_WORKERS": "1", **environment}
    return Server(base, MAIN, **variables)


def ended(server: Server) -> tuple[int, str]:
    """Exit status and output of a server that ends by itself."""
    status = server.process.wait(180)
    return status, server.output


def ask(server: Server, body: str = BODY, path: str = "/invocations") -> Any:
    answer: Answer = server.send("POST", path, body, Content_Type=JSON)
    assert answer.status == 200, answer.body
    return answer.json


def test_a_model_of_the_hub_is_downloaded_once_and_served_by_every_worker() -> None:
    other = {**files(CLASSIFIER), "tf_model.h5": b"-", "pytorch_model.bin": b"-", "onnx/model.onnx": b"-"}
    hub = Hub({"org/model": Repository({"main": {"config.json": b"{}"}, "v2": other}, token=SECRET)})
    folder = Folder("def input_fn(data, kind):\n    return {'inputs': data.upper()}\n")
    read_only(folder.model)
    with hub.serving() as address:
        asked = {"HF_MODEL_ID": "org/model", "HF_MODEL_REVISION": "v2", "HF_API_TOKEN": SECRET, "HF_ENDPOINT": address}
        with serve(folder.base, **asked, SAGEMAKER_MODEL_SERVER_WORKERS="2") as server:
            server.wait_ready()
            assert ask(server, "my dog")[0]["label"] in ("NEGATIVE", "POSITIVE")
    wanted = sorted(set(files(CLASSIFIER)))
    assert sorted(set(hub.downloads())) == wanted, "the asked revision's safetensors alone"
    assert len([name for name in hub.downloads() if name == "model.safetensors"]) == 1
    assert "pytorch_model.bin, tf_model.h5" in server.output
    assert "User functions: input_fn" in server.output, "code/ of the archive counts"
    assert "org__model.v2" in server.output
    assert SECRET not in server.output


def test_the_port_answers_503_while_the_model_is_downloaded() -> None:
    hub = Hub({"org/model": Repository.of(CLASSIFIER)}, busy=1)
    with hub.serving() as address, serve(Folder().base, HF_MODEL_ID="org/model", HF_ENDPOINT=address) as server:
        limit = time.monotonic() + 60
        while not hub.asked and time.monotonic() < limit:
            time.sleep(0.01)
        answer = server.send("GET", "/ping")
        assert (answer.status, answer.type) == (503, JSON)
        server.wait_ready()


def test_a_model_that_cannot_be_had_ends_the_server_with_the_reason() -> None:
    of = Repository({"main": files(CLASSIFIER)})
    repositories = {
        "org/open": of,
        "org/secret": Repository(of.revisions, token=SECRET),
        "org/gated": Repository(of.revisions, gated=True),
    }
    hub = Hub(repositories, missing={"config.json"})
    with hub.serving() as address:
        for variables, said in (
            ({"HF_MODEL_ID": "org/none"}, "HF_MODEL_ID=org/none: the hub has no such model"),
            ({"HF_MODEL_ID": "org/secret"}, "a token that may read it by HF_TOKEN"),
            ({"HF_MODEL_ID": "org/secret", "HF_TOKEN": "hf_wrong"}, "another token than that of HF_TOKEN"),
            ({"HF_MODEL_ID": "org/gated"}, "is gated: accept its conditions"),
            ({"HF_MODEL_ID": "org/open", "HF_MODEL_REVISION": "v9"}, "HF_MODEL_REVISION=v9: org/open has no such"),
            ({"HF_MODEL_ID": "org/open"}, "lists a file that it does not have"),
            ({"HF_MODEL_ID": "org/open", "HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE forbids to download it"),
        ):
            status, output = ended(serve(Folder().base, **{"HF_HUB_OFFLINE": "", "HF_ENDPOINT": address, **variables}))
            last = output.strip().splitlines()[-1]
            assert (status, said.replace("the hub", address) in last) == (3, True), (variables, status, output)


def test_a_cut_download_is_resumed_and_never_served_in_part() -> None:
    hub = Hub({"org/model": Repository.of(CLASSIFIER)}, cuts={"model.safetensors": 1})
    with hub.serving() as address, serve(Folder().base, HF_MODEL_ID="org/model", HF_ENDPOINT=address) as server:
        server.wait_ready()
        assert ask(server)
    assert hub.downloads().count("model.safetensors") == 2


def test_offline_a_cached_model_is_served_without_a_word_to_the_network() -> None:
    hub = Hub({"org/model": Repository.of(CLASSIFIER)})
    home = tempfile.mkdtemp()
    with hub.serving() as address:
        asked = {"HF_MODEL_ID": "org/model", "HF_HOME": home, "HF_ENDPOINT": address}
        with serve(Folder().base, **asked) as server:
            server.wait_ready()
        before = len(hub.asked)
        assert before
        read_only(Path(home))  # as an image or a mount would hold it
        for switch in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
            with serve(Folder().base, **asked, **{switch: "1"}) as server:
                server.wait_ready()
                assert ask(server)
            assert len(hub.asked) == before, hub.asked[before:]


def test_a_cached_model_is_served_while_the_hub_cannot_be_reached() -> None:
    hub = Hub({"org/model": Repository.of(CLASSIFIER)})
    home = tempfile.mkdtemp()
    asked = {"HF_MODEL_ID": "org/model", "HF_HOME": home}
    with hub.serving() as address, serve(Folder().base, **asked, HF_ENDPOINT=address) as server:
        server.wait_ready()
    with serve(Folder().base, **asked, HF_ENDPOINT="http://127.0.0.1:9") as server:
        server.wait_ready()
        assert ask(server)
    assert "The copy in the cache is served" in server.output


def test_a_local_model_asks_nobody_and_its_folder_stays_untouched() -> None:
    hub = Hub({})
    folder = Folder()
    tiny.make("text-classification", folder.model)
    (folder.model / "code").rmdir()
    read_only(folder.model)
    before = files(folder.model)
    with hub.serving() as address, serve(folder.base, HF_ENDPOINT=address) as server:
        server.wait_ready()
        assert ask(server)
    assert hub.asked == []
    assert files(folder.model) == before
    assert "the model's configuration says text-classification" in server.output
    assert "for text-classification on cpu" in server.output


def test_a_folder_may_be_named_by_the_model_id() -> None:
    with serve(Folder().base, HF_MODEL_ID=str(NAMER), HF_TASK="ner") as server:
        server.wait_ready()
        assert "entity" in ask(server)[0]
    status, output = ended(serve(Folder().base, HF_MODEL_ID="/no/such", HF_TRUST_REMOTE_CODE="maybe"))
    assert status == 2
    assert "HF_MODEL_ID=/no/such: there is no such folder" in output
    assert "HF_TRUST_REMOTE_CODE=maybe: use one of y, yes" in output


def test_remote_code_runs_only_where_it_is_trusted() -> None:
    folder = Folder()
    tiny.make("text-classification", folder.model)
    config = json.loads((folder.model / "config.json").read_text())
    auto = {"AutoConfig": "own.OwnConfig", "AutoModelForSequenceClassification": "own.OwnModel"}
    (folder.model / "config.json").write_text(json.dumps({**config, "model_type": "own", "auto_map": auto}))
    (folder.model / "own.py").write_text(OWN_CODE)
    hub = Hub({"org/own": Repository.of(folder.model)})
    with hub.serving() as address:
        asked = {"HF_MODEL_ID": "org/own", "HF_ENDPOINT": address, "HF_TASK": "text-classification"}
        with serve(Folder().base, **asked, HF_TRUST_REMOTE_CODE="Yes") as server:
            server.wait_ready()
            assert ask(server)
        assert "own code runs" in server.output
        status, output = ended(serve(Folder().base, **asked))
        assert status == 5
        assert "own code runs" not in output
        assert "trust_remote_code" in output


OWN_CODE = """\
from transformers import BertConfig, BertForSequenceClassification
print("own code runs", flush=True)
class OwnConfig(BertConfig):
    model_type = "own"
class OwnModel(BertForSequenceClassification):
    config_class = OwnConfig
"""


def test_a_model_without_a_task_ends_the_server_with_the_tasks() -> None:
    folder = Folder()
    tiny.make("text-classification", folder.model)
    (folder.model / "config.json").write_text('{"model_type": "bert", "architectures": null}')
    status, output = ended(serve(folder.base))
    last = output.strip().splitlines()[-1]
    assert status == 5
    assert "config.json names no architecture" in last
    assert "HF_TASK" in last
    assert "question-answering" in last


def test_many_models_have_each_their_own_task() -> None:
    base = Path(tempfile.mkdtemp())
    for name, made in (("a", CLASSIFIER), ("b", NAMER)):
        (base / "models" / name).mkdir(parents=True)
        (base / "models" / name / "model").symlink_to(made)
    with serve(base, SAGEMAKER_MULTI_MODEL="true", HF_MODEL_ID="org/unused") as server:
        server.wait_ready()
        for name in ("a", "b"):
            loaded = json.dumps({"model_name": name, "url": str(base / "models" / name / "model")})
            answer = server.send("POST", "/models", loaded, Content_Type=JSON)
            assert answer.status == 200, answer.body
        assert set(ask(server, path="/models/a/invoke")[0]) == {"label", "score"}
        assert "entity" in ask(server, path="/models/b/invoke")[0]


def test_the_supervisor_imports_no_framework() -> None:
    folder = Folder()
    tiny.make("text-classification", folder.model)
    with serve(folder.base) as server:
        server.wait_ready()
        mapped = Path(f"/proc/{server.process.pid}/maps").read_text()
    for name in ("torch", "numpy", "transformers", "tokenizers", "PIL"):
        assert f"/{name}/" not in mapped, name


def read_only(folder: Path) -> None:
    """Takes the right to write from everything below a folder; for root it is still there to take."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))
