"""Every model of a folder, loaded in this process, and TensorFlow Serving's REST interface on them.

Rules tf-rest-*, tf-model-*.
"""

from __future__ import annotations

import logging
import os
import re
import struct
import time
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

from sagemaker_tensorflow_serving_container import bodies, keras, native, predictions, signatures, wire
from sagemaker_tensorflow_serving_container.backend import Answer, OutOfMemory, Target
from sagemaker_tensorflow_serving_container.documents import Document
from sagemaker_tensorflow_serving_container.models import Model, ModelError, Version, by_name
from sagemaker_tensorflow_serving_container.native import Fetched, NativeError
from sagemaker_tensorflow_serving_container.tensors import Array, ValueFault

logger = logging.getLogger(__name__)

_EXHAUSTED = 8
_INVALID = 3
# TensorFlow's status codes by the HTTP status that TensorFlow Serving makes of them; any other is a 500.
_STATUS = {_INVALID: 400, 4: 504, 5: 404, 6: 409, 7: 403, 9: 412, 11: 400, 12: 501, 14: 503, 16: 401}

_PATH = re.compile(
    r"/v1/models/(?P<name>[^/:]+)(?:/versions/(?P<version>[0-9]{1,18}))?(?::(?P<method>[a-z]+)|(?P<more>/metadata))?"
)


class LoadedModel:
    """One version of a model."""

    def __init__(self, version: Version, config: bytes, shared: bool) -> None:
        with keras.saved_model(version, shared) as path:
            self._session = native.Session(path, config)
            complete = os.path.isdir(os.path.join(path, "variables"))
        if not complete and signatures.needs_variables(self._session.meta_graph):
            # TensorFlow calls this loaded, and fails every request.
            self.close()
            raise ModelError(f"{version.path} cannot be loaded: its folder variables/ is missing.")
        self.signatures = signatures.read(self._session.meta_graph)
        self._places: dict[str, tuple[dict[str, native.Output], dict[str, native.Output]]] = {}

    def run(self, signature: str, feeds: Mapping[str, Array]) -> Mapping[str, Fetched]:
        """The outputs of a signature by name. Raises NativeError."""
        inputs, outputs = self._places.get(signature) or self._find(signature)
        types = self.signatures[signature].inputs
        fed = [(inputs[name], array, types[name].dtype) for name, array in feeds.items()]
        return dict(zip(outputs, self._session.run(fed, list(outputs.values())), strict=True))

    def close(self) -> None:
        self._session.close()

    def _find(self, name: str) -> tuple[dict[str, native.Output], dict[str, native.Output]]:
        signature = self.signatures[name]
        try:
            places = tuple(
                {alias: self._session.place(tensor.name) for alias, tensor in tensors.items()}
                for tensors in (signature.inputs, signature.outputs)
            )
        except KeyError as error:
            raise NativeError(_INVALID, f"Signature {name!r} names {error}, which is no dense tensor.") from None
        self._places[name] = (places[0], places[1])
        return self._places[name]


class Engine:
    """Loads all versions of all models, or nothing. Raises ModelError, OutOfMemory.

    shared: whether other workers of this container load the same models.
    """

    def __init__(self, models: Sequence[Model], config: bytes = b"", shared: bool = False) -> None:
        self._shared = shared
        self._models = by_name(models)
        self._loaded: dict[tuple[str, int], LoadedModel] = {}
        try:
            for model in models:
                for version in model.versions:
                    self._load(model, version, config)
        except BaseException:
            self.close()
            raise

    def answer(self, target: Target, document: Document) -> Answer:
        """Answers as TensorFlow Serving does. Raises OutOfMemory."""
        loaded = self.find(target)
        if isinstance(loaded, Answer):
            return loaded
        try:
            value = document.value
        except (ValueError, RecursionError) as error:
            return Answer.error(HTTPStatus.BAD_REQUEST, f"The body is no JSON: {error}.")
        try:
            return Answer.of(predictions.answer(loaded, target.method, value))
        except (ValueFault, predictions.OutputFault, NativeError) as error:
            return failed(error)

    def answer_together(self, target: Target, documents: Sequence[Document]) -> list[Answer] | None:
        """Answers row-format predictions with one call of the model; None where they cannot be put together."""
        loaded = self.find(target)
        if isinstance(loaded, Answer) or target.method != "predict":
            return None
        try:
            return [Answer.of(value) for value in predictions.together(loaded, [item.value for item in documents])]
        except (ValueError, NativeError):
            # One of them is at fault, or the model takes no such batch: each is tried on its own.
            return None

    def find(self, target: Target) -> LoadedModel | Answer:
        """The loaded model, or the answer that there is none."""
        model = self._models.get(target.name)
        version = model.version(target.version) if model else None
        if model is None or version is None:
            return Answer.error(HTTPStatus.NOT_FOUND, self._not_found(target, model))
        return self._loaded[target.name, version.number]

    def rest(self, verb: str, path: str, body: bytes) -> Answer:
        """Answers a request to TensorFlow Serving's own paths. Raises OutOfMemory."""
        match = _PATH.fullmatch(path)
        if not match or (match["method"] and match["method"] not in ("predict", "classify", "regress")):
            return Answer.error(HTTPStatus.NOT_FOUND, f"Malformed request: {verb} {path}")
        target = Target(
            unquote(match["name"]), int(match["version"]) if match["version"] else None, match["method"] or ""
        )
        if (verb == "POST") != bool(target.method):
            return Answer.error(HTTPStatus.METHOD_NOT_ALLOWED, f"{verb} {path}: use POST to predict, GET for a status.")
        if target.method:
            try:
                return self.answer(target, bodies.read(body))
            except bodies.BodyError as error:
                return Answer.error(HTTPStatus.BAD_REQUEST, str(error))
        loaded = self.find(target)
        if isinstance(loaded, Answer):
            return loaded
        return self._metadata(target, loaded) if match["more"] else self._status(target)

    def close(self) -> None:
        for loaded in self._loaded.values():
            loaded.close()
        self._loaded.clear()

    def _load(self, model: Model, version: Version, config: bytes) -> None:
        started = time.monotonic()
        try:
            loaded = LoadedModel(version, config, self._shared)
        except NativeError as error:
            if error.code == _EXHAUSTED:
                raise OutOfMemory(f"{version.path}: {error}") from error
            raise ModelError(f"{version.path} cannot be loaded: {error}") from error
        self._loaded[model.name, version.number] = loaded
        logger.info(
            "model %s, version %d: loaded in %.2f s; signatures: %s",
            *(model.name, version.number, time.monotonic() - started, ", ".join(loaded.signatures) or "none"),
        )

    def _not_found(self, target: Target, model: Model | None) -> str:
        if model is None:
            return f"Servable not found for request: there is no model {target.name!r}, but {', '.join(self._models)}."
        numbers = ", ".join(str(version.number) for version in model.versions)
        return f"Servable not found for request: model {target.name!r} has no version {target.version}, but {numbers}."

    def _status(self, target: Target) -> Answer:
        versions = [
            {
                "version": str(version.number),
                "state": "AVAILABLE",
                "status": {"error_code": "OK", "error_message": ""},
            }
            for version in self._models[target.name].versions
            if target.version in (None, version.number)
        ]
        return Answer.of({"model_version_status": versions[::-1]})

    def _metadata(self, target: Target, loaded: LoadedModel) -> Answer:
        version = self._models[target.name].version(target.version)
        assert version is not None
        described = {
            name: {
                "inputs": {alias: _info(tensor) for alias, tensor in signature.inputs.items()},
                "outputs": {alias: _info(tensor) for alias, tensor in signature.outputs.items()},
                "method_name": signature.method,
            }
            for name, signature in loaded.signatures.items()
        }
        return Answer.of(
            {
                "model_spec": {"name": target.name, "signature_name": "", "version": str(version.number)},
                "metadata": {"signature_def": {"signature_def": described}},
            }
        )


def failed(error: Exception) -> Answer:
    """The answer to what could not be computed. Raises OutOfMemory."""
    if isinstance(error, NativeError):
        if error.code == _EXHAUSTED:
            raise OutOfMemory(str(error)) from error
        return Answer.error(_STATUS.get(error.code, 500), str(error))
    return Answer.error(HTTPStatus.BAD_REQUEST, str(error))


def config(intra_op: int, inter_op: int, gpu_share: float | None) -> bytes:
    """A serialised ConfigProto. 0 threads: TensorFlow's own choice. gpu_share: of the memory; None: as it is needed."""
    gpu = wire.number(4, 1) if gpu_share is None else wire.fixed64(1, struct.pack("<d", gpu_share))
    threads = (wire.number(2, intra_op) if intra_op else b"") + (wire.number(5, inter_op) if inter_op else b"")
    return threads + wire.message(6, gpu)


def _info(tensor: signatures.Tensor) -> dict[str, Any]:
    shape = {
        "dim": [{"size": str(size), "name": ""} for size in tensor.shape or ()],
        "unknown_rank": tensor.shape is None,
    }
    return {"dtype": _TYPE_NAMES.get(tensor.dtype, str(tensor.dtype)), "tensor_shape": shape, "name": tensor.name}


_TYPE_NAMES = {
    1: "DT_FLOAT",
    2: "DT_DOUBLE",
    3: "DT_INT32",
    4: "DT_UINT8",
    5: "DT_INT16",
    6: "DT_INT8",
    7: "DT_STRING",
    9: "DT_INT64",
    10: "DT_BOOL",
    14: "DT_BFLOAT16",
    17: "DT_UINT16",
    19: "DT_HALF",
    22: "DT_UINT32",
    23: "DT_UINT64",
}
