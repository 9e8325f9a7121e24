"""Weights for a user's model: what is read, what is refused, and what is said of names that do not fit."""

from __future__ import annotations

import json
import pickle
from types import SimpleNamespace

import pytest
from sagemaker_pytorch_serving_container import weights
from sagemaker_pytorch_serving_container.models import ModelLoadError

from .test_archives import archive


class Tensor(SimpleNamespace):
    """Stands for a tensor of which only the type counts."""

    def to(self, dtype):
        return Tensor(dtype=dtype)


class Net:
    """Stands for a module with one weight."""

    def __init__(self):
        self.given = self.mode = None

    def state_dict(self):
        return {"layer.weight": Tensor(dtype="float32")}

    def load_state_dict(self, state, *, strict, assign):
        if strict and set(state) != {"layer.weight"}:
            raise RuntimeError("Missing key(s) in state_dict: layer.weight.")
        self.given = SimpleNamespace(state=state, assign=assign)

    def eval(self):
        self.mode = "eval"


@pytest.fixture
def saved(torch, tmp_path):
    """Writes a file of torch.save; `saved.asked` is what torch.load is asked for."""

    def save(content, name="model.pth"):
        contents[name] = content
        return archive(tmp_path / name, net__data_dot_pkl=pickle.dumps({}, 2))

    def load(path, **asked):
        save.asked = asked
        if isinstance(contents[path.name], Exception):
            raise contents[path.name]
        return contents[path.name]

    contents = {}
    torch.load = load
    return save


def test_a_model_is_filled_without_a_copy_in_its_own_types_and_set_to_eval(saved):
    net = weights.load(saved({"layer.weight": Tensor(dtype="bfloat16")}), Net())
    assert net.given.state["layer.weight"].dtype == "float32"
    assert net.given.assign, "a copy would be each worker's own"
    assert net.mode == "eval"


@pytest.mark.parametrize("allowed", [False, True])
def test_only_tensors_are_unpickled_unless_the_caller_says_so(saved, allowed):
    weights.read(saved({}), allow_unpickling=allowed)
    assert saved.asked == {"map_location": "cpu", "weights_only": not allowed, "mmap": True}


def test_what_is_more_than_tensors_is_refused_with_both_ways_out(saved):
    with pytest.raises(ModelLoadError, match=r"Save model\.state_dict\(\) alone; .*allow_unpickling=True"):
        weights.read(saved(pickle.UnpicklingError("unsupported class")))


@pytest.mark.parametrize(
    ("content", "given", "said"),
    [
        ({"module.layer.weight": Tensor(dtype="f")}, {}, r"pass prefix='module\.'"),
        ({"model": {"layer.weight": Tensor(dtype="f")}}, {}, r"pass key='model'"),
        ({"epoch": 3, "model": {}}, {"key": "state"}, r"no state dict at 'state'; its keys are 'epoch', 'model'\."),
        ({f"k{n}": 0 for n in range(10)}, {"key": "state"}, r"'k7' and 2 more\."),
        ([1], {}, "holds a list, not weights by name"),
    ],
)
def test_what_does_not_fit_is_told_with_the_argument_that_helps(saved, content, given, said):
    with pytest.raises(ModelLoadError, match=said):
        weights.load(saved(content), Net(), **given)


def test_prefix_and_key_lead_to_the_weights(saved):
    inner = {"module.layer.weight": Tensor(dtype="float32")}
    assert list(weights.load(saved({"model": inner}), Net(), key="model", prefix="module.").given.state) == [
        "layer.weight"
    ]


def index(folder, shards):
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps(shards if isinstance(shards, list) else {"weight_map": shards}))
    return path


def test_an_index_stands_for_all_its_shards(saved, tmp_path):
    saved({"a": 1}, "one.pth")
    saved({"b": 2}, "two.pth")
    assert weights.read(index(tmp_path, {"a": "one.pth", "b": "two.pth"})) == {"a": 1, "b": 2}


@pytest.mark.parametrize("name", ["../outside.pth", "/outside.pth", "none.pth"])
def test_shards_that_are_not_beside_their_index_are_refused(saved, tmp_path, name):
    (tmp_path / "model").mkdir()
    saved({"a": 1}, "outside.pth")
    with pytest.raises(ModelLoadError, match=rf"not beside it: {name}\."):
        weights.read(index(tmp_path / "model", {"a": name}))


def test_an_index_of_another_form_is_refused(tmp_path):
    with pytest.raises(ModelLoadError, match="needs a JSON object with a weight_map"):
        weights.read(index(tmp_path, ["a"]))


def test_a_whole_model_is_no_weights(tmp_path):
    path = archive(tmp_path / "net.pt", net__data_dot_pkl=b"", net__constants_dot_pkl=b"")
    with pytest.raises(ModelLoadError, match=r"it is TorchScript\. It is a whole model: the default model_fn serves"):
        weights.read(path)
