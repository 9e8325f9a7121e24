"""RecordIO, the framing that Pipe mode and the built-in algorithms use, with tensors as protobuf messages.

Frame: magic number, payload length (both 32 bits, little-endian), payload, zeros up to a multiple of four.
The message is written out here field by field, so that no protobuf runtime is needed:
``Record{features=1: map<string, Value>, label=2: map<string, Value>}``, ``Value{float32=2, float64=3, int32=7}``,
each tensor ``{values=1, keys=2, shape=3}``, packed.
"""

from __future__ import annotations

import struct
import sys
from typing import Any, BinaryIO, Iterator, List, Optional, Sequence

MAGIC = 0xCED7230A

# numpy type -> field of the tensor in Value, and its packed form
_FIELDS = {"float32": 2, "float64": 3, "int32": 7}


def _write_recordio(f: BinaryIO, data: bytes) -> None:
    """Writes one frame."""
    f.write(struct.pack("<II", MAGIC, len(data)))
    f.write(data)
    f.write(b"\0" * (-len(data) % 4))


def _read_recordio(f: BinaryIO) -> Iterator[bytes]:
    """The payloads of a stream of frames. Raises ValueError where the stream is none or is cut off."""
    while True:
        header = f.read(8)
        if not header:
            return
        if len(header) < 8:
            raise ValueError("RecordIO: the stream ends inside a frame's header.")
        magic, length = struct.unpack("<II", header)
        if magic != MAGIC:
            raise ValueError(f"RecordIO: found {magic:#x} where a frame begins with {MAGIC:#x}.")
        payload = f.read(length)
        padding = f.read(-length % 4)
        if len(payload) < length or len(padding) < -length % 4:
            raise ValueError("RecordIO: the stream ends inside a frame.")
        yield payload


def _write_numpy_to_dense_tensor(file: BinaryIO, array: Any, labels: Any = None) -> None:
    """Writes each row of an array of float32, float64 or int32 as a record, with its label if there are labels."""
    import numpy as np

    _check(array, labels, (1, 2))
    for index, row in enumerate(array):
        features = _value(np.atleast_1d(row), array.dtype.name)
        _write_recordio(file, _record(features, _label(labels, index)))


def _write_spmatrix_to_sparse_tensor(file: BinaryIO, array: Any, labels: Any = None) -> None:
    """Writes each row of a scipy sparse matrix as a record of its values, their columns and the row's length."""
    if not hasattr(array, "tocsr"):
        raise TypeError("The array must be a scipy sparse matrix.")
    _check(array, labels, (2,))
    matrix = array.tocsr()
    for index in range(matrix.shape[0]):
        row = matrix.getrow(index)
        features = _value(row.data, matrix.dtype.name, row.indices.tolist(), [matrix.shape[1]])
        _write_recordio(file, _record(features, _label(labels, index)))


def _check(array: Any, labels: Any, dimensions: Sequence[int]) -> None:
    if len(array.shape) not in dimensions:
        raise ValueError("The array must be a matrix.")
    if labels is not None:
        if len(labels.shape) != 1:
            raise ValueError("Labels must be a vector.")
        if labels.shape[0] != array.shape[0]:
            raise ValueError(f"{labels.shape[0]} labels do not fit an array of shape {array.shape}.")
    for part in (array, labels):
        if part is not None and part.dtype.name not in _FIELDS:
            raise ValueError(f"Type {part.dtype} has no tensor: use {', '.join(_FIELDS)}.")


def _label(labels: Any, index: int) -> Optional[bytes]:
    return None if labels is None else _value(labels[index : index + 1], labels.dtype.name)


def _record(features: bytes, label: Optional[bytes]) -> bytes:
    """A Record with one feature and at most one label, under the key "values"."""
    record = _bytes(1, _entry(features))
    return record if label is None else record + _bytes(2, _entry(label))


def _entry(value: bytes) -> bytes:
    return _bytes(1, b"values") + _bytes(2, value)


def _value(values: Any, type_name: str, keys: Optional[List[int]] = None, shape: Optional[List[int]] = None) -> bytes:
    tensor = _bytes(1, _packed(values, type_name))
    if keys is not None:
        tensor += _bytes(2, b"".join(map(_varint, keys)))
    if shape is not None:
        tensor += _bytes(3, b"".join(map(_varint, shape)))
    return _bytes(_FIELDS[type_name], tensor)


def _packed(values: Any, type_name: str) -> bytes:
    if type_name == "int32":
        # A negative number is written as its 64-bit complement, as the format asks.
        return b"".join(_varint(int(value) & 0xFFFFFFFFFFFFFFFF) for value in values)
    little = values if sys.byteorder == "little" else values.byteswap()
    return bytes(little.tobytes())


def _bytes(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
