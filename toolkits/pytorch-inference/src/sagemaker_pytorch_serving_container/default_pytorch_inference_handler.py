"""What serves a PyTorch model whose user gave no function of their own, or only some.

Rules: docs/contract/pytorch-inference.md.
"""

from __future__ import annotations

from typing import Any

from sagemaker_inference import content_types, decoder, default_inference_handler, errors
from sagemaker_inference.logging import get_logger

from sagemaker_pytorch_serving_container import device, models, tensors
from sagemaker_pytorch_serving_container.models import ModelLoadError

__all__ = ["DefaultPytorchInferenceHandler", "ModelLoadError"]

logger = get_logger()


class DefaultPytorchInferenceHandler(default_inference_handler.DefaultInferenceHandler):
    """The default functions. One object serves one model, in one worker."""

    def __init__(self) -> None:
        self._device: Any = None
        self._given: Any = None  # the model that was prepared, as model_fn gave it
        self._prepared: Any = None  # the same, on the device where data goes too
        self._data_device: Any = None

    def default_model_fn(self, model_dir: str, context: Any = None) -> Any:
        """The only model of the folder, on this worker's device. Raises ValueError or ModelLoadError."""
        path = models.find(model_dir)
        where = self._worker_device(context)
        model = models.load(path, where)
        logger.info("Loaded %s on %s.", path, where)
        return model

    def default_input_fn(self, input_data: Any, content_type: str | None, context: Any = None) -> Any:
        """A tensor: float32 from JSON, JSON lines and CSV, the array's own type from NPY; on this worker's device.

        Raises UnsupportedFormatError for another type, and an error of status 400 for what are no numbers.
        """
        if content_type == content_types.NPZ:
            raise errors.UnsupportedFormatError(content_type)
        decoded = decoder.decode(input_data, content_type)
        try:
            data = tensors.from_array(decoded, as_float=content_type != content_types.NPY)
        except (TypeError, ValueError) as error:
            raise errors.GenericInferenceToolkitError(400, f"The body cannot be made a tensor: {error}.") from error
        return tensors.to_device(data, self._worker_device(context))

    def default_predict_fn(self, data: Any, model: Any, context: Any = None) -> Any:
        """What ``model(data)`` gives, without gradients. The model is moved and set to eval once, not on each call."""
        import torch

        if model is not self._given:
            self._prepare(model, context)
        with torch.inference_mode():
            prediction = self._prepared(tensors.to_device(data, self._data_device))
        return tensors.to_ordinary(prediction)

    def default_output_fn(self, prediction: Any, accept: str, context: Any = None) -> Any:
        """JSON, JSON lines, CSV or NPY of tensors, however deep they lie in tuples, lists, dicts and dataclasses."""
        return super().default_output_fn(tensors.to_arrays(prediction), accept, context)

    def _worker_device(self, context: Any) -> Any:
        if self._device is None:
            self._device = device.of_worker(getattr(context, "system_properties", None) or {})
        return self._device

    def _prepare(self, model: Any, context: Any) -> None:
        """Puts the model where the worker computes. One that the user has put on a GPU stays there."""
        if not callable(model):
            raise TypeError(
                f"model_fn gave a {type(model).__name__}, which cannot be called: give a predict_fn beside it, or "
                "return the model itself."
            )
        own = self._worker_device(context)
        places = device.of_model(model)
        self._data_device = next(iter(places)) if len(places) == 1 else own
        self._prepared = model
        if all(place.type == "cpu" for place in places) and hasattr(model, "to"):
            self._data_device = own
            self._prepared = model.to(own)
        device.to_eval(self._prepared)
        self._given = model
