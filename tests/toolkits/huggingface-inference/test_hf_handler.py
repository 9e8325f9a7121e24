"""The default functions, with pipelines that only say what they got."""

from __future__ import annotations

import importlib.util
import inspect
import io
import re
import sys
import types
import wave

import numpy
import pytest
from sagemaker_huggingface_inference_toolkit import (
    default_inference_handler,
    handler_service,
    media,
    pipelines,
    places,
    request,
    transformers_utils,
)
from sagemaker_huggingface_inference_toolkit.decoder_encoder import Records
from sagemaker_huggingface_inference_toolkit.default_inference_handler import HuggingFaceInferenceHandler
from sagemaker_huggingface_inference_toolkit.settings import HuggingFaceSettings
from sagemaker_inference import errors


def handler(alone=False, **environ):
    return HuggingFaceInferenceHandler(HuggingFaceSettings.read(environ), alone=alone)


def echo(*inputs, **parameters):
    return {"inputs": inputs, "parameters": parameters}


@pytest.mark.parametrize(
    ("data", "inputs", "parameters"),
    [
        ({"inputs": "a"}, "a", {}),
        ({"inputs": "a", "parameters": {"top_k": 1}, "other": 2}, "a", {"top_k": 1}),
        ({"inputs": None, "parameters": None}, None, {}),
        ({"question": "q", "context": "c"}, {"question": "q", "context": "c"}, {}),
        ({"question": "q", "parameters": {"top_k": 1}}, {"question": "q"}, {"top_k": 1}),
        ("a", "a", {}),
        (["a", "b"], ["a", "b"], {}),
        (5, 5, {}),
    ],
)
def test_inputs_and_parameters(data, inputs, parameters):
    assert request.split(data) == (inputs, parameters)
    assert handler().default_predict_fn(data, echo) == {"inputs": (inputs,), "parameters": parameters}


def test_parameters_must_be_an_object():
    with pytest.raises(errors.GenericInferenceToolkitError, match="parameters must be a JSON object"):
        request.split({"inputs": "a", "parameters": "b"})


def test_records_are_predicted_one_by_one_in_order():
    found = handler().default_predict_fn(Records([{"inputs": 1}, 2]), echo)
    assert isinstance(found, Records)
    assert [answer["inputs"] for answer in found] == [(1,), (2,)]


def test_a_record_that_fails_is_named():
    def pipeline(value):
        raise ValueError("no good")

    with pytest.raises(errors.GenericInferenceToolkitError, match="Record 1: The request cannot be used") as caught:
        handler().default_predict_fn(Records([1]), pipeline)
    assert caught.value.status_code == 400


@pytest.mark.parametrize("error", [ValueError("bad"), TypeError("bad"), KeyError("bad")])
def test_a_request_that_makes_no_sense_is_400(error):
    def pipeline(inputs):
        raise error

    with pytest.raises(errors.GenericInferenceToolkitError, match=f"for fill-mask: {type(error).__name__}: ") as caught:
        handler(HF_TASK="fill-mask").default_predict_fn("a", pipeline)
    assert caught.value.status_code == 400
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    "error", [RuntimeError("lost"), MemoryError(), AttributeError("x"), RuntimeError("out of memory")]
)
def test_other_failures_pass_through(error):
    def pipeline(inputs):
        raise error

    with pytest.raises(type(error)) as caught:
        handler().default_predict_fn("a", pipeline)
    assert caught.value is error


def test_a_text_that_is_too_long_is_400():
    class Pipeline:
        tokenizer = staticmethod(lambda text: {"input_ids": text.split()})
        model = types.SimpleNamespace(config=types.SimpleNamespace(max_position_embeddings=3))
        message = "The size of tensor a (4) must match the size of tensor b (3)"

        def __call__(self, inputs):
            raise RuntimeError(self.message)

    Pipeline.tokenizer.model_max_length = 10**30
    with pytest.raises(errors.GenericInferenceToolkitError, match="a text of 4 tokens is longer than the 3"):
        handler().default_predict_fn({"inputs": ["a", {"context": "a b c d"}]}, Pipeline())
    with pytest.raises(RuntimeError):
        handler().default_predict_fn("a b c", Pipeline())
    Pipeline.message = "CUDA out of memory"
    with pytest.raises(RuntimeError, match="out of memory"):
        handler().default_predict_fn("a b c d", Pipeline())


@pytest.mark.parametrize("task", ["zero-shot-classification", "zero-shot-image-classification"])
def test_labels_are_asked_for(task):
    with pytest.raises(errors.GenericInferenceToolkitError, match=r"needs parameters\.candidate_labels"):
        handler(HF_TASK=task).default_predict_fn("a", echo)


@pytest.mark.parametrize("task", ["zero-shot-classification", "table-question-answering"])
def test_tasks_that_a_row_cannot_ask(task):
    with pytest.raises(errors.GenericInferenceToolkitError, match=f"{task} cannot be asked by CSV") as caught:
        handler(HF_TASK=task).default_input_fn("inputs\na", "text/csv")
    assert caught.value.status_code == 400
    assert handler(HF_TASK="fill-mask").default_input_fn("inputs\na", "text/csv") == {"inputs": ["a"]}


def test_features_have_three_dimensions():
    nested = [[[1.0], [2.0]], [[3.0]]]
    assert request.flattened([[text] for text in nested]) == nested
    assert request.flattened([nested[0]]) == [nested[0]]
    assert request.flattened([[[1.0]]]) == [[[1.0]]]


def test_lines_are_answered_by_lines_where_the_client_has_no_wish():
    class Context:
        accept = None

        def get_request_header(self, idx, name):
            return self.accept

    context = Context()
    answers = Records([1, 2])
    assert handler().default_output_fn(answers, "application/json", context) == ("1\n2", "application/jsonlines")
    context.accept = "*/*"
    assert handler().default_output_fn(answers, "application/json", context)[1] == "application/jsonlines"
    context.accept = "application/json"
    assert handler().default_output_fn(answers, "application/json", context) == ("[1,2]", "application/json")
    context.accept = None
    assert handler().default_output_fn([1, 2], "application/json", context) == ("[1,2]", "application/json")


def test_a_device_map_needs_accelerate(monkeypatch):
    gpu, cpu = types.SimpleNamespace(type="cuda"), types.SimpleNamespace(type="cpu")
    there = {"accelerate"}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name if name in there else None)
    assert handler(HF_DEVICE_MAP="balanced")._device_map(cpu) == "balanced"
    assert handler()._device_map(gpu) is None
    own_code = {"HF_MODEL_ID": "org/name", "HF_TRUST_REMOTE_CODE": "1"}
    assert handler(alone=True, **own_code)._device_map(gpu) == "auto"
    assert handler(alone=True, **own_code)._device_map(cpu) is None
    assert handler(alone=False, **own_code)._device_map(gpu) is None
    there.clear()
    assert handler(alone=True, **own_code)._device_map(gpu) is None
    with pytest.raises(ImportError, match="HF_DEVICE_MAP needs the package accelerate"):
        handler(HF_DEVICE_MAP="auto")._device_map(gpu)


def test_the_library_is_called_with_a_device_or_a_map(monkeypatch):
    calls = []
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    library = types.ModuleType("transformers")
    library.pipeline = lambda task, **named: calls.append((task, named))
    monkeypatch.setitem(sys.modules, "transformers", library)
    source = transformers_utils.Source("/m", "cuda:1", trust_remote_code=True)
    transformers_utils.library_pipeline("fill-mask", source)
    transformers_utils.library_pipeline("fill-mask", transformers_utils.Source("/m", "cuda:1", device_map="auto"))
    assert calls == [
        ("fill-mask", {"model": "/m", "trust_remote_code": True, "device": "cuda:1"}),
        ("fill-mask", {"model": "/m", "trust_remote_code": False, "device_map": "auto"}),
    ]


def test_where_a_model_is_can_be_told():
    model = types.SimpleNamespace(hf_device_map={"a": 0, "b": 1, "c": 1}, device="cuda:0")
    assert default_inference_handler._place(types.SimpleNamespace(model=model)) == "0 (1 parts), 1 (2 parts)"
    assert default_inference_handler._place(types.SimpleNamespace(model=types.SimpleNamespace(device="cpu"))) == "cpu"


def test_the_model_of_the_hub_goes_before_that_of_the_archive(monkeypatch, tmp_path):
    monkeypatch.setenv(places.LOADED_FOLDER, "/models/org__name")
    read = HuggingFaceSettings.read
    assert handler_service.model_folder(read({"HF_MODEL_ID": "org/name"})) == "/models/org__name"
    assert handler_service.model_folder(read({"HF_MODEL_ID": str(tmp_path)})) == str(tmp_path)
    assert handler_service.model_folder(read({})) is None


def test_the_old_class_can_be_subclassed(tmp_path, monkeypatch):
    monkeypatch.setenv("SAGEMAKER_BASE_DIR", str(tmp_path))

    class Own(handler_service.HuggingFaceHandlerService):
        def load(self, model_dir, context=None):
            return lambda inputs: [inputs, 1]

        def preprocess(self, input_data, content_type, context=None):
            return {"inputs": input_data}

    from sagemaker_inference.context import Context
    from sagemaker_inference.service import Headers, Place, Request

    service = Own()
    place = Place(str(tmp_path))
    service.initialize(Context(place))
    context = Context(place, [Request(b"a", Headers.of({"content-type": "application/json"}), "id")])
    assert service.handle([{"body": b"a"}], context) == ['["a",1]']


@pytest.mark.parametrize("width", [1, 2, 4])
def test_sounds_are_mixed_and_brought_to_the_rate(width, monkeypatch):
    monkeypatch.setattr(media.shutil, "which", lambda name: None)
    monkeypatch.setitem(sys.modules, "soundfile", None)
    rate, wanted = 8000, 16000
    tone = numpy.sin(2 * numpy.pi * 440 * numpy.arange(rate) / rate)
    scale = 127 if width == 1 else (1 << (8 * width - 1)) - 1
    stereo = numpy.stack([tone, numpy.zeros_like(tone)], axis=1) * scale + (128 if width == 1 else 0)
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(stereo.astype("u1" if width == 1 else f"<i{width}").tobytes())
    samples = media.decode_sound(buffer.getvalue(), wanted)
    assert (samples.shape, samples.dtype) == ((wanted,), numpy.float32)
    expected = numpy.sin(2 * numpy.pi * 440 * numpy.arange(wanted) / wanted) / 2
    assert numpy.abs(samples - expected).max() < 0.02


def test_resampling_keeps_no_tone_that_the_rate_cannot_hold():
    high = numpy.sin(2 * numpy.pi * 7000 * numpy.arange(16000) / 16000).astype(numpy.float32)
    assert numpy.abs(media.resample(high, 16000, 8000)).max() < 1e-3
    assert media.resample(high, 16000, 16000) is high
    assert len(media.resample(numpy.zeros(0, numpy.float32), 8000, 16000)) == 0


@pytest.mark.parametrize("text", ["/etc/passwd", "file:///etc/passwd", "../model.wav", "data:audio/wav;base64,!"])
def test_a_request_cannot_name_a_file(text):
    with pytest.raises(errors.UndecodableError, match="give an http or https address, or base64"):
        media.prepare("automatic-speech-recognition", text, None)
    with pytest.raises(errors.UndecodableError, match="give an http or https address, or base64"):
        media.prepare("visual-question-answering", {"image": text, "question": "q"}, None)


def test_addresses_and_texts_are_left_alone():
    assert media.prepare("image-classification", "https://host/a.png", None) == "https://host/a.png"
    assert media.prepare("fill-mask", "/etc/passwd", None) == "/etc/passwd"
    chat = [{"role": "user", "content": "hello"}]
    assert media.prepare("image-text-to-text", chat, None) == chat


def test_each_step_of_a_request_is_timed_and_told(caplog):
    reported = []

    class Context:
        def get_request_header(self, idx, name):
            return None

        @property
        def metrics(self):
            return types.SimpleNamespace(add_time=lambda name, value, unit: reported.append((name, value, unit)))

    served, context = handler(), Context()
    with caplog.at_level("INFO"):
        data = served.default_input_fn('"a"', "application/json", context)
        prediction = served.default_predict_fn(data, lambda inputs: [inputs], context)
        served.default_output_fn(prediction, "application/json", context)
    assert re.fullmatch(r"preprocess \d+\.\d\d ms, predict \d+\.\d\d ms, postprocess \d+\.\d\d ms", caplog.messages[-1])
    ((name, value, unit),) = reported
    assert (name, unit) == ("Transform Fn", "ms")
    assert value >= 0
    served.default_output_fn(prediction, "application/json", Context())
    assert len(reported) == 1, "user functions stood between, or the request is another one"


def test_without_pytorch_the_library_gets_the_number_of_the_gpu(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    place = default_inference_handler._worker_device
    assert [place({"gpu_id": given}) for given in (None, "", 1, "0")] == [-1, -1, 1, 0]
    with pytest.raises(ImportError, match="conversational needs PyTorch"):
        pipelines.make("conversational", None)


@pytest.mark.parametrize(("number", "device"), [(-1, "cpu"), (0, "cuda:0"), (1, "cuda:1")])
@pytest.mark.parametrize(("task", "by"), [("fill-mask", "library"), ("summarization", "own")])
def test_the_number_of_a_gpu_is_its_device(monkeypatch, number, device, task, by):
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(device=str))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(transformers_utils, "library_tasks", lambda: frozenset({"fill-mask"}))
    monkeypatch.setattr(transformers_utils, "library_pipeline", lambda task, source: ("library", source.device))
    monkeypatch.setattr(pipelines, "make", lambda task, source: ("own", source.device))
    assert transformers_utils.get_pipeline(task, number, "folder") == (by, device)


def test_names_that_old_handlers_import(monkeypatch, tmp_path):
    from sagemaker_huggingface_inference_toolkit.transformers_utils import (
        ARCHITECTURES_2_TASK,
        get_pipeline,
        infer_task_from_hub,
        infer_task_from_model_architecture,
    )

    assert ARCHITECTURES_2_TASK["ForMaskedLM"] == "fill-mask"
    assert list(inspect.signature(get_pipeline).parameters)[:3] == ["task", "device", "model_dir"]
    monkeypatch.setattr(transformers_utils, "library_tasks", lambda: frozenset({"fill-mask"}))
    (tmp_path / "config.json").write_text('{"architectures": ["BertForMaskedLM"]}')
    assert infer_task_from_model_architecture(str(tmp_path / "config.json"), architecture_index=0) == "fill-mask"
    asked = []

    class Hub:
        def model_info(self, model_id, revision, token):
            asked.append((model_id, revision, token))
            return types.SimpleNamespace(pipeline_tag="fill-mask" if revision == "main" else None)

    monkeypatch.setitem(sys.modules, "huggingface_hub", types.SimpleNamespace(HfApi=Hub))
    assert infer_task_from_hub("org/name", revision="main", use_auth_token="token") == "fill-mask"
    assert asked == [("org/name", "main", "token")]
    with pytest.raises(ValueError, match="no task for org/name: set HF_TASK"):
        infer_task_from_hub("org/name")
