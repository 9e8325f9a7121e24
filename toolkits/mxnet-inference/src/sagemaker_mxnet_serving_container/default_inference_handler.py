"""What serves an MXNet model whose user gave no function of their own, or only some.

Rules: docs/contract/mxnet-inference.md.
"""

from __future__ import annotations

from typing import Any

from sagemaker_inference import content_types, decoder, default_inference_handler, encoder, errors, negotiation
from sagemaker_inference.logging import get_logger

from sagemaker_mxnet_serving_container import checkpoint, utils

logger = get_logger()


class DefaultMXNetInferenceHandler(default_inference_handler.DefaultInferenceHandler):
    """What modules and Gluon blocks have in common. One object serves one model, in one worker."""

    VALID_CONTENT_TYPES: tuple[str, ...] = (content_types.JSON, content_types.NPY, *content_types.JSON_LINES_TYPES)

    def default_model_fn(self, model_dir: str, context: Any = None, preferred_batch_size: int | None = None) -> Any:
        """The folder's module. preferred_batch_size: rows of one pass; None: as the environment says, else 1.

        A whole number in the place of the context is the batch size, as scripts that call this by hand pass it.
        """
        if isinstance(context, int):
            context, preferred_batch_size = None, context
        rows = checkpoint.batch_size() if preferred_batch_size is None else preferred_batch_size
        device = _device(context)
        module = checkpoint.load(model_dir, device, rows)
        logger.info("Loaded %s of %s on %s, %d row(s) a pass.", checkpoint.SYMBOL_FILE, model_dir, device, rows)
        return module

    def default_input_fn(self, input_data: Any, content_type: str | None, context: Any = None) -> Any:
        """An NDArray on this worker's device. Raises UnsupportedFormatError, or an error of status 400."""
        import mxnet as mx

        return mx.nd.array(self._decode(input_data, content_type), ctx=_device(context))

    def default_predict_fn(self, data: Any, model: Any, context: Any = None) -> Any:
        raise NotImplementedError(
            "Only modules and Gluon blocks have a default predict_fn: give one in code/inference.py."
        )

    def default_output_fn(self, prediction: Any, accept: str, context: Any = None) -> Any:
        """The body and its type: a list of lists for an array, a list of those for several."""
        chosen = negotiation.choose(accept, self.VALID_CONTENT_TYPES, content_types.JSON)
        return encoder.encode(_listed(prediction), chosen), chosen

    def _decode(self, input_data: Any, content_type: str | None) -> Any:
        """A numpy array of numbers; no content type means JSON. MXNet makes float32 of it."""
        import numpy

        if content_type not in (None, *self.VALID_CONTENT_TYPES):
            raise errors.UnsupportedFormatError(content_type, self.VALID_CONTENT_TYPES)
        try:
            array = numpy.asarray(decoder.decode(input_data, content_type), dtype=numpy.float32)
        except (TypeError, ValueError) as error:
            if isinstance(error, errors.UndecodableError):
                raise
            raise errors.GenericInferenceToolkitError(400, f"The body is no array of numbers: {error}.") from error
        return array


class DefaultModuleInferenceHandler(DefaultMXNetInferenceHandler):
    """Serves a module, which takes as many rows at once as it was bound for."""

    VALID_CONTENT_TYPES = (
        content_types.JSON,
        content_types.CSV,
        content_types.NPY,
        *content_types.JSON_LINES_TYPES,
    )

    def default_input_fn(
        self, input_data: Any, content_type: str | None, context: Any = None, model: Any = None
    ) -> Any:
        """An NDArrayIter of the model's batch size, its last batch padded. CSV rows take the shape of the input.

        Raises UnsupportedFormatError, ValueError for a model of several inputs, or an error of status 400.
        """
        import mxnet as mx

        if model is None:
            raise TypeError("the default input_fn of a module needs the module: pass model=…")
        if len(model.data_shapes) != 1:
            names = ", ".join(description.name for description in model.data_shapes)
            raise ValueError(f"The model has several inputs ({names}): give an input_fn in code/inference.py.")
        shape = tuple(model.data_shapes[0].shape)
        array = self._decode(input_data, content_type)
        if content_type == content_types.CSV:
            array = _shaped(array, shape)
        if array.ndim != len(shape) or array.shape[1:] != shape[1:]:
            raise errors.GenericInferenceToolkitError(
                400, f"The body has the shape {array.shape}, the model takes {('rows', *shape[1:])}."
            )
        return mx.io.NDArrayIter(mx.nd.array(array), batch_size=shape[0], last_batch_handle="pad")

    def default_predict_fn(self, data: Any, model: Any, context: Any = None) -> Any:
        """The module's outputs, an NDArray or a list of them, with exactly the rows of the data."""
        return model.predict(data)


class DefaultGluonBlockInferenceHandler(DefaultMXNetInferenceHandler):
    """Serves a Gluon block."""

    def default_predict_fn(self, data: Any, model: Any, context: Any = None) -> Any:
        return model(data)


def _device(context: Any) -> Any:
    return utils.get_default_context(getattr(context, "system_properties", None))


def _shaped(array: Any, shape: tuple[int, ...]) -> Any:
    """Flat rows in the shape of the model's input; the first dimension stays open."""
    try:
        return array.reshape((-1, *shape[1:]))
    except ValueError as error:
        raise errors.GenericInferenceToolkitError(
            400, f"The CSV body has {array.size} values, which is no multiple of the model's input {shape[1:]}."
        ) from error


def _listed(prediction: Any) -> Any:
    """Plain lists for arrays, also inside lists and tuples."""
    if hasattr(prediction, "asnumpy"):
        return prediction.asnumpy().tolist()
    if isinstance(prediction, (list, tuple)):
        return [_listed(item) for item in prediction]
    return prediction
