"""The signatures of a SavedModel, read from its MetaGraphDef.

TensorFlow's C interface hands that message over in protocol buffers' wire format. Its fields that matter here (name,
type, shape of each input and output) have had their numbers since 2016; reading them takes a page and no import of
TensorFlow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sagemaker_tensorflow_serving_container import wire

DEFAULT = "serving_default"
PREDICT = "tensorflow/serving/predict"
CLASSIFY = "tensorflow/serving/classify"
REGRESS = "tensorflow/serving/regress"


@dataclass(frozen=True)
class Tensor:
    """An input or output: the tensor's name in the graph, TensorFlow's number of its type, its shape.

    shape: -1 where any length will do; None where even the rank is open.
    """

    name: str
    dtype: int
    shape: tuple[int, ...] | None


@dataclass(frozen=True)
class Signature:
    method: str
    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]


def read(meta_graph: bytes) -> dict[str, Signature]:
    """The signatures of a serialised MetaGraphDef by name, those for initialising left out."""
    signatures = {}
    for field, value in wire.fields(meta_graph):
        if field == 5 and isinstance(value, bytes):
            name, content = _map_entry(value)
            if not name.startswith("__saved_model_"):
                signatures[name] = _signature(content)
    return signatures


def needs_variables(meta_graph: bytes) -> bool:
    """Whether a model's values are in files beside it: it has variables, and a part that restores them."""
    restores = any(field == 3 and value for field, value in wire.fields(meta_graph))
    return restores and any(kind in meta_graph for kind in (b"VarHandleOp", b"VariableV2"))


def _signature(content: bytes) -> Signature:
    inputs: dict[str, Tensor] = {}
    outputs: dict[str, Tensor] = {}
    method = ""
    for field, value in wire.fields(content):
        if not isinstance(value, bytes):
            continue
        if field in (1, 2):
            name, tensor = _map_entry(value)
            (inputs if field == 1 else outputs)[name] = _tensor(tensor)
        elif field == 3:
            method = value.decode()
    return Signature(method, dict(sorted(inputs.items())), dict(sorted(outputs.items())))


def _tensor(content: bytes) -> Tensor:
    name, dtype = "", 0
    shape: tuple[int, ...] | None = None
    for field, value in wire.fields(content):
        if field == 1 and isinstance(value, bytes):
            name = value.decode()
        elif field == 2 and isinstance(value, int):
            dtype = value
        elif field == 3 and isinstance(value, bytes):
            shape = _shape(value)
    return Tensor(name, dtype, shape)


def _shape(content: bytes) -> tuple[int, ...] | None:
    dimensions = []
    for field, value in wire.fields(content):
        if field == 2 and isinstance(value, bytes):
            sizes = [size for number, size in wire.fields(value) if number == 1 and isinstance(size, int)]
            dimensions.append(wire.signed(sizes[-1]) if sizes else 0)
        elif field == 3 and value:
            return None
    return tuple(dimensions)


def _map_entry(content: bytes) -> tuple[str, bytes]:
    key, item = "", b""
    for field, value in wire.fields(content):
        if isinstance(value, bytes):
            if field == 1:
                key = value.decode()
            elif field == 2:
                item = value
    return key, item
