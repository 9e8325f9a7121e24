"""Checks of the MXNet toolkit with the real MXNet. See run.py."""

from __future__ import annotations

import io
import json
import random

import mxnet as mx
import numpy
from sagemaker_mxnet_serving_container import utils
from sagemaker_mxnet_serving_container.default_inference_handler import DefaultModuleInferenceHandler
from serving import Folder, Server, failing, logged

SERVICE = "sagemaker_mxnet_serving_container.handler_service"
MAIN = "sagemaker_mxnet_serving_container.serving:main"
BATCH = "SAGEMAKER_DEFAULT_MODEL_FIRST_DIMENSION_SIZE"
GLUON = """\
import mxnet as mx
def model_fn(model_dir):
    block = mx.gluon.nn.Dense(2, in_units=3, use_bias=False)
    block.initialize(mx.init.One())
    return block
"""


def module(code: str = "", inputs: tuple[str, ...] = ("data",), outputs: int = 1, **files: str) -> Folder:
    """A folder with a module that gives the sum of each row twice, for each output."""
    folder = Folder(code, **files)
    total = sum((mx.sym.Variable(name) for name in inputs[1:]), mx.sym.Variable(inputs[0]))
    symbol = mx.sym.FullyConnected(total, num_hidden=2, no_bias=True, name="sum")
    symbol = mx.sym.Group([symbol] * outputs) if outputs > 1 else symbol
    made = mx.mod.Module(symbol, data_names=inputs, label_names=None)
    made.bind([(name, (1, 3)) for name in inputs], for_training=False)
    made.init_params(mx.init.One())
    made.save_checkpoint(str(folder.model / "model"), 0)
    shapes = [{"name": name, "shape": [1, 3]} for name in inputs]
    (folder.model / "model-shapes.json").write_text(json.dumps(shapes))
    return folder


def npy(array: numpy.ndarray) -> bytes:
    buffer = io.BytesIO()
    numpy.save(buffer, array)
    return buffer.getvalue()


def test_module_answers_every_row_whatever_the_batch_size() -> None:
    folder = module()
    numbers = random.Random(1)
    for batch in ("", "1", "3", "4", "7"):
        served = folder.load(SERVICE, **{BATCH: batch})
        for count in (1, 2, 3, 4, 6, 7, 8, 12, 13):
            rows = [[numbers.randrange(100) for _ in range(3)] for _ in range(count)]
            answer = served.ask(json.dumps(rows))
            assert answer.status == 200
            assert answer.json == [[sum(row)] * 2 for row in rows], (batch, count)


def test_batch_size_is_the_variable_never_the_context() -> None:
    code = "def predict_fn(data, model):\n    return [list(model.data_shapes[0].shape)]\n"
    for batch, shape in (("5", [5, 3]), ("", [1, 3])):
        assert module(code).load(SERVICE, **{BATCH: batch}).ask("[[1, 2, 3]]").json == [shape]
    for wrong in ("0", "five", "-1", "2.5"):
        with failing(ValueError, f"{BATCH}={wrong}", "whole number"):
            module().load(SERVICE, **{BATCH: wrong})


def test_batch_size_can_be_given_by_hand() -> None:
    handler = DefaultModuleInferenceHandler()
    folder = str(module().model)
    for model in (
        handler.default_model_fn(folder, 6),
        handler.default_model_fn(folder, preferred_batch_size=6),
        handler.default_model_fn(folder, None, 6),
    ):
        assert model.data_shapes[0].shape == (6, 3)


def test_model_fn_runs_once_and_no_user_module_is_needed() -> None:
    code = GLUON.replace("    block = ", "    print_to.write('x')\n    block = ").replace(
        "import mxnet as mx\n",
        "import mxnet as mx, os\nprint_to = open(os.environ['SAGEMAKER_BASE_DIR'] + '/calls', 'w')\n",
    )
    folder = Folder(code)
    served = folder.load(SERVICE)
    assert served.ask("[[1, 2, 3]]").json == [[6.0, 6.0]]
    assert served.ask("[[1, 2, 3]]").json == [[6.0, 6.0]]
    __import__("sys").modules["inference"].print_to.flush()
    assert (folder.base / "calls").read_text() == "x"
    assert module().load(SERVICE).ask("[[1, 2, 3]]").json == [[6.0, 6.0]]


def test_gluon_block_reads_json_and_npy_and_writes_them() -> None:
    served = Folder(GLUON).load(SERVICE)
    rows = numpy.array([[1, 2, 3], [4, 5, 6]], "float64")
    answer = served.ask(npy(rows), "application/x-npy", "application/x-npy")
    assert (answer.status, answer.type) == (200, "application/x-npy")
    assert numpy.load(io.BytesIO(answer.body)).tolist() == [[6.0, 6.0], [15.0, 15.0]]
    lines = served.ask("[1, 2, 3]\n[4, 5, 6]\n", "application/jsonlines", "application/jsonlines")
    assert lines.body == b"[6.0, 6.0]\n[15.0, 15.0]"
    assert served.ask("[[1, 2, 3]]", None).json == [[6.0, 6.0]], "no content type means JSON"
    assert served.ask("1,2,3", "text/csv").status == 415
    assert served.ask("[[1, 2, 3]]", accept="text/csv").status == 406


def test_module_reads_csv_in_the_shape_of_its_input() -> None:
    served = module().load(SERVICE)
    for body in ("1,2,3", "1,2,3\n4,5,6", "1,2,3,4,5,6"):
        answer = served.ask(body, "TEXT/CSV; charset=utf-8", "text/csv;q=0.9, image/png")
        assert (answer.status, answer.type) == (200, "text/csv"), body
        assert answer.body == b"6.0,6.0\n" + (b"15.0,15.0\n" if "6" in body else b""), body
    refused = served.ask("1,2", "text/csv")
    assert refused.status == 400
    assert "2 values, which is no multiple of the model's input (3,)" in refused.message


def test_bodies_that_do_not_fit_are_400() -> None:
    served = module().load(SERVICE)
    for body, kind in (
        ("[1, 2, 3]", "application/json"),
        ("[[1, 2]]", "application/json"),
        ('{"a": 1}', "application/json"),
        ('[["a", "b", "c"]]', "application/json"),
        ("[[1, 2, 3], [4]]", "application/json"),
        (npy(numpy.ones((2, 2))), "application/x-npy"),
    ):
        assert served.ask(body, kind).status == 400, body


def test_several_outputs_are_a_list_of_lists() -> None:
    assert module(outputs=2).load(SERVICE).ask("[[1, 2, 3]]").json == [[[6.0, 6.0]], [[6.0, 6.0]]]
    two = GLUON.replace("    return block", "    return Two(block)") + (
        "class Two(mx.gluon.Block):\n"
        "    def __init__(self, block):\n        super().__init__()\n        self.block = block\n"
        "    def forward(self, x):\n        return [self.block(x), (x, x)]\n"
    )
    answer = Folder(two).load(SERVICE).ask("[[1, 2, 3]]")
    assert answer.json == [[[6.0, 6.0]], [[[1.0, 2.0, 3.0]], [[1.0, 2.0, 3.0]]]]


def test_a_model_of_several_inputs_needs_an_input_fn() -> None:
    folder = module(inputs=("left", "right"))
    answer = folder.load(SERVICE).ask("[[1, 2, 3]]")
    assert answer.status == 500
    assert "several inputs (left, right): give an input_fn" in answer.message
    code = """
        import json, mxnet as mx
        def input_fn(body, content_type):
            rows = {name: mx.nd.array(value) for name, value in json.loads(body).items()}
            return mx.io.NDArrayIter(rows, batch_size=1)
    """
    served = module(code, inputs=("left", "right")).load(SERVICE)
    assert served.ask('{"left": [[1, 2, 3]], "right": [[1, 1, 1]]}').json == [[9.0, 9.0]]


def test_input_fn_may_take_the_model_the_context_or_both() -> None:
    for parameters, shown in (
        ("body, content_type", "None, None"),
        ("body, content_type, model", "type(model).__name__, None"),
        ("body, content_type, context", "None, context.get_request_id()"),
        ("body, content_type, model, context", "type(model).__name__, context.get_request_id()"),
        ("body, content_type, context, model", "type(model).__name__, context.get_request_id()"),
        ("body, content_type, *, model", "type(model).__name__, None"),
        ("body, content_type, model=None, context=None", "type(model).__name__, context.get_request_id()"),
    ):
        code = f"def input_fn({parameters}):\n    return [{shown}]\ndef predict_fn(data, model):\n    return data\n"
        code += "def output_fn(prediction, accept):\n    import json\n    return json.dumps(prediction)\n"
        answer = module(code).load(SERVICE).ask("[[1, 2, 3]]")
        wanted = ["Module" if "model" in parameters else None, "id" if "context" in parameters else None]
        assert answer.json == wanted, parameters


def test_every_function_may_take_a_context() -> None:
    for name, parameters, value in (
        ("predict_fn", "data, model", "model.predict(data)"),
        ("output_fn", "prediction, accept", "str(prediction.asnumpy().tolist())"),
    ):
        code = f"def {name}({parameters}, context):\n    assert context.get_request_id() == 'id'\n    return {value}\n"
        assert module(code).load(SERVICE).ask("[[1, 2, 3]]").json == [[6.0, 6.0]], name
    code = (
        "def transform_fn(model, data, content_type, accept, context):\n    return context.get_request_id(), 'text/x'\n"
    )
    assert module(code).load(SERVICE).ask("[[1, 2, 3]]").body == b"id"


def test_another_kind_of_model_asks_for_functions() -> None:
    other = "def model_fn(model_dir):\n    return {'net': 1}\n"
    with failing(ValueError, "gave a dict, which has no default input_fn, predict_fn, output_fn", "transform_fn"):
        Folder(other).load(SERVICE)
    own = "def predict_fn(data, model):\n    return data\ndef output_fn(prediction, accept):\n    return 'own'\n"
    with failing(ValueError, "which has no default input_fn."):
        Folder(other + own).load(SERVICE)
    complete = own + "def input_fn(body, content_type):\n    return body\n"
    assert Folder(other + complete).load(SERVICE).ask("1").body == b"own"
    transform = "def transform_fn(model, data, content_type, accept):\n    return str(model['net'])\n"
    assert Folder(other + transform).load(SERVICE).ask("1").body == b"1"


def test_missing_and_wrong_files_are_named() -> None:
    for name in ("model-symbol.json", "model-0000.params", "model-shapes.json"):
        folder = module()
        (folder.model / name).unlink()
        with failing(
            ValueError, f"lacks {name}.", "model-symbol.json, model-0000.params, model-shapes.json", "model_fn"
        ):
            folder.load(SERVICE)
    folder = module()
    (folder.model / "model-shapes.json").write_text('[{"name": "image", "shape": [1, 3]}]')
    with failing(ValueError, "inputs that model-symbol.json does not have: image.", "It has data."):
        folder.load(SERVICE)


def test_device_is_the_cpu_without_gpus() -> None:
    assert utils.get_default_context() == mx.cpu()
    assert utils.get_default_context({"gpu_id": 1}) == mx.cpu()


def test_the_log_says_what_was_loaded_and_where() -> None:
    with logged("sagemaker-inference") as lines:
        module().load(SERVICE, **{BATCH: "4"})
    assert any("model-symbol.json" in line and "on cpu(0), 4 row(s) a pass" in line for line in lines), lines


def test_the_server_answers_and_ends_with_its_own_status() -> None:
    with Server(module().base, MAIN, SAGEMAKER_MODEL_SERVER_WORKERS="1") as server:
        server.wait_ready()
        assert server.send("POST", "/invocations", "[[1, 2, 3]]").json == [[6.0, 6.0]]
    assert server.process.returncode == 0
    with Server(Folder().base, MAIN) as server:
        assert server.process.wait(120) != 0
        assert "lacks model-symbol.json" in server.output.strip().splitlines()[-1], server.output


def test_workers_forked_from_a_loaded_model_answer() -> None:
    code = """
        import os, mxnet as mx
        from sagemaker_mxnet_serving_container import default_inference_handler as default
        def model_fn(model_dir):
            model = default.DefaultModuleInferenceHandler().default_model_fn(model_dir)
            mx.nd.dot(mx.nd.ones((500, 500)), mx.nd.ones((500, 500))).wait_to_read()
            model.loader = os.getpid()
            return model
        def predict_fn(data, model):
            assert os.getpid() != model.loader
            mx.nd.dot(mx.nd.ones((500, 500)), mx.nd.ones((500, 500))).wait_to_read()
            return model.predict(data)
    """
    with Server(module(code).base, MAIN, SLIPWAY_PRELOAD="true", SAGEMAKER_MODEL_SERVER_WORKERS="2") as server:
        server.wait_ready()
        for _ in range(4):
            assert server.send("POST", "/invocations", "[[1, 2, 3]]").json == [[6.0, 6.0]]
