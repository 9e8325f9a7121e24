"""The default functions for a module and for a Gluon block, with a stand-in for MXNet that keeps what it is given."""

from __future__ import annotations

import importlib
import json
from types import SimpleNamespace

import numpy
import pytest
from sagemaker_inference import errors
from sagemaker_mxnet_serving_container import checkpoint, handler_service
from sagemaker_mxnet_serving_container.default_inference_handler import (
    DefaultGluonBlockInferenceHandler,
    DefaultModuleInferenceHandler,
    DefaultMXNetInferenceHandler,
)
from sagemaker_mxnet_serving_container.mxnet_model import MXNetModel
from sagemaker_mxnet_serving_container.mxnet_module_transformer import MXNetModuleTransformer


class Array(SimpleNamespace):
    """Stands for an NDArray."""

    def asnumpy(self):
        return self.array


class Module:
    """Stands for a module; predict gives the sums of the rows."""

    def __init__(self, **made):
        self.made, self.data_shapes = made, [SimpleNamespace(name="data", shape=(4, 2, 3))]

    def bind(self, **bound):
        self.bound = bound

    def set_params(self, arguments, states, *, allow_missing):
        self.given = (arguments, states, allow_missing)

    def predict(self, data):
        return Array(array=data.data.array.sum(axis=(1, 2)))


class Block:
    """Stands for a Gluon block."""

    def __call__(self, data):
        return [Array(array=data.array * 2), (Array(array=data.array),)]


@pytest.fixture
def framework(mxnet):
    symbol = SimpleNamespace(list_inputs=lambda: ["data", "weight"])
    mxnet.nd = SimpleNamespace(array=lambda array, ctx=None: Array(array=array, ctx=ctx))
    mxnet.io = SimpleNamespace(NDArrayIter=lambda data, **given: SimpleNamespace(data=data, **given))
    mxnet.mod = SimpleNamespace(BaseModule=Module, Module=Module)
    mxnet.gluon = SimpleNamespace(Block=Block)
    mxnet.model = SimpleNamespace(load_checkpoint=lambda prefix, epoch: (symbol, {"weight": 1}, {}))
    return mxnet


@pytest.fixture
def folder(tmp_path):
    """A model folder with a module's files, and a script where one is given."""

    def make(script="", inputs=("data",)):
        for name in checkpoint.FILES:
            (tmp_path / name).write_text(json.dumps([{"name": name, "shape": [1, 2, 3]} for name in inputs]))
        (tmp_path / "code").mkdir()
        if script:
            (tmp_path / "code" / "inference.py").write_text(script)
        return str(tmp_path)

    return make


def test_a_module_is_bound_for_prediction_with_its_rows(framework, folder):
    module = checkpoint.load(folder(), "gpu(0)", 4)
    assert module.made["data_names"] == ["data"]
    assert module.made["context"] == "gpu(0)"
    assert module.bound == {"for_training": False, "data_shapes": [("data", (4, 2, 3))]}
    assert module.given == ({"weight": 1}, {}, True)


def test_inputs_that_the_symbol_lacks_are_named_beside_its_own(framework, folder):
    with pytest.raises(ValueError, match=r"does not have: image\. It has data\."):
        checkpoint.load(folder(inputs=("data", "image")), "cpu", 1)


@pytest.mark.parametrize(
    ("body", "kind", "shape"),
    [
        ("[[[1, 2, 3], [4, 5, 6]]]", "application/json", (1, 2, 3)),
        ("1,2,3,4,5,6\n1,2,3,4,5,6\n", "text/csv", (2, 2, 3)),
        ("[[[1, 2, 3], [4, 5, 6]]]", None, (1, 2, 3)),
    ],
)
def test_rows_of_a_module_come_in_its_batches(framework, body, kind, shape):
    made = DefaultModuleInferenceHandler().default_input_fn(body, kind, model=Module())
    assert made.data.array.shape == shape
    assert made.data.array.dtype == numpy.float32
    assert (made.batch_size, made.last_batch_handle) == (4, "pad")


@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        ("[[1, 2, 3]]", "application/json", r"has the shape \(1, 3\), the model takes \('rows', 2, 3\)"),
        ("[[[1, 2], [4, 5]]]", "application/json", r"has the shape \(1, 2, 2\)"),
        ("1,2,3,4\n", "text/csv", r"has 4 values, which is no multiple"),
        ('["a"]', "application/json", "is no array of numbers"),
        ("[", "application/json", "JSON"),
    ],
)
def test_a_body_that_does_not_fit_is_a_fault_of_the_client(framework, body, kind, said):
    with pytest.raises(errors.GenericInferenceToolkitError, match=said) as raised:
        DefaultModuleInferenceHandler().default_input_fn(body, kind, model=Module())
    assert raised.value.status_code == 400


def test_a_body_of_another_type_is_refused(framework):
    with pytest.raises(errors.UnsupportedFormatError):
        DefaultModuleInferenceHandler().default_input_fn(b"", "application/x-npz", model=Module())


def test_a_module_of_several_inputs_needs_an_input_fn(framework):
    model = Module()
    model.data_shapes.append(SimpleNamespace(name="mask", shape=(4,)))
    with pytest.raises(ValueError, match=r"several inputs \(data, mask\)"):
        DefaultModuleInferenceHandler().default_input_fn("[]", None, model=model)


def test_data_of_a_block_lies_on_the_worker_s_device(framework):
    framework.count = 2
    context = SimpleNamespace(system_properties={"gpu_id": 1})
    assert DefaultMXNetInferenceHandler().default_input_fn("[1]", None, context).ctx == "gpu(1)"


@pytest.mark.parametrize(("preferred", "rows"), [(None, 2), (5, 5)])
def test_rows_of_the_default_model(framework, folder, monkeypatch, preferred, rows):
    monkeypatch.setenv(checkpoint.BATCH_SIZE_ENV, "2")
    model = DefaultMXNetInferenceHandler().default_model_fn(folder(), preferred)
    assert model.bound["data_shapes"] == [("data", (rows, 2, 3))]


def served(folder, script):
    transformer = MXNetModuleTransformer()
    transformer.validate_and_initialize(folder(script))
    return transformer


def test_the_kind_of_the_model_chooses_its_defaults(framework, folder):
    script = "import mxnet\ndef model_fn(model_dir):\n    return mxnet.gluon.Block()\n"
    block = served(folder, script).served
    data = block.input.call("[1, 2]", "application/json", None)
    prediction = block.predict.call(data, block.value)
    assert block.output.call(prediction, "application/json") == ("[[2.0, 4.0], [[1.0, 2.0]]]", "application/json")


def test_a_module_s_defaults_get_the_module(framework, folder):
    module = served(folder, "").served
    data = module.input.call("[[[1, 2, 3], [4, 5, 6]]]", "application/json")
    assert module.output.call(module.predict.call(data, module.value), "*/*")[0] == "[21.0]"


def test_a_model_of_neither_kind_needs_functions(framework, folder):
    script = "def model_fn(model_dir):\n    return 3\ndef predict_fn(data, model):\n    return data\n"
    with pytest.raises(ValueError, match=r"gave a int, which has no default input_fn, output_fn\. Give a model_fn"):
        served(folder, script)


def test_a_transform_fn_serves_any_model(framework, folder):
    script = "def model_fn(model_dir):\n    return 3\ndef transform_fn(model, body, kind, accept):\n    return 'mine'\n"
    transformer = served(folder, script)
    assert transformer.served.value == 3
    assert transformer._transform_fn(None, None, None, None) == "mine"


def test_an_input_fn_that_wants_the_model_has_it(framework, folder):
    script = "def input_fn(body, kind, model):\n    return (body, model)\n"
    transformer = served(folder, script)
    body, model = transformer.served.input.call("b", "text/csv", None)
    assert body == "b"
    assert model is transformer.served.value


def test_a_service_loads_its_model_once(framework, folder, monkeypatch):
    loads = []
    monkeypatch.setattr(MXNetModel, "load", lambda self, *given: loads.append(given[0]))
    monkeypatch.setattr(MXNetModel, "value", None, raising=False)
    context = SimpleNamespace(system_properties={"model_dir": folder()})
    service = handler_service.HandlerService()
    for _ in range(2):
        service.initialize(context)
    assert loads == [context.system_properties["model_dir"]]


@pytest.mark.parametrize(
    ("module", "name", "base"),
    [
        ("default_inference_handler", "DefaultMXNetInferenceHandler", "DefaultInferenceHandler"),
        ("default_inference_handler", "DefaultModuleInferenceHandler", "DefaultMXNetInferenceHandler"),
        ("default_inference_handler", "DefaultGluonBlockInferenceHandler", "DefaultMXNetInferenceHandler"),
        ("mxnet_module_transformer", "MXNetModuleTransformer", "Transformer"),
        ("handler_service", "HandlerService", "DefaultHandlerService"),
    ],
)
def test_names_that_old_handlers_import_and_extend(module, name, base):
    found = getattr(importlib.import_module(f"sagemaker_mxnet_serving_container.{module}"), name)
    assert base in [one.__name__ for one in found.__mro__]
    # Old handlers call them so.
    assert type("Mine", (found,), {})()


def test_a_block_is_called_and_a_module_predicts():
    block = DefaultGluonBlockInferenceHandler().default_predict_fn([1], lambda data: [*data, "called"])
    assert block == [1, "called"]
    module = SimpleNamespace(predict=lambda data: [*data, "predicted"])
    assert DefaultModuleInferenceHandler().default_predict_fn([1], module) == [1, "predicted"]
