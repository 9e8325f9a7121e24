"""Checks of the PyTorch toolkit with the real PyTorch. See run.py."""

from __future__ import annotations

import concurrent.futures
import importlib.metadata
import io
import json
import os
import re
import tempfile
from pathlib import Path

import numpy
import torch
from sagemaker_pytorch_serving_container import mapping, models, weights
from sagemaker_pytorch_serving_container.default_pytorch_inference_handler import (
    DefaultPytorchInferenceHandler,
    ModelLoadError,
)
from serving import Folder, Served, Server, environ, failing, logged, request
from torch import nn

SERVICE = "sagemaker_pytorch_serving_container.handler_service"
MAIN = "sagemaker_pytorch_serving_container.serving:main"
ROWS = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
BODY = json.dumps(ROWS)
INSTALLED = {one.metadata["Name"].lower() for one in importlib.metadata.distributions()}


class Sums(nn.Module):
    """Sums of each row, and twice that."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2, bias=False)
        self.linear.weight.data = torch.tensor([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]])
        self.drop = nn.Dropout(0.9)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(self.linear(x))


SUMS = [[6.0, 12.0], [15.0, 30.0]]

NET = """\
import torch
from torch import nn
class Sums(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2, bias=False)
        self.drop = nn.Dropout(0.9)
    def forward(self, x):
        return self.drop(self.linear(x))
"""


def export(path: Path) -> None:
    rows = torch.export.Dim("rows", min=1)
    torch.export.save(torch.export.export(Sums().eval(), (torch.zeros(2, 3),), dynamic_shapes={"x": {0: rows}}), path)


def scripted(folder: Folder, name: str = "model.pt") -> Folder:
    torch.jit.script(Sums()).save(str(folder.model / name))
    return folder


def npy(array: numpy.ndarray) -> bytes:
    buffer = io.BytesIO()
    numpy.save(buffer, array)
    return buffer.getvalue()


def default() -> Served:
    return scripted(Folder()).load(SERVICE)


def test_torchscript_is_served_by_any_name() -> None:
    for name in ("model.pt", "net.pt", "model.pth"):
        served = scripted(Folder(), name).load(SERVICE)
        answer = served.ask(BODY)
        assert (answer.status, answer.json, answer.type) == (200, SUMS, "application/json"), name


def test_exported_programs_are_served() -> None:
    for name in ("net.pt2", "model.pt"):
        folder = Folder()
        export(folder.model / "net.pt2")
        (folder.model / "net.pt2").rename(folder.model / name)
        served = folder.load(SERVICE)
        assert served.ask(BODY).json == SUMS
        assert served.ask("[[1, 1, 1]]").json == [[3.0, 6.0]], "another number of rows"


def test_dropout_is_off_and_no_gradient_is_kept() -> None:
    folder = Folder(
        """
        import torch
        from net import Sums
        def model_fn(model_dir):
            model = Sums()
            model.linear.weight.data = torch.tensor([[1., 1, 1], [2, 2, 2]])
            return model
        def output_fn(prediction, accept):
            assert not prediction.requires_grad
            prediction += 1  # what an output_fn of old may do
            return str(prediction.tolist())
        """,
        net=NET,
    )
    served = folder.load(SERVICE)
    assert served.ask(BODY).json == [[7.0, 13.0], [16.0, 31.0]]


def test_state_dict_alone_is_refused_with_what_to_do() -> None:
    folder = Folder()
    torch.save(Sums().state_dict(), folder.model / "model.pth")
    with failing(ModelLoadError, "state dict", "model_fn", "weights.load(os.path.join(model_dir, 'model.pth'), model)"):
        folder.load(SERVICE)


def test_pickled_module_is_refused_and_not_unpickled() -> None:
    folder = Folder()
    torch.save(Bomb(str(folder.base / "ran")), folder.model / "model.pt")
    with failing(ModelLoadError, "pickled object", "model_fn"):
        folder.load(SERVICE)
    with failing(ModelLoadError, "more than tensors", "allow_unpickling=True"):
        weights.load(folder.model / "model.pt", Sums())
    assert not (folder.base / "ran").exists()


class Bomb:
    """Makes a file when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


def test_exported_program_with_pickles_is_refused_and_not_unpickled() -> None:
    import zipfile

    folder = Folder()
    export(folder.base / "good.pt2")
    buffer = io.BytesIO()
    torch.save((Bomb(str(folder.base / "ran")),), buffer)
    changes = {
        "data/sample_inputs/model.pt": lambda data: buffer.getvalue(),
        "data/weights/model_weights_config.json": lambda data: data.replace(
            b'"use_pickle": false', b'"use_pickle": true'
        ),
    }
    for member, change in changes.items():
        path = folder.model / "model.pt2"
        with zipfile.ZipFile(folder.base / "good.pt2") as good, zipfile.ZipFile(path, "w") as bad:
            for name in good.namelist():
                data = good.read(name)
                bad.writestr(name, change(data) if name.endswith(member) else data)
        with failing(ModelLoadError, "Unpickling runs code", member, "torch.export.load(path).module()"):
            folder.load(SERVICE)
        assert not (folder.base / "ran").exists()


def test_torchscript_with_unknown_operators_names_their_library() -> None:
    folder = scripted(Folder())
    broken = folder.model / "model.pt"
    whole = broken.read_bytes()
    broken.write_bytes(whole[: len(whole) // 2])
    with failing(ModelLoadError, "cut short"):
        folder.load(SERVICE)
    error = RuntimeError("\nUnknown builtin op: torchvision::nms.\nCould not find any similar ops.")
    assert "torchvision::nms is not registered. Import the library" in models._reason(error)


def test_json_and_csv_are_float32_npy_keeps_its_type() -> None:
    folder = Folder(
        """
        def model_fn(model_dir):
            return lambda data: [str(data.dtype), list(data.shape), str(data.device)]
        """
    )
    served = folder.load(SERVICE)
    float32 = ["torch.float32", [2, 3], "cpu"]
    assert served.ask("[[1, 2, 3], [4, 5, 6]]").json == float32
    assert served.ask("[[1, 2, 3], [4, 5, 6]]", None).json == float32, "no content type means JSON"
    assert served.ask("1,2,3\n4,5,6", "Text/CSV; charset=utf-8").json == float32
    assert served.ask("[1, 2, 3]\n[4, 5, 6]", "application/jsonlines").json == float32
    for kind in ("int64", "float64", "uint8", "float16", "bool", "complex64"):
        assert served.ask(npy(numpy.ones((2, 3), kind)), "application/x-npy").json[0] == f"torch.{kind}"
    assert served.ask(npy(numpy.ones((2, 3), ">f4")), "application/x-npy").json == float32, "big endian"
    assert served.ask(npy(numpy.asfortranarray(numpy.ones((2, 3)))), "application/x-npy").json[1] == [2, 3]


def test_bodies_that_are_no_numbers_are_400() -> None:
    served = default()
    for body, kind in (
        ('{"a": 1}', "application/json"),
        ('[["a", "b"]]', "application/json"),
        ("[[1, 2], [3]]", "application/json"),
        ("1,a\n2,b", "text/csv"),
        ("null", "application/json"),
        ('{"a": 1}\n{"b": 2}', "application/jsonlines"),
        (npy(numpy.array(["a"])), "application/x-npy"),
        (b"no npy", "application/x-npy"),
    ):
        assert served.ask(body, kind).status == 400, (body, kind)


def test_other_types_are_415_and_406() -> None:
    served = default()
    for kind in ("application/x-npz", "image/png", "application/octet-stream"):
        answer = served.ask(b"x", kind)
        assert answer.status == 415, kind
    refused = served.ask(BODY, accept="image/png")
    assert refused.status == 406
    assert "application/json" in refused.message


def test_outputs_of_each_type() -> None:
    served = default()
    assert served.ask(BODY, accept="text/csv").body == b"6.0,12.0\n15.0,30.0\n"
    assert served.ask(BODY, accept="application/jsonlines").body == b"[6.0, 12.0]\n[15.0, 30.0]"
    for accept in ("application/x-npy", "image/png, application/x-npy;q=0.5"):
        answer = served.ask(BODY, accept=accept)
        assert answer.type == "application/x-npy"
        loaded = numpy.load(io.BytesIO(answer.body))
        assert (loaded.tolist(), loaded.dtype) == (SUMS, numpy.float32)


def test_tensors_are_found_inside_tuples_dicts_and_dataclasses() -> None:
    folder = Folder(
        """
        import collections, dataclasses, torch
        Pair = collections.namedtuple("Pair", "a b")
        @dataclasses.dataclass
        class Output:
            logits: torch.Tensor
            loss: object = None
        def model_fn(model_dir):
            def model(data):
                return {
                    "pair": Pair(data[0], "text"),
                    "nested": [(data.to(torch.bfloat16)[1], None), torch.tensor(3)],
                    "output": Output(data[:1].requires_grad_() * 2),
                    "sparse": torch.eye(2).to_sparse(),
                    "scalar": data.sum().numpy()[()],
                }
            return model
        """
    )
    assert folder.load(SERVICE).ask(BODY).json == {
        "pair": [[1.0, 2.0, 3.0], "text"],
        "nested": [[[4.0, 5.0, 6.0], None], 3],
        "output": {"logits": [[2.0, 4.0, 6.0]], "loss": None},
        "sparse": [[1.0, 0.0], [0.0, 1.0]],
        "scalar": 21.0,
    }
    two = Folder("import torch\ndef model_fn(model_dir):\n    return lambda data: (data[0], data[1])\n")
    assert numpy.load(io.BytesIO(two.load(SERVICE).ask(BODY, accept="application/x-npy").body)).tolist() == ROWS


def test_a_model_is_prepared_once() -> None:
    folder = Folder(
        """
        class Model:
            moves = evals = 0
            def to(self, device):
                Model.moves += 1
                return self
            def eval(self):
                Model.evals += 1
            def __call__(self, data):
                return [Model.moves, Model.evals]
        def model_fn(model_dir):
            return Model()
        """
    )
    served = folder.load(SERVICE)
    assert [served.ask(BODY).json for _ in range(3)] == [[1, 1]] * 3


def test_what_cannot_be_called_asks_for_a_predict_fn() -> None:
    served = Folder("def model_fn(model_dir):\n    return {'net': 1}\n").load(SERVICE)
    answer = served.ask(BODY)
    assert answer.status == 500
    assert "model_fn gave a dict" in answer.message
    assert "predict_fn" in answer.message


def test_requests_of_a_group_are_answered_each() -> None:
    served = default()
    requests = [
        request("[[1, 1, 1]]"),
        request("nonsense"),
        request("2,2,2\n3,3,3", "text/csv", "text/csv"),
        request("[[5, 5, 5]]", accept="application/x-npy"),
    ]
    answers = served.ask_all(requests)
    assert [answer.status for answer in answers] == [200, 400, 200, 200]
    assert [answers[0].json, answers[2].body] == [[[3.0, 6.0]], b"6.0,12.0\n9.0,18.0\n"]
    assert [answer.type for answer in answers[2:]] == ["text/csv", "application/x-npy"]


def test_lack_of_memory_is_told_as_such() -> None:
    folder = Folder(
        """
        import torch
        def model_fn(model_dir):
            return lambda data: data
        def predict_fn(data, model):
            if data[0, 0] == 1:
                raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
            if data[0, 0] == 2:
                torch.empty(1 << 50)
            return data
        """
    )
    for multi_model, status in (("false", 500), ("true", 507)):
        folder.model.rename(folder.base / "models") if multi_model == "true" else None
        folder.model = folder.base / ("models" if multi_model == "true" else "model")
        served = folder.load(SERVICE, SAGEMAKER_MULTI_MODEL=multi_model)
        assert [served.ask(f"[[{number}]]").status for number in (1, 2, 3)] == [status, status, 200]


def test_weights_fill_a_model_from_each_kind_of_file() -> None:
    folder = Path(Folder().model)
    sums = Sums()
    torch.save(sums.state_dict(), folder / "new.pth")
    torch.save(sums.state_dict(), folder / "old.pth", _use_new_zipfile_serialization=False)
    torch.save(
        {"epoch": 3, "model": {f"module.{name}": value.half() for name, value in sums.state_dict().items()}},
        folder / "c",
    )
    torch.save(sums, folder / "whole.pth")
    index = {"weight_map": {"linear.weight": "new.pth"}}
    (folder / "model.bin.index.json").write_text(json.dumps(index))
    sums_of = lambda model: model(torch.tensor(ROWS)).tolist()  # noqa: E731
    for name, options in {
        "new.pth": {},
        "old.pth": {},
        "c": {"key": "model", "prefix": "module."},
        "whole.pth": {"allow_unpickling": True},
        "model.bin.index.json": {},
    }.items():
        filled = weights.load(folder / name, Sums().half().float(), **options)
        assert sums_of(filled) == SUMS, name
        assert filled.linear.weight.dtype is torch.float32, name
    with torch.device("meta"):
        empty = Sums()
    assert sums_of(weights.load(folder / "new.pth", empty)) == SUMS


def test_weights_that_do_not_fit_say_which_option_would_help() -> None:
    folder = Path(Folder().model)
    state = Sums().state_dict()
    torch.save({"epoch": 3, "model": state}, folder / "checkpoint")
    torch.save({f"module.{name}": value for name, value in state.items()}, folder / "parallel")
    with failing(ModelLoadError, "Missing key(s)", "pass key='model'"):
        weights.load(folder / "checkpoint", Sums())
    with failing(ModelLoadError, "no state dict at 'net'", "'epoch', 'model'"):
        weights.load(folder / "checkpoint", Sums(), key="net")
    with failing(ModelLoadError, "pass prefix='module.'"):
        weights.load(folder / "parallel", Sums())
    (folder / "model.bin.index.json").write_text('{"weight_map": {"a": "gone.pth", "b": "../parallel"}}')
    with failing(ModelLoadError, "not beside it: ../parallel, gone.pth"):
        weights.load(folder / "model.bin.index.json", Sums())
    torch.jit.script(Sums()).save(str(folder / "script.pt"))
    with failing(ModelLoadError, "TorchScript", "the default model_fn serves it"):
        weights.load(folder / "script.pt", Sums())


def test_safetensors_need_their_package() -> None:
    folder = Path(Folder().model)
    header = json.dumps({"linear.weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}).encode()
    data = torch.tensor([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]).numpy().tobytes()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + data)
    try:
        import safetensors  # noqa: F401
    except ImportError:
        with failing(ModelLoadError, "code/requirements.txt"):
            weights.load(folder / "model.safetensors", Sums())
        return
    assert weights.load(folder / "model.safetensors", Sums())(torch.tensor(ROWS)).tolist() == SUMS


class Large(nn.Module):
    """48 MiB of weights of each kind that an archive can hold, and one that two modules share."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2048, 2048)
        self.second = nn.Sequential(nn.Linear(2048, 2048), nn.Linear(2048, 2048))
        self.second[1].weight = self.first.weight
        self.register_buffer("table", torch.randn(1024, 2048))
        self.plain = torch.randn(1024, 2048)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x))[:, :1024] @ self.table + self.plain.sum(0)


LARGE_BYTES = (2 * 2048 * 2048 + 2 * 1024 * 2048) * 4


def pages(path: Path, field: str) -> int:
    """Bytes of a file that are mapped here; field: Rss is what is in memory, Anonymous what of that is our own."""
    mappings = Path("/proc/self/smaps").read_text().split("VmFlags")
    sizes = [re.findall(rf"{field}: +(\d+) kB", mapping) for mapping in mappings if str(path) in mapping]
    return sum(int(size) for found in sizes for size in found) * 1024


def test_large_weights_stay_in_the_file_and_are_shared() -> None:
    folder = Folder()
    model = Large().eval()
    torch.jit.script(model).save(str(folder.model / "model.pt"))
    torch.jit.trace(model, torch.zeros(1, 2048)).save(str(folder.model / "traced.pt"))
    torch.export.save(torch.export.export(model, (torch.zeros(1, 2048),)), folder.model / "model.pt2")
    data = torch.randn(1, 2048)
    for name in ("model.pt", "traced.pt", "model.pt2"):
        path = folder.model / name
        loaded = models.load(path, torch.device("cpu"))
        plain = torch.jit.load(str(path)) if path.suffix == ".pt" else torch.export.load(path).module()
        assert torch.equal(loaded(data), plain(data)), name
        assert pages(path, "Anonymous") == 0, name
        # Tracing and export make a constant of the plain tensor, and that stays a copy.
        assert pages(path, "Rss") > 0.95 * LARGE_BYTES * (1 if name == "model.pt" else 5 / 6), name
        for parameter in loaded.parameters():
            parameter.data += 1
        assert torch.equal(models.load(path, torch.device("cpu"))(data), plain(data)), "the file was written to"


def test_weights_are_mapped_only_where_the_archive_says_what_is_loaded() -> None:
    """A model that was changed after it was loaded keeps its own weights."""
    folder = Folder()
    path = folder.model / "model.pt"
    torch.jit.script(Large().eval()).save(str(path))
    other = torch.jit.script(Large().eval())
    before = other.first.weight.clone()
    assert mapping.share(other, path) == 0
    assert torch.equal(other.first.weight, before)


def test_retired_accelerator_is_told_and_not_used() -> None:
    with environ(SAGEMAKER_INFERENCE_ACCELERATOR_PRESENT="true"), logged("sagemaker-inference") as lines:
        assert scripted(Folder()).load(SERVICE).ask(BODY).json == SUMS
    assert any("Elastic Inference is a retired product" in line for line in lines)


def test_the_log_says_what_was_loaded_and_where() -> None:
    with logged("sagemaker-inference") as lines:
        folder = scripted(Folder())
        folder.load(SERVICE)
    assert f"Loaded {folder.model / 'model.pt'} on cpu." in lines


def test_default_functions_can_be_called_by_hand() -> None:
    folder = scripted(Folder())
    handler = DefaultPytorchInferenceHandler()
    model = handler.default_model_fn(str(folder.model))
    data = handler.default_input_fn(BODY, "application/json")
    prediction = handler.default_predict_fn(data, model)
    assert torch.equal(prediction, torch.tensor(SUMS))
    assert json.loads(handler.default_output_fn(prediction, "application/json")) == SUMS


def test_user_code_sees_the_whole_archive_unchanged() -> None:
    folder = Folder(
        """
        import os, pickle
        from sagemaker_pytorch_serving_container import weights
        from net import Sums
        def model_fn(model_dir):
            assert sorted(os.listdir(model_dir)) == ["code", "model.pth", "sub", "vocabulary.pkl"]
            assert open(os.path.join(model_dir, "sub", "words.txt")).read() == "words"
            return weights.load(os.path.join(model_dir, "model.pth"), Sums())
        """,
        net=NET,
    )
    torch.save(Sums().state_dict(), folder.model / "model.pth")
    (folder.model / "vocabulary.pkl").write_bytes(b"")
    (folder.model / "sub").mkdir()
    (folder.model / "sub" / "words.txt").write_text("words")
    assert folder.load(SERVICE).ask(BODY).json == SUMS
    assert sorted(path.name for path in folder.model.iterdir()) == ["code", "model.pth", "sub", "vocabulary.pkl"]


def test_a_model_that_cannot_be_loaded_ends_the_server_with_the_reason() -> None:
    folder = Folder()
    torch.save(Sums().state_dict(), folder.model / "model.pth")
    with Server(folder.base, MAIN) as server:
        assert server.process.wait(120) != 0
        last = server.output.strip().splitlines()[-1]
        assert "is neither TorchScript nor an exported program" in last, server.output


def test_variables_of_torchserve_take_effect() -> None:
    folder = scripted(
        Folder(
            """
            import os, torch
            def batch_predict_fn(data, model):
                with torch.inference_mode():
                    sums = model(torch.cat(data)).tolist()
                return [{"sums": row, "group": len(data), "threads": torch.get_num_threads()} for row in sums]
            """
        )
    )
    variables = {"BATCH_SIZE": "3", "MAX_BATCH_DELAY": "5000", "MAX_WORKERS": "1", "RESPONSE_TIMEOUT": "50"}
    with Server(
        folder.base, MAIN, OMP_NUM_THREADS="2", **{f"SAGEMAKER_TS_{name}": value for name, value in variables.items()}
    ) as server:
        server.wait_ready()
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            bodies = [f"[[{number}, {number}, {number}]]" for number in (1, 2, 3)]
            answers = list(pool.map(lambda body: server.send("POST", "/invocations", body).json, bodies))
        told = server.output
    assert [answer["sums"] for answer in answers] == [[3.0, 6.0], [6.0, 12.0], [9.0, 18.0]], "each its own, in order"
    assert {answer["group"] for answer in answers} == {3}
    assert {answer["threads"] for answer in answers} == {2}
    for name, value in (("batch_size", "3"), ("workers", "1"), ("timeout_seconds", "50.0")):
        assert f"{name} = {value} (SAGEMAKER_TS_" in told, told


def test_threads_are_shared_among_workers() -> None:
    code = "def model_fn(model_dir):\n    return lambda data: __import__('torch').get_num_threads()\n"
    with Server(Folder(code).base, MAIN, SAGEMAKER_MODEL_SERVER_WORKERS="2") as server:
        server.wait_ready()
        usable = len(os.sched_getaffinity(0))
        assert 1 <= server.send("POST", "/invocations", "[1]").json <= max(1, usable // 2)


def test_many_models_each_have_their_own_code() -> None:
    plain, own = scripted(Folder()), Folder("def model_fn(model_dir):\n    return lambda data: 'own'\n")
    base = Path(tempfile.mkdtemp())
    (base / "models").mkdir()
    with Server(base, MAIN, SAGEMAKER_MULTI_MODEL="true") as server:
        server.wait_ready()
        assert server.send("GET", "/models").json["models"] == []
        for name, folder in (("plain", plain), ("own", own)):
            body = json.dumps({"model_name": name, "url": str(folder.model)})
            assert server.send("POST", "/models", body).status == 200, server.output
        assert server.send("POST", "/models/plain/invoke", BODY).json == SUMS
        assert server.send("POST", "/models/own/invoke", BODY).json == "own"


def test_old_names_start_the_same_server() -> None:
    with Server(scripted(Folder()).base, "sagemaker_pytorch_serving_container.torchserve:start_torchserve") as server:
        server.wait_ready()
        assert server.send("POST", "/invocations", BODY).json == SUMS
    from sagemaker_pytorch_serving_container.ts_environment import TorchServeEnvironment

    with environ(SAGEMAKER_TS_BATCH_SIZE="4", SAGEMAKER_TS_MAX_BATCH_DELAY="20", SAGEMAKER_TS_RESPONSE_TIMEOUT="7"):
        found = TorchServeEnvironment()
    assert (found.batch_size, found.max_batch_delay, found.response_timeout) == (4, 20, 7)
    assert (found.min_workers, found.max_workers, found.inference_http_port) == (1, 1, "8080")


def test_workers_forked_from_a_loaded_model_answer() -> None:
    """Threads of the process that loads do not exist in its children, which must not wait for them."""
    folder = scripted(
        Folder(
            """
            import os, torch
            from sagemaker_pytorch_serving_container import default_pytorch_inference_handler as default
            def model_fn(model_dir):
                model = default.DefaultPytorchInferenceHandler().default_model_fn(model_dir)
                torch.randn(1000, 1000) @ torch.randn(1000, 1000)  # starts the threads
                return model, os.getpid()
            def predict_fn(data, model):
                torch.randn(1000, 1000) @ torch.randn(1000, 1000)
                return {"sums": model[0](data), "threads": torch.get_num_threads(), "forked": os.getpid() != model[1]}
            """
        )
    )
    with Server(
        folder.base, MAIN, SLIPWAY_PRELOAD="true", SAGEMAKER_MODEL_SERVER_WORKERS="2", OMP_NUM_THREADS="2"
    ) as server:
        server.wait_ready()
        for _ in range(4):
            assert server.send("POST", "/invocations", BODY).json == {"sums": SUMS, "threads": 2, "forked": True}


def test_the_server_takes_little_of_the_image() -> None:
    """What our toolkits require, and what that requires: 8 packages and 25 MB (10^6 bytes) at most."""
    found: dict[str, int] = {}
    waiting = ["slipway-pytorch-inference", "slipway-inference"]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        one = importlib.metadata.distribution(name)
        files = [Path(str(one.locate_file(file))) for file in one.files or []]
        assert files, name
        found[name] = sum(file.stat().st_size for file in files if file.exists())
        plain = [line for line in one.requires or [] if "extra ==" not in line]
        names = [re.split(r"[^A-Za-z0-9._-]", line)[0].lower() for line in plain]
        # What a marker leaves out is not there.
        waiting += [name for name in names if name in INSTALLED]
    assert {"uvicorn", "httptools", "uvloop", "websockets"} <= set(found)
    assert len(found) <= 8, found
    assert sum(found.values()) <= 25_000_000, found
