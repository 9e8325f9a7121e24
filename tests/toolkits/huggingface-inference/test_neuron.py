"""The rules for Neuron devices. There is none here, nor the package that uses them."""

from __future__ import annotations

import sys
import types

import pytest
from sagemaker_huggingface_inference_toolkit import neuron
from sagemaker_huggingface_inference_toolkit.default_inference_handler import HuggingFaceInferenceHandler
from sagemaker_huggingface_inference_toolkit.settings import HuggingFaceSettings
from sagemaker_inference.settings import SettingsError


def read(**environ):
    return HuggingFaceSettings.read(environ)


@pytest.fixture
def optimum(monkeypatch):
    """A stand-in for optimum-neuron, and what its pipeline was called with."""
    calls = []
    package, part, pipelines = (types.ModuleType(f"optimum{name}") for name in ("", ".neuron", ".neuron.pipelines"))
    package.__path__ = part.__path__ = []
    part.__spec__ = types.SimpleNamespace(name="optimum.neuron")
    pipelines.pipeline = lambda task, **named: calls.append((task, named)) or "made"
    for module in (package, part, pipelines):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return calls


def test_it_is_used_where_it_can_be_imported(optimum):
    assert neuron.is_there()


def test_it_is_not_there():
    assert not neuron.is_there()


def test_a_compiled_model_has_its_shapes(model):
    compiled = {"neuron": {"static_batch_size": 1, "static_sequence_length": 128}}
    assert neuron.shapes(model(config_json=compiled), read()) is None


def test_a_model_to_compile_needs_a_length(model):
    folder = model(config_json={})
    with pytest.raises(SettingsError, match="HF_OPTIMUM_SEQUENCE_LENGTH is not set"):
        neuron.shapes(folder, read())
    length = {"HF_OPTIMUM_SEQUENCE_LENGTH": "64"}
    assert neuron.shapes(folder, read(**length)) == {"batch_size": 1, "sequence_length": 64}
    assert neuron.shapes(folder, read(**length, HF_OPTIMUM_BATCH_SIZE="4")) == {"batch_size": 4, "sequence_length": 64}


def test_a_task_without_pipeline_is_refused(model):
    with pytest.raises(SettingsError, match="HF_TASK=summarization cannot run on Neuron devices; these can: feature"):
        neuron.pipeline("summarization", model(), read())


def test_every_model_goes_through_it(optimum, model):
    folder = model(config_json={"architectures": ["BertForMaskedLM"]})
    handler = HuggingFaceInferenceHandler(read(HF_OPTIMUM_SEQUENCE_LENGTH="64"))
    assert handler.default_model_fn(folder) == "made"
    shapes = {"batch_size": 1, "sequence_length": 64}
    assert optimum == [("fill-mask", {"model": folder, "export": True, "input_shapes": shapes})]
