"""``tensorflow_model_server`` beside the worker: its command line, files and life. A stand-in plays the program."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sagemaker_tensorflow_serving_container import keras, model_server, models, serving
from sagemaker_tensorflow_serving_container.backend import Target
from sagemaker_tensorflow_serving_container.documents import Document
from sagemaker_tensorflow_serving_container.models import ModelError
from sagemaker_tensorflow_serving_container.ports import Pair
from sagemaker_tensorflow_serving_container.settings import Settings

HERE = Path(__file__).parent
STAND_IN = HERE / "stand_ins" / "tensorflow_model_server"
SOURCES = [HERE.parents[2] / "toolkits" / name / "src" for name in ("tensorflow-inference", "inference")]
LIMIT = 120


@pytest.fixture
def folder(tmp_path):
    for name in ("half/1", "half/00002", "zero/3"):
        (tmp_path / "model" / name).mkdir(parents=True)
        (tmp_path / "model" / name / "saved_model.pb").touch()
    return tmp_path


def settings(**variables):
    return Settings.read(variables, cpus=3)


# Command line and files


def test_the_command_line():
    ports = Pair(9000, 8501)
    assert model_server.command("/bin/tfs", ports, "/t", settings(), 90, None) == [
        "/bin/tfs",
        "--port=9000",
        "--rest_api_port=8501",
        "--rest_api_timeout_in_ms=90000",
        "--model_config_file=/t/models.config",
        "--max_num_load_retries=0",
        "--tensorflow_intra_op_parallelism=0",
        "--tensorflow_inter_op_parallelism=0",
    ]
    given = settings(
        SAGEMAKER_TFS_ENABLE_BATCHING="True",
        SAGEMAKER_TFS_INTER_OP_PARALLELISM="2",
        SAGEMAKER_TFS_INTRA_OP_PARALLELISM="4",
    )
    assert model_server.command("/bin/tfs", ports, "/t", given, 0.5, 0.4)[-5:] == [
        "--tensorflow_intra_op_parallelism=4",
        "--tensorflow_inter_op_parallelism=2",
        "--enable_batching=true",
        "--batching_parameters_file=/t/batching.config",
        "--per_process_gpu_memory_fraction=0.4000",
    ]


def test_the_files(folder, tmp_path):
    found = models.find(str(folder / "model"))
    given = settings(SAGEMAKER_TFS_ENABLE_BATCHING="true", SAGEMAKER_TFS_MAX_BATCH_SIZE="16")
    model_server.write_files(str(tmp_path), found, given)
    assert (tmp_path / "models.config").read_text() == (
        "model_config_list {\n"
        "  config {\n"
        '    name: "half"\n'
        f'    base_path: "{folder}/model/half"\n'
        '    model_platform: "tensorflow"\n'
        "    model_version_policy { specific { versions: 1 versions: 2 } }\n"
        "  }\n"
        "  config {\n"
        '    name: "zero"\n'
        f'    base_path: "{folder}/model/zero"\n'
        '    model_platform: "tensorflow"\n'
        "    model_version_policy { specific { versions: 3 } }\n"
        "  }\n"
        "}\n"
    )
    assert (tmp_path / "batching.config").read_text() == (
        "max_batch_size { value: 16 }\n"
        "batch_timeout_micros { value: 1000 }\n"
        "num_batch_threads { value: 3 }\n"
        "max_enqueued_batches { value: 3 }\n"
    )


def test_without_batching_there_is_no_file_for_it(folder, tmp_path):
    model_server.write_files(str(tmp_path), models.find(str(folder / "model")), settings())
    assert not (tmp_path / "batching.config").exists()


def test_keras_files_are_exported_for_the_model_server(folder, tmp_path, monkeypatch):
    (folder / "model" / "wide" / "2").mkdir(parents=True)
    (folder / "model" / "wide" / "2" / "saved_model.pb").touch()
    (folder / "model" / "wide" / "7").mkdir()
    (folder / "model" / "wide" / "7" / "any.keras").touch()
    monkeypatch.setattr(keras, "_export", lambda path, target: Path(target).mkdir())
    made = keras.exported(models.find(str(folder / "model")), str(tmp_path))
    assert [model.base for model in made] == [
        str(folder / "model" / "half"),
        str(tmp_path / "wide"),
        str(folder / "model" / "zero"),
    ]
    assert sorted(path.name for path in (tmp_path / "wide").iterdir()) == ["2", "7"]
    assert (tmp_path / "wide" / "2" / "saved_model.pb").exists()


# Its life


@pytest.fixture
def started(folder, tmp_path, request):
    """Starts the stand-in with the folder's models; the server."""
    made = []

    def start(pair, wait=LIMIT, timeout=30.0):
        found = models.find(str(folder / "model"))
        model_server.write_files(str(tmp_path), found, settings())
        server = model_server.ModelServer(pair, found, wait, timeout)
        made.append(server)
        server.start(model_server.command(str(STAND_IN), pair, str(tmp_path), settings(), timeout, None))
        return server

    yield start
    for server in made:
        server.close()


def test_requests_go_to_it_and_its_answers_come_back(started):
    server = started(Pair(27500, 27501))
    server.wait()
    assert (server.grpc_port, server.rest_port) == ("27500", 27501)
    done = server.post(Target("half", None, "classify"), Document({"examples": [{}]}))
    assert (done.status, done.document.value["predictions"]) == (200, [[{"examples": [{}]}, "2", "classify"]])
    done = server.post(Target("half", 1), Document(data=b'{"instances": [1]}'))
    assert done.document.value["predictions"] == [[{"instances": [1]}, "1", "predict"]]
    assert server.post(Target("none", None), Document({})).status == 404


def test_a_connection_that_it_has_closed_is_replaced(started):
    server = started(Pair(27502, 27503))
    server.wait()
    for _ in range(3):
        assert server.post(Target("half", None), Document({"instances": ["close"]})).status == 200


def test_a_version_that_it_cannot_load_is_named(started, folder):
    (folder / "model" / "half" / "00002" / "broken").touch()
    with pytest.raises(ModelError, match="cannot load half version 2: it is broken"):
        started(Pair(27504, 27505)).wait()


def test_a_program_that_ends_at_its_start_is_named(started, folder, tmp_path):
    server = started(Pair(27506, 27507))
    server._process.send_signal(signal.SIGKILL)
    with pytest.raises(ModelError, match="signal 9, SIGKILL"):
        server.wait()


def test_the_wait_has_a_limit_and_names_what_is_missing(started, monkeypatch):
    monkeypatch.setenv("STAND_IN_LOAD_SECONDS", "1000")
    with pytest.raises(ModelError, match=r"has not loaded half version 1, .*SAGEMAKER_TFS_WAIT_TIME_SECONDS"):
        started(Pair(27508, 27509), wait=0.5).wait()


def test_an_answer_that_takes_too_long_is_a_time_out(started):
    server = started(Pair(27510, 27511), timeout=0.5)
    server.wait()
    with pytest.raises(TimeoutError):
        server.post(Target("half", None), Document({"instances": ["slow"]}))
    assert server.post(Target("half", None), Document({"instances": [1]})).status == 200


# The whole container, with a program on its PATH


class Container:
    """``serve`` as the platform runs it."""

    def __init__(self, base, port, path, **variables):
        self.port = port
        self.log = base / "log"
        environ = {
            "PATH": f"{path}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(map(str, SOURCES)),
            "SAGEMAKER_BASE_DIR": str(base),
            "SAGEMAKER_BIND_TO_PORT": str(port),
            "SAGEMAKER_SERVING_MODULE": "sagemaker_tensorflow_serving_container.serving:main",
            "TMPDIR": str(base),
            **variables,
        }
        with self.log.open("w") as log:
            command = [sys.executable, "-m", "sagemaker_inference.cli.serve"]
            self.process = subprocess.Popen(command, env=environ, stdout=log, stderr=subprocess.STDOUT)

    def ask(self, method, path, body=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT)
        try:
            connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
            done = connection.getresponse()
            return done.status, done.read()
        finally:
            connection.close()

    def ping(self):
        try:
            return self.ask("GET", "/ping")[0]
        except OSError:
            return None

    def until(self, wanted):
        deadline = time.monotonic() + LIMIT
        while (found := self.ping()) != wanted:
            assert self.process.poll() is None and time.monotonic() < deadline, (found, self.log.read_text())
            time.sleep(0.02)

    def invoke(self, *instances, **headers):
        body = json.dumps({"instances": instances})
        status, data = self.ask("POST", "/invocations", body, Content_Type="application/json", **headers)
        return status, json.loads(data)

    def mended(self, dead):
        """The process id of the model server that answers in place of a dead one."""
        deadline = time.monotonic() + LIMIT
        while (answer := self.invoke(1))[0] != 200 or answer[1]["pid"] == dead:
            assert time.monotonic() < deadline, (answer, self.log.read_text())
            time.sleep(0.02)
        return answer[1]["pid"]


def gone(pid):
    """Waits for the end of a process."""
    deadline = time.monotonic() + LIMIT
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def container(folder):
    made = []

    def start(*arguments, **variables):
        made.append(Container(folder, *arguments, **variables))
        return made[-1]

    yield start
    for one in made:
        if one.process.poll() is None:
            one.process.send_signal(signal.SIGTERM)
            one.process.wait(LIMIT)


def test_the_model_servers_death_is_seen_answered_and_mended(container):
    one = container(27520, STAND_IN.parent, SAGEMAKER_SAFE_PORT_RANGE="27521-27530", SAGEMAKER_TFS_INSTANCE_COUNT="1")
    one.until(200)
    status, body = one.invoke(1)
    assert (status, body["predictions"][0][1]) == (200, "2")
    assert body["flags"]["port"] == "27521"
    assert body["flags"]["rest_api_port"] == "27522"
    assert body["flags"]["rest_api_timeout_in_ms"] == "60000"
    status, body_ = one.invoke("die")
    assert status >= 500
    assert "error" in body_
    again = one.mended(body["pid"])
    os.kill(int(re.findall(r"worker 0: loading, process (\d+)", one.log.read_text())[-1]), signal.SIGKILL)
    gone(again)
    again = one.mended(again)
    one.process.send_signal(signal.SIGTERM)
    assert one.process.wait(LIMIT) == 0
    gone(again)


def test_instances_have_a_model_server_each_and_code_knows_where(container, folder):
    (folder / "model" / "code").mkdir()
    (folder / "model" / "code" / "inference.py").write_text(
        "import json, urllib.request\n"
        "def handler(data, context):\n"
        "    with urllib.request.urlopen(context.rest_uri, data.read()) as answer:\n"
        "        return json.dumps([json.load(answer)['flags']['port'], context.grpc_port]), 'application/json'\n"
    )
    one = container(27531, STAND_IN.parent, SAGEMAKER_SAFE_PORT_RANGE="27532-27539", SAGEMAKER_TFS_INSTANCE_COUNT="2")
    one.until(200)
    deadline = time.monotonic() + LIMIT
    seen = set()
    while len(seen) < 2 and time.monotonic() < deadline:
        status, ports = one.invoke(1)
        assert status == 200
        assert ports[0] == ports[1]
        seen.add(ports[0])
    assert seen == {"27532", "27534"}


def test_a_model_that_cannot_be_loaded_ends_the_container_with_the_reason(container, folder):
    (folder / "model" / "half" / "00002" / "broken").touch()
    one = container(27540, STAND_IN.parent, SAGEMAKER_SAFE_PORT_RANGE="27541-27549")
    assert one.process.wait(LIMIT) > 0
    assert "cannot load half version 2: it is broken" in one.log.read_text()


def test_too_few_ports_end_the_container_with_the_reason(container):
    one = container(27550, STAND_IN.parent, SAGEMAKER_SAFE_PORT_RANGE="27551-27553", SAGEMAKER_TFS_INSTANCE_COUNT="2")
    assert one.process.wait(LIMIT) == 2
    assert "Give two ports for each of SAGEMAKER_TFS_INSTANCE_COUNT instances" in one.log.read_text()


def test_wrong_variables_end_the_container_with_all_of_them(container):
    one = container(
        27560,
        "/nowhere",
        SAGEMAKER_TFS_INSTANCE_COUNT="0",
        SAGEMAKER_TFS_ENABLE_BATCHING="yes",
        SAGEMAKER_MULTI_MODEL="perhaps",
    )
    assert one.process.wait(LIMIT) == 2
    log = one.log.read_text()
    assert "SAGEMAKER_MULTI_MODEL=perhaps" in log
    assert "SAGEMAKER_TFS_INSTANCE_COUNT=0: use a whole number" in log
    assert "SAGEMAKER_TFS_ENABLE_BATCHING=yes: use true or false" in log


def test_without_tensorflow_the_container_ends_with_the_reason(container):
    one = container(27561, "/nowhere")
    assert one.process.wait(LIMIT) > 0
    assert "There is no TensorFlow in this image" in one.log.read_text()


def test_the_program_is_looked_for_on_the_path(monkeypatch):
    monkeypatch.setattr(model_server, "PROGRAM", "tensorflow_model_server")
    monkeypatch.setenv("PATH", str(STAND_IN.parent))
    assert model_server.program() == str(STAND_IN)
    monkeypatch.setenv("PATH", "/nowhere")
    assert model_server.program() is None


def test_serving_names_its_handler_service():
    assert serving.HANDLER_SERVICE == "sagemaker_tensorflow_serving_container.handler_service"


def test_what_workers_are_told():
    assert serving.variables({}) == {"TF_CPP_MIN_LOG_LEVEL": "1", "SLIPWAY_VENDORED": "lib"}
    assert serving.variables({"TF_CPP_MIN_LOG_LEVEL": "0", "SLIPWAY_VENDORED": ""}) == {}


def test_a_fork_after_loading_is_refused_in_the_log(caplog):
    assert serving.variables({"SLIPWAY_PRELOAD": "true"})["SLIPWAY_PRELOAD"] == "false"
    assert "SLIPWAY_PRELOAD has no effect" in caplog.text
