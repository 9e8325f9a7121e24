"""What serves a Hugging Face model whose user gave no function of their own, or only some.

Rules: docs/contract/huggingface-inference.md.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Mapping
from typing import Any

from sagemaker_inference import default_inference_handler, errors, negotiation
from sagemaker_inference.logging import get_logger
from sagemaker_pytorch_serving_container import device

from sagemaker_huggingface_inference_toolkit import (
    content_types,
    decoder_encoder,
    media,
    neuron,
    request,
    tasks,
    transformers_utils,
)
from sagemaker_huggingface_inference_toolkit.decoder_encoder import Records
from sagemaker_huggingface_inference_toolkit.settings import HuggingFaceSettings
from sagemaker_huggingface_inference_toolkit.timings import Timings

logger = get_logger()

#: A row of CSV cannot hold what these need.
_NOT_BY_CSV = ("zero-shot-classification", "table-question-answering")


class HuggingFaceInferenceHandler(default_inference_handler.DefaultInferenceHandler):
    """The default functions. One object serves one model, in one worker."""

    def __init__(self, settings: HuggingFaceSettings | None = None, *, alone: bool = False) -> None:
        """alone: whether there is one worker only, which may then spread a model over all GPUs."""
        self._settings = settings or HuggingFaceSettings.read()
        self._alone = alone
        self._task = self._settings.task
        self._timings = Timings()

    def default_model_fn(self, model_dir: str, context: Any = None) -> Any:
        """The pipeline of the model's task, on this worker's device. Raises TaskError, and what the libraries raise."""
        started = time.monotonic()
        if neuron.is_there():
            task = self._settings.task or tasks.infer(model_dir, neuron.TASKS)
            pipeline = neuron.pipeline(task, model_dir, self._settings)
        else:
            task = self._settings.task or self._infer(model_dir)
            where = _worker_device(getattr(context, "system_properties", None) or {})
            pipeline = transformers_utils.get_pipeline(
                task,
                where,
                model_dir,
                device_map=self._device_map(where),
                trust_remote_code=self._settings.trust_remote_code,
            )
        self._task = task
        logger.info("Loaded %s for %s on %s in %.1f s.", model_dir, task, _place(pipeline), time.monotonic() - started)
        return pipeline

    def default_input_fn(self, input_data: Any, content_type: str | None, context: Any = None) -> Any:
        """A request of decoder_encoder. Raises errors of status 400 and 415."""
        with self._timings.step("preprocess", context):
            kind = negotiation.media_type(content_type)[0] if content_type else content_types.JSON
            if kind == content_types.CSV and self._task in _NOT_BY_CSV:
                raise errors.GenericInferenceToolkitError(400, f"{self._task} cannot be asked by CSV: send JSON.")
            return decoder_encoder.decode(input_data, content_type)

    def default_predict_fn(self, data: Any, model: Any, context: Any = None) -> Any:
        """What the pipeline gives for a request, or for each of several Records, in their order.

        Raises an error of status 400 where the pipeline says that it cannot use the request.
        """
        with self._timings.step("predict", context):
            if isinstance(data, Records):
                return Records(self._predict_record(record, number, model) for number, record in enumerate(data, 1))
            return self._predict_one(data, model)

    def default_output_fn(self, prediction: Any, accept: str, context: Any = None) -> Any:
        """Body and content type. Records are answered by lines where the client has no wish of its own."""
        with self._timings.step("postprocess", context):
            if isinstance(prediction, Records) and _has_no_wish(context):
                accept = content_types.JSONLINES
            kind = negotiation.choose(accept, decoder_encoder.SUPPORTED, content_types.JSON)
            body = decoder_encoder.encode(prediction, kind)
        self._timings.tell(context)
        return body, decoder_encoder.image_type(kind)

    def _predict_record(self, data: Any, number: int, model: Any) -> Any:
        try:
            return self._predict_one(data, model)
        except errors.BaseInferenceToolkitError as error:
            raise errors.GenericInferenceToolkitError(error.status_code, f"Record {number}: {error}") from error

    def _predict_one(self, data: Any, model: Any) -> Any:
        inputs, parameters = request.split(data)
        request.check(self._task, parameters)
        inputs = media.prepare(self._task, inputs, model)
        try:
            prediction = model(inputs, **parameters)
        except Exception as error:
            reason = request.fault(error, inputs, model)
            if reason is None:
                raise
            what = f" for {self._task}" if self._task else ""
            raise errors.GenericInferenceToolkitError(400, f"The request cannot be used{what}: {reason}") from error
        return request.flattened(prediction) if self._task == "feature-extraction" else prediction

    def _infer(self, model_dir: str) -> str:
        from sagemaker_huggingface_inference_toolkit import pipelines

        task = tasks.infer(model_dir, tasks.known(transformers_utils.library_tasks(), pipelines.OWN))
        logger.info("HF_TASK is not set; the model's configuration says %s.", task)
        return task

    def _device_map(self, where: Any) -> Any:
        """HF_DEVICE_MAP; else, for models of the hub that bring their own code, all GPUs, as users expect of those."""
        settings = self._settings
        if settings.device_map is not None:
            if importlib.util.find_spec("accelerate") is None:
                raise ImportError("HF_DEVICE_MAP needs the package accelerate: name it in code/requirements.txt.")
            return settings.device_map
        brings_code = settings.trust_remote_code and settings.repository is not None
        if not brings_code or not self._alone or getattr(where, "type", "") != "cuda":
            return None
        return "auto" if importlib.util.find_spec("accelerate") else None


def _worker_device(properties: Mapping[str, Any]) -> Any:
    """The worker's torch.device; in an image without PyTorch the number of its GPU, -1 for the CPU."""
    if importlib.util.find_spec("torch") is not None:
        return device.of_worker(properties)
    gpu = str(properties.get("gpu_id"))
    return int(gpu) if gpu.isdecimal() else -1


def _has_no_wish(context: Any) -> bool:
    read = getattr(context, "get_request_header", None)
    return callable(read) and (read(0, "accept") or "").strip() in ("", content_types.ANY)


def _place(pipeline: Any) -> str:
    """Where the model's parts are: a device, or how many modules each device has."""
    parts = getattr(getattr(pipeline, "model", None), "hf_device_map", None)
    if isinstance(parts, Mapping) and len(parts) > 1:
        counted: dict[str, int] = {}
        for where in parts.values():
            counted[str(where)] = counted.get(str(where), 0) + 1
        return ", ".join(f"{where} ({count} parts)" for where, count in counted.items())
    return str(getattr(getattr(pipeline, "model", None), "device", None) or getattr(pipeline, "device", "its device"))
