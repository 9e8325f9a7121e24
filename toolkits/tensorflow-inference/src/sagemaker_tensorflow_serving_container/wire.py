"""Protocol buffers' wire format, as far as this toolkit reads and writes it.

That is a page; TensorFlow's own reader of it comes with seconds of imports.
"""

from __future__ import annotations

from collections.abc import Iterator

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5


def fields(content: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Each field of a message with its number; groups are not in use. Raises ValueError, IndexError."""
    at = 0
    while at < len(content):
        key, at = read_varint(content, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = read_varint(content, at)
            yield key >> 3, value
            continue
        if kind == _LENGTH:
            size, at = read_varint(content, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"unknown wire type {kind}")
        if at + size > len(content):
            raise ValueError("the message ends within a field")
        yield key >> 3, content[at : at + size]
        at += size


def read_varint(content: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = content[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7


def signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def message(field: int, content: bytes) -> bytes:
    """A field that has a length: a text, bytes, a packed list or a message."""
    return varint(field << 3 | _LENGTH) + varint(len(content)) + content


def number(field: int, value: int) -> bytes:
    """A field that is a whole number or a flag."""
    return varint(field << 3 | _VARINT) + varint(value)


def fixed64(field: int, content: bytes) -> bytes:
    """A field of eight bytes, such as a double."""
    return varint(field << 3 | _FIXED64) + content


def varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
