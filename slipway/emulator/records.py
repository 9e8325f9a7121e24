"""How batch transform cuts input objects into requests, and puts answers together again.

Source of the rules: the SageMaker API reference, TransformInput, TransformOutput and DataProcessing.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterable, Iterator, Sequence

from slipway.errors import InputError

SPLITS = ("None", "Line", "RecordIO", "TFRecord")
ASSEMBLIES = ("None", "Line")
STRATEGIES = ("SingleRecord", "MultiRecord")
JOINS = ("None", "Input")

_RECORDIO_MAGIC = 0xCED7230A


def split(data: bytes, how: str) -> list[bytes]:
    """The records of an object, each with what delimits it. Raises InputError for one that is cut short."""
    if how == "Line":
        return list(io.BytesIO(data))  # whose lines end with a line feed only: a carriage return alone is data
    if how == "RecordIO":
        return list(_recordio(data))
    if how == "TFRecord":
        return list(_tfrecord(data))
    return [data]


def recordio(data: bytes) -> bytes:
    """A record as RecordIO frames it: magic, length, data, filled up to four bytes."""
    return struct.pack("<II", _RECORDIO_MAGIC, len(data)) + data + b"\0" * (-len(data) % 4)


def _recordio(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        if len(data) - at < 8:
            raise InputError(f"RecordIO: byte {at} begins a record that is cut short")
        magic, length = struct.unpack_from("<II", data, at)
        if magic != _RECORDIO_MAGIC:
            raise InputError(f"RecordIO: byte {at} does not begin a record")
        size = 8 + ((length & 0x1FFFFFFF) + 3) // 4 * 4
        if at + size > len(data):
            raise InputError(f"RecordIO: the record at byte {at} is cut short")
        yield data[at : at + size]
        at += size


def _tfrecord(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        size = 16 + struct.unpack_from("<Q", data, at)[0] if len(data) - at >= 12 else 0
        if not size or at + size > len(data):
            raise InputError(f"TFRecord: the record at byte {at} is cut short")
        yield data[at : at + size]
        at += size


def pack(records: Sequence[bytes], strategy: str, most: int) -> Iterator[bytes]:
    """Request bodies of at most `most` bytes (0: no limit): one record each, or as many as fit.

    Raises InputError for a record that is larger by itself.
    """
    body, count = b"", 0
    for number, record in enumerate(records, 1):
        if most and len(record) > most:
            what = f"record {number} has {len(record):,} bytes, more than MaxPayloadInMB allows ({most:,})"
            raise InputError(what, fix="raise it, or split the input otherwise")
        if count and (strategy == "SingleRecord" or (most and len(body) + len(record) > most)):
            yield body
            body, count = b"", 0
        body += record
        count += 1
    if count:
        yield body


def assemble(answers: Iterable[bytes], how: str) -> bytes:
    """One output object: the answers one after the other, or a line end after each that has none."""
    if how != "Line":
        return b"".join(answers)
    return b"".join(answer if answer.endswith(b"\n") else answer + b"\n" for answer in answers)


def join(inputs: bytes, output: bytes, media_type: str) -> bytes:
    """Each input record beside its answer, line by line.

    CSV: the answer's columns follow the input's. JSON lines: the answer is `SageMakerOutput` in the input's object; an
    input that is no object becomes `SageMakerInput`. Raises InputError when the counts differ.
    """
    given = [line for line in inputs.decode().split("\n") if line.strip()]
    got = [line for line in output.decode().split("\n") if line.strip()]
    if len(given) != len(got):
        what = f"{len(given)} input records and {len(got)} answers cannot be joined"
        raise InputError(what, fix="the container must answer one line for each record, in order")
    if "json" not in media_type:
        return "".join(f"{left.rstrip()},{right.rstrip()}\n" for left, right in zip(given, got, strict=True)).encode()
    rows = []
    for left, right in zip(given, got, strict=True):
        value, answer = json.loads(left), json.loads(right)
        held = value if isinstance(value, dict) else {"SageMakerInput": value}
        rows.append(json.dumps({**held, "SageMakerOutput": answer}, ensure_ascii=False, separators=(",", ":")) + "\n")
    return "".join(rows).encode()
