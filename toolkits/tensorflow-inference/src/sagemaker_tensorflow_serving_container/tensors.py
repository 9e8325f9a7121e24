"""JSON values to arrays of a signature's types, and back: TensorFlow Serving's mapping.

Rules tf-json-*. Numbers are never cut or reinterpreted: a decimal for an integer input, a text for a number or a number
out of range is the request's fault. Bytes are ``{"b64": TEXT}``; outputs whose name ends in ``_bytes`` are sent so.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

import numpy as np
import numpy.typing as npt

from sagemaker_tensorflow_serving_container.bodies import is_binary

Array = npt.NDArray[Any]

#: The numbers of TensorFlow's types that have a JSON form, by numpy's name; ``object`` holds bytes.
DTYPES: dict[int, str] = {
    1: "float32",
    2: "float64",
    3: "int32",
    4: "uint8",
    5: "int16",
    6: "int8",
    7: "object",
    9: "int64",
    10: "bool",
    14: "bfloat16",
    17: "uint16",
    19: "float16",
    22: "uint32",
    23: "uint64",
}
STRING = 7
BFLOAT16 = 14

_B64 = "b64"
_LONGEST_SHOWN = 60


class ValueFault(ValueError):
    """A value does not fit the input that it is meant for: answered 400."""


def to_array(value: Any, dtype: int, name: str) -> Array:
    """The array of a JSON value: nested lists are its dimensions. Raises ValueFault."""
    if dtype not in DTYPES:
        raise ValueFault(f"Input {name!r}: its type (number {dtype}) has no JSON form. Use another signature.")
    if dtype == STRING:
        return _texts(value, name)
    wanted = np.dtype("float32" if dtype == BFLOAT16 else DTYPES[dtype])
    array = _numbers(value, wanted, name)
    if array.size == 0:
        return array.astype(wanted)
    if not _fits(array, wanted):
        raise ValueFault(f"Input {name!r} takes {DTYPES[dtype]} values. {_first_wrong(array, value, wanted)}")
    if dtype == BFLOAT16:
        return _to_bfloat16(array.astype(np.float32))
    with np.errstate(over="ignore"):
        return array.astype(wanted)


def to_json(array: Array, dtype: int, name: str) -> Any:
    """The JSON value of an output. Raises ValueError for what has none."""
    if dtype not in DTYPES:
        raise ValueError(f"Output {name!r}: its type (number {dtype}) has no JSON form. Use another signature.")
    if dtype == STRING:
        return _from_texts(array, name)
    if dtype == BFLOAT16:
        array = (array.astype(np.uint32) << 16).view(np.float32)
    if array.dtype.kind == "f" and array.dtype.itemsize < 8:
        # The shortest decimals that are these numbers: 0.2, not 0.20000000298023224.
        return array.astype("S").astype(np.float64).tolist()
    return array.tolist()


def decode_b64(value: dict[str, str], name: str) -> bytes:
    """The bytes of ``{"b64": TEXT}``. Raises ValueFault."""
    try:
        return base64.b64decode(value[_B64], validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueFault(f"Input {name!r}: the value of 'b64' is no base64: {error}.") from None


def shown(value: Any) -> str:
    """A value in an error's text, cut where it is long."""
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"


def _numbers(value: Any, wanted: np.dtype[Any], name: str) -> Array:
    try:
        array: Array = np.array(value)
    except (ValueError, OverflowError, TypeError):
        raise ValueFault(f"Input {name!r}: {shown(value)} is ragged: lists at one level differ in length.") from None
    if wanted == np.uint64 and array.dtype.kind == "f":
        # What numpy makes of whole numbers on both sides of 2 to the 63.
        exact: Array = np.array(value, dtype=object)
        if all(type(leaf) is int and 0 <= leaf < 1 << 64 for leaf in exact.ravel()):
            return exact.astype(wanted)
    return array


def _fits(array: Array, wanted: np.dtype[Any]) -> bool:
    kind = array.dtype.kind
    if wanted.kind == "b":
        return kind == "b"
    if wanted.kind == "f":
        if kind not in "fiu":
            return False
        limit = np.finfo(wanted).max
        finite = array[np.isfinite(array)]
        return bool(np.all(np.abs(finite.astype(np.float64)) <= limit))
    if kind not in "iu":
        return False
    limits = np.iinfo(wanted)
    return int(array.min()) >= limits.min and int(array.max()) <= limits.max


def _first_wrong(array: Array, value: Any, wanted: np.dtype[Any]) -> str:
    for leaf in _leaves(value):
        if isinstance(leaf, (dict, str)) or leaf is None or not _fits(np.array(leaf), wanted):
            return f"{shown(leaf)} is none."
    return f"{shown(value)} holds values of several kinds."


def _leaves(value: Any) -> Any:
    if isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def _texts(value: Any, name: str) -> Array:
    """An array of bytes; the shape is that of the nested lists."""
    leaves: list[bytes] = []
    shape = _shape(value)
    _gather(value, shape, leaves, name)
    array = np.empty(len(leaves), dtype=object)
    array[:] = leaves
    return array.reshape(shape)


def _shape(value: Any) -> tuple[int, ...]:
    shape = []
    while isinstance(value, list):
        shape.append(len(value))
        if not value:
            break
        value = value[0]
    return tuple(shape)


def _gather(value: Any, shape: tuple[int, ...], leaves: list[bytes], name: str) -> None:
    if shape:
        if not isinstance(value, list) or len(value) != shape[0]:
            raise ValueFault(f"Input {name!r}: {shown(value)} is ragged: lists at one level differ in length.")
        for item in value:
            _gather(item, shape[1:], leaves, name)
    elif isinstance(value, str):
        leaves.append(value.encode())
    elif is_binary(value):
        leaves.append(decode_b64(value, name))
    else:
        raise ValueFault(f"Input {name!r} takes texts, or bytes as {{'b64': TEXT}}. {shown(value)} is none.")


def _from_texts(array: Array, name: str) -> Any:
    if name.endswith("_bytes"):
        return _nested(array, lambda value: {_B64: base64.b64encode(value).decode("ascii")})
    try:
        return _nested(array, bytes.decode)
    except UnicodeDecodeError:
        raise ValueError(f"Output {name!r} holds bytes that are no text. Name it {name}_bytes in the model.") from None


def _nested(array: Array, convert: Any) -> Any:
    flat = np.empty(array.size, dtype=object)
    flat[:] = [convert(value) for value in array.ravel().tolist()]
    return flat.reshape(array.shape).tolist()


def _to_bfloat16(array: Array) -> Array:
    """Rounded to nearest, ties to even; as the 16 bits that TensorFlow holds."""
    bits = array.view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(array), 0x7FC0, rounded).astype(np.uint16)
