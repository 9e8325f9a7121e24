"""JSON objects to serialised ``tf.train.Example`` messages, for classify and regress.

Rule tf-json-5. The message is three nested maps; writing its few fields here spares the import of TensorFlow's Python.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from sagemaker_tensorflow_serving_container import wire
from sagemaker_tensorflow_serving_container.bodies import is_binary
from sagemaker_tensorflow_serving_container.tensors import ValueFault, decode_b64, shown

_INT64 = range(-(1 << 63), 1 << 63)
# Field numbers of tf.train.Feature's three lists.
_BYTES, _FLOATS, _INTEGERS = 1, 2, 3


def serialize(features: Any, context: Any = None) -> bytes:
    """One example, with the features that all examples of a request share. Raises ValueFault."""
    if not isinstance(features, dict) or not isinstance(context or {}, dict):
        raise ValueFault(f"An example is an object of features, not {shown(features)}.")
    entries = b"".join(_entry(name, value) for name, value in {**(context or {}), **features}.items())
    return wire.message(1, entries)


def _entry(name: str, value: Any) -> bytes:
    values = value if isinstance(value, list) else [value]
    return wire.message(1, wire.message(1, name.encode()) + wire.message(2, _feature(name, values)))


def _feature(name: str, values: Sequence[Any]) -> bytes:
    if not values:
        return b""
    kinds = {_kind(name, value) for value in values}
    if len(kinds) > 1:
        raise ValueFault(f"Feature {name!r} mixes texts, decimals and whole numbers: {shown(list(values))}.")
    (kind,) = kinds
    if kind == _BYTES:
        items = b"".join(
            wire.message(1, value.encode() if isinstance(value, str) else decode_b64(value, name)) for value in values
        )
    elif kind == _FLOATS:
        items = wire.message(1, _floats(name, values))
    else:
        items = wire.message(1, b"".join(wire.varint(int(value) & ((1 << 64) - 1)) for value in values))
    return wire.message(kind, items)


def _kind(name: str, value: Any) -> int:
    if isinstance(value, str) or is_binary(value):
        return _BYTES
    if isinstance(value, float):
        return _FLOATS
    if isinstance(value, int):
        if value not in _INT64:
            raise ValueFault(f"Feature {name!r}: {value} is no 64-bit integer.")
        return _INTEGERS
    raise ValueFault(f"Feature {name!r} takes texts, numbers and lists of them, not {shown(value)}.")


def _floats(name: str, values: Sequence[float]) -> bytes:
    try:
        return struct.pack(f"<{len(values)}f", *values)
    except OverflowError:
        raise ValueFault(f"Feature {name!r}: {shown(list(values))} is beyond 32-bit floats.") from None
