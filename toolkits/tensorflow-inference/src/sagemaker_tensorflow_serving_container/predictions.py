"""TensorFlow Serving's predict, classify and regress on one loaded SavedModel: JSON values in, JSON values out.

Rules tf-rest-*. Row-format requests (``instances``) give ``predictions``, columnar ones (``inputs``) ``outputs``,
examples ``results``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from sagemaker_tensorflow_serving_container import examples, signatures
from sagemaker_tensorflow_serving_container.bodies import is_binary
from sagemaker_tensorflow_serving_container.native import Fetched
from sagemaker_tensorflow_serving_container.signatures import Signature
from sagemaker_tensorflow_serving_container.tensors import STRING, Array, ValueFault, shown, to_array, to_json

_EMPTY = "There are no records in the body."
_CHECKED_RANK = 3


class Loaded(Protocol):
    """A loaded model, as ``engine.LoadedModel`` is one."""

    @property
    def signatures(self) -> Mapping[str, Signature]: ...

    def run(self, signature: str, feeds: Mapping[str, Array]) -> Mapping[str, Fetched]:
        """The outputs of a signature by name."""


class OutputFault(ValueError):
    """The model's outputs have no such form as the request asks for: answered 400, as TensorFlow Serving does."""


@dataclass(frozen=True)
class Prediction:
    """A predict request, read: what to feed, and whether its answer is in rows."""

    signature: str
    feeds: Mapping[str, Array]
    rows: int | None


def answer(model: Loaded, method: str, request: Any) -> dict[str, Any]:
    """The JSON object that answers a request. Raises ValueFault, OutputFault, NativeError."""
    if not isinstance(request, dict):
        raise ValueFault(f"The body is an object, not {shown(request)}.")
    if method == "predict":
        prediction = read(model, request)
        return write(prediction, model.run(prediction.signature, prediction.feeds))
    return {"results": (_classify if method == "classify" else _regress)(model, request)}


def read(model: Loaded, request: Mapping[str, Any]) -> Prediction:
    """Reads a predict request by the signature that it names. Raises ValueFault."""
    name, signature = _signature(model, request)
    instances, inputs = request.get("instances"), request.get("inputs")
    if ("instances" in request) == ("inputs" in request):
        raise ValueFault("The body has either 'instances' (one value a record) or 'inputs' (one value an input).")
    if "instances" in request:
        if not isinstance(instances, list):
            raise ValueFault(f"'instances' is a list of records, not {shown(instances)}.")
        if not instances:
            raise ValueFault(_EMPTY)
        prediction = Prediction(name, _rows(signature, instances), len(instances))
    else:
        prediction = Prediction(name, _columns(signature, inputs), None)
    for alias, array in prediction.feeds.items():
        _check_rank(alias, array.shape, signature.inputs[alias].shape)
    return prediction


def write(prediction: Prediction, outputs: Mapping[str, Fetched]) -> dict[str, Any]:
    """The answer of a predict request. Raises OutputFault."""
    try:
        values = {name: to_json(array, dtype, name) for name, (array, dtype) in outputs.items()}
    except ValueError as error:
        raise OutputFault(str(error)) from None
    if prediction.rows is None:
        return {"outputs": values if len(values) > 1 else next(iter(values.values()))}
    lengths = {name: array.shape[:1] for name, (array, _) in outputs.items()}
    if any(not length for length in lengths.values()) or len(set(lengths.values())) > 1:
        raise OutputFault(
            "The outputs have no common number of records: "
            + ", ".join(f"{name} {list(array.shape)}" for name, (array, _) in outputs.items())
            + ". Use 'inputs' instead of 'instances'."
        )
    if len(values) == 1:
        return {"predictions": next(iter(values.values()))}
    return {"predictions": [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]}


def together(model: Loaded, requests: Sequence[Any]) -> list[dict[str, Any]]:
    """The answers of several predict requests in rows, by one call of the model. Raises ValueError, NativeError.

    All have to name one signature and have records of one shape, and the outputs as many records as the inputs.
    """
    given = [read(model, request) for request in requests if isinstance(request, dict)]
    if (
        len(given) < len(requests)
        or any(item.rows is None for item in given)
        or len({_form(item) for item in given}) > 1
    ):
        raise OutputFault("The requests cannot be put together.")
    feeds = {name: np.concatenate([item.feeds[name] for item in given]) for name in given[0].feeds}
    outputs = model.run(given[0].signature, feeds)
    total = sum(item.rows or 0 for item in given)
    if any(array.shape[:1] != (total,) for array, _ in outputs.values()):
        raise OutputFault("The outputs have another number of records than the inputs.")
    answers = []
    start = 0
    for item in given:
        end = start + (item.rows or 0)
        part = {name: Fetched(array[start:end], dtype) for name, (array, dtype) in outputs.items()}
        answers.append(write(item, part))
        start = end
    return answers


def _form(prediction: Prediction) -> tuple[Any, ...]:
    shapes = sorted((name, array.dtype.str, array.shape[1:]) for name, array in prediction.feeds.items())
    return (prediction.signature, *shapes)


def _signature(model: Loaded, request: Mapping[str, Any]) -> tuple[str, Signature]:
    name = request.get("signature_name", "") or signatures.DEFAULT
    if not isinstance(name, str):
        raise ValueFault(f"'signature_name' is a text, not {shown(name)}.")
    if name not in model.signatures:
        raise ValueFault(f"There is no signature {name!r}. The model has: {', '.join(sorted(model.signatures))}.")
    return name, model.signatures[name]


def _rows(signature: Signature, instances: list[Any]) -> dict[str, Array]:
    named = [isinstance(item, dict) and not is_binary(item) for item in instances]
    if any(named) and not all(named):
        raise ValueFault(f"Record {named.index(not named[0])} of 'instances' is of another form than the first.")
    if not named[0]:
        if len(signature.inputs) != 1:
            raise ValueFault(f"Each record of 'instances' is an object with: {', '.join(signature.inputs)}.")
        ((name, tensor),) = signature.inputs.items()
        return {name: _stacked(instances, tensor.dtype, name)}
    for index, item in enumerate(instances):
        if item.keys() != signature.inputs.keys():
            raise ValueFault(
                f"Record {index} of 'instances' has {', '.join(item) or 'nothing'}; "
                f"the inputs are {', '.join(signature.inputs)}."
            )
    return {
        name: _stacked([item[name] for item in instances], tensor.dtype, name)
        for name, tensor in signature.inputs.items()
    }


def _stacked(values: list[Any], dtype: int, name: str) -> Array:
    """One array of all records; a fault is looked for record by record, so that it can be named."""
    try:
        return to_array(values, dtype, name)
    except ValueFault:
        shapes = []
        for index, value in enumerate(values):
            try:
                shapes.append(to_array(value, dtype, name).shape)
            except ValueFault as fault:
                raise ValueFault(f"Record {index} of 'instances': {fault}") from None
            if shapes[-1] != shapes[0]:
                raise ValueFault(
                    f"Record {index} of 'instances': input {name!r} has shape {list(shapes[-1])}, "
                    f"the first record's has {list(shapes[0])}."
                ) from None
        raise


def _columns(signature: Signature, inputs: Any) -> dict[str, Array]:
    if not isinstance(inputs, dict) or is_binary(inputs):
        if len(signature.inputs) != 1:
            raise ValueFault(f"'inputs' is an object with: {', '.join(signature.inputs)}.")
        ((name, tensor),) = signature.inputs.items()
        return {name: to_array(inputs, tensor.dtype, name)}
    missing = [name for name in signature.inputs if name not in inputs]
    unknown = [name for name in inputs if name not in signature.inputs]
    if missing or unknown:
        raise ValueFault(
            f"'inputs' has {', '.join(inputs) or 'nothing'}; the inputs are {', '.join(signature.inputs)}."
        )
    return {name: to_array(inputs[name], tensor.dtype, name) for name, tensor in signature.inputs.items()}


def _check_rank(name: str, shape: tuple[int, ...], wanted: tuple[int, ...] | None) -> None:
    """Convolutions end the whole process for a tensor of a rank that they do not expect.

    Models of rows and of single values are left alone: many serve other shapes than their signatures say.
    """
    if wanted is not None and len(wanted) >= _CHECKED_RANK and len(shape) != len(wanted):
        sizes = ", ".join("any" if size == -1 else str(size) for size in wanted)
        raise ValueFault(f"Input {name!r} has shape {list(shape)}; the model takes [{sizes}].")


def _classify(model: Loaded, request: Mapping[str, Any]) -> list[Any]:
    outputs, count = _run_examples(model, request, signatures.CLASSIFY)
    labels, scores = outputs.get("classes"), outputs.get("scores")
    if labels is None and scores is None:
        raise OutputFault("The signature has neither an output 'classes' nor 'scores'.")
    for name, fetched in (("classes", labels), ("scores", scores)):
        if fetched is not None and (fetched.array.ndim != 2 or fetched.array.shape[0] != count):
            raise OutputFault(f"Output {name!r} has shape {list(fetched.array.shape)}, not [{count}, classes].")
    try:
        words: Any = None if labels is None else to_json(*labels, "classes")
        weights: Any = None if scores is None else to_json(*scores, "scores")
    except ValueError as error:
        raise OutputFault(str(error)) from None
    if words is None:
        words = [["" for _ in row] for row in weights]
    if weights is None:
        weights = [[0.0 for _ in row] for row in words]
    if any(len(some) != len(others) for some, others in zip(words, weights, strict=True)):
        raise OutputFault("The outputs 'classes' and 'scores' differ in their number of classes.")
    return [[list(pair) for pair in zip(*rows, strict=True)] for rows in zip(words, weights, strict=True)]


def _regress(model: Loaded, request: Mapping[str, Any]) -> list[Any]:
    outputs, count = _run_examples(model, request, signatures.REGRESS)
    if "outputs" not in outputs:
        raise OutputFault("The signature has no output 'outputs'.")
    array, dtype = outputs["outputs"]
    if array.shape not in ((count,), (count, 1)):
        raise OutputFault(f"Output 'outputs' has shape {list(array.shape)}, not [{count}] or [{count}, 1].")
    results: list[Any] = to_json(array.reshape(count), dtype, "outputs")
    return results


def _run_examples(model: Loaded, request: Mapping[str, Any], method: str) -> tuple[Mapping[str, Fetched], int]:
    name, signature = _signature(model, request)
    if signature.method != method:
        able = [other for other, found in model.signatures.items() if found.method == method]
        raise ValueFault(
            f"Signature {name!r} is for {signature.method or 'nothing'}, not for {method}. "
            + (f"Give signature_name: {', '.join(able)}." if able else "The model has no signature for it.")
        )
    given: Sequence[Any] = request.get("examples", ())
    if not isinstance(given, list):
        raise ValueFault("The body has 'examples', a list of objects of features.")
    if not given:
        raise ValueFault(_EMPTY)
    if len(signature.inputs) != 1 or next(iter(signature.inputs.values())).dtype != STRING:
        raise OutputFault(f"Signature {name!r} has no single input of serialised examples.")
    array = np.empty(len(given), dtype=object)
    array[:] = [examples.serialize(item, request.get("context")) for item in given]
    return model.run(name, {next(iter(signature.inputs)): array}), len(given)
