"""What a worker does around the model: data and model on one device, threads, and what users' subclasses call."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections import namedtuple
from types import SimpleNamespace

import numpy
import pytest
from sagemaker_inference import errors
from sagemaker_pytorch_serving_container import handler_service, tensors, threads
from sagemaker_pytorch_serving_container.default_pytorch_inference_handler import DefaultPytorchInferenceHandler
from sagemaker_pytorch_serving_container.ts_environment import TorchServeEnvironment

Device = namedtuple("Device", "type number", defaults=[0])
Pair = namedtuple("Pair", "left right")


class Tensor:
    """Stands for a tensor: where it lies, and whether it may be changed."""

    def __init__(self, place="cpu", frozen=False):
        self.place, self.frozen = place, frozen

    def to(self, device):
        return Tensor(device, self.frozen)

    def is_inference(self):
        return self.frozen

    def clone(self):
        return Tensor(self.place)


class Model:
    """Stands for a module; it remembers in which order it was moved and set."""

    def __init__(self, *places):
        self.places, self.done = places, []

    def parameters(self):
        return [SimpleNamespace(device=place) for place in self.places]

    def to(self, device):
        self.done.append(device)
        return self

    def eval(self):
        self.done.append("eval")

    def __call__(self, data):
        return [data, Tensor(data.place, frozen=True)]


@pytest.fixture
def handler(torch):
    torch.cuda.count = 2
    torch.device = lambda kind, number=0: Device(kind, number)
    torch.inference_mode = contextlib.nullcontext
    torch.from_numpy = lambda array: array
    return DefaultPytorchInferenceHandler()


def second_gpu():
    return SimpleNamespace(system_properties={"gpu_id": 1})


@pytest.mark.parametrize(
    ("places", "moved", "where"),
    [
        ([Device("cpu")], [Device("cuda", 1)], Device("cuda", 1)),
        ([], [Device("cuda", 1)], Device("cuda", 1)),
        ([Device("cuda", 0)], [], Device("cuda", 0)),
        ([Device("cuda", 0), Device("cpu")], [], Device("cuda", 1)),
    ],
)
def test_data_goes_where_the_model_is_which_is_moved_once(handler, places, moved, where):
    model = Model(*places)
    for _ in range(2):
        given, made = handler.default_predict_fn(Tensor(), model, second_gpu())
        assert given.place == where
        assert not made.frozen, "a user's output_fn may change it in place"
    assert model.done == [*moved, "eval"]


def test_another_model_is_prepared_anew(handler):
    one, other = Model(Device("cpu")), Model(Device("cpu"))
    handler.default_predict_fn(Tensor(), one)
    handler.default_predict_fn(Tensor(), other)
    assert other.done == [Device("cuda", 0), "eval"]


def test_what_cannot_be_called_is_no_model(handler):
    with pytest.raises(TypeError, match="model_fn gave a dict, which cannot be called: give a predict_fn"):
        handler.default_predict_fn(Tensor(), {})


def test_bodies_become_arrays_of_numbers(handler):
    assert handler.default_input_fn("[[1, 2]]", "application/json").dtype == numpy.float32
    with pytest.raises(errors.UnsupportedFormatError):
        handler.default_input_fn(b"", "application/x-npz")
    with pytest.raises(errors.GenericInferenceToolkitError, match="these are texts") as raised:
        handler.default_input_fn('["a"]', "application/json")
    assert raised.value.status_code == 400


@pytest.mark.parametrize(
    ("array", "as_float", "dtype"),
    [
        (numpy.array([1, 2]), True, "float32"),
        (numpy.array([1, 2], ">i4"), False, "int32"),
        (numpy.array([1j]), False, "complex128"),
        (numpy.broadcast_to(numpy.float64(1), (2,)), False, "float64"),
        (numpy.arange(3)[::-1], False, "int64"),
    ],
)
def test_arrays_that_a_tensor_can_stand_on(handler, array, as_float, dtype):
    found = tensors.from_array(array, as_float=as_float)
    assert found.dtype == dtype
    assert found.dtype.isnative
    assert found.flags.writeable
    assert all(stride >= 0 for stride in found.strides)
    assert found.tolist() == array.tolist()


def test_a_writeable_array_is_not_copied(handler):
    array = numpy.zeros(3, numpy.float32)
    assert tensors.from_array(array, as_float=True) is array


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (numpy.array([1j]), "of type complex128"),
        (numpy.array(["a"]), "texts"),
        (numpy.array([None]), "objects"),
        (numpy.zeros(1, "i4,f8"), r"columns of different types \(int32, float64\)"),
    ],
)
def test_what_are_no_numbers_is_named(handler, array, said):
    with pytest.raises(TypeError, match=said):
        tensors.from_array(array, as_float=True)


@dataclasses.dataclass
class Output:
    """As model libraries return them."""

    logits: Tensor


def test_tensors_are_moved_however_deep_they_lie():
    moved = tensors.to_device({"a": (Pair(Tensor(), 3), [Output(Tensor())]), "b": "text"}, "gpu")
    pair, (output,) = moved["a"]
    assert (pair.left.place, pair.right, output["logits"].place, moved["b"]) == ("gpu", 3, "gpu", "text")
    assert type(pair) is Pair
    unchanged = {"a": [1, (2,)]}
    assert tensors.to_device(unchanged, "gpu") is unchanged


@pytest.fixture
def counted(torch, monkeypatch):
    """PyTorch's threads, and what is to run in each forked process."""
    found = SimpleNamespace(threads=8, hooks=[])
    torch.get_num_threads = lambda: found.threads
    torch.set_num_threads = lambda number: setattr(found, "threads", number)
    monkeypatch.setattr(os, "register_at_fork", lambda *, after_in_child: found.hooks.append(after_in_child))
    return found


def test_one_thread_until_the_fork_and_all_after_it(counted):
    threads.wait_for_fork()
    assert counted.threads == 1
    (in_child,) = counted.hooks
    in_child()
    assert counted.threads == 8
    counted.threads = 1
    in_child()
    assert counted.threads == 1, "a process that user code forks is none of ours"


def test_threads_that_model_fn_has_set_stay(counted):
    threads.wait_for_fork()
    counted.threads = 3
    counted.hooks[0]()
    assert counted.threads == 3


@pytest.mark.parametrize(("preload", "during_load"), [("true", 1), ("false", 8)])
def test_only_a_model_that_is_forked_is_loaded_with_one_thread(counted, monkeypatch, preload, during_load):
    monkeypatch.setenv("SLIPWAY_PRELOAD", preload)
    handler_service.HandlerService()
    assert counted.threads == during_load


def test_the_service_looks_for_a_model_of_pytorch(tmp_path):
    context = SimpleNamespace(system_properties={"model_dir": str(tmp_path)})
    with pytest.raises(ValueError, match=r"is empty: there is no model\. Expected: model\.pt"):
        handler_service.HandlerService().initialize(context)


def test_torchserve_s_variables_are_read_with_its_units(monkeypatch):
    read = ("batch_size", "max_batch_delay", "min_workers", "max_workers", "response_timeout")
    assert TorchServeEnvironment().min_workers == 1
    for name, value in {"BATCH_SIZE": "4", "MAX_BATCH_DELAY": "250", "MIN_WORKERS": "3", "MAX_WORKERS": "3"}.items():
        monkeypatch.setenv(f"SAGEMAKER_TS_{name}", value)
    monkeypatch.setenv("SAGEMAKER_TS_RESPONSE_TIMEOUT", "90")
    found = TorchServeEnvironment()
    assert [getattr(found, name) for name in read] == [4, 250, 3, 3, 90]
