"""The answer in the form that the client accepts: JSON on one line, a line for each record, or CSV rows.

Rules tf-accept-*.
"""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from sagemaker_inference import negotiation

from sagemaker_tensorflow_serving_container import bodies
from sagemaker_tensorflow_serving_container.documents import Document

SUPPORTED = bodies.SUPPORTED
_RECORDS = ("predictions", "results")


def choose(accept: str | None, default: str) -> str:
    """The type of the answer. Raises sagemaker_inference.errors.NotAcceptableError."""
    return negotiation.choose(accept, SUPPORTED, default)


def render(document: Document, media_type: str) -> bytes:
    """A good answer as one of the supported types. Raises ValueError where its values fit no row."""
    if media_type == bodies.CSV:
        return _csv(_records(document.value))
    if media_type in bodies.LINES:
        return _lines(document.value)
    return one_line(document.data)


def one_line(data: bytes) -> bytes:
    """JSON without its line ends, which only ever stand between its parts: one answer is one line of an output."""
    return data.replace(b"\r", b"").replace(b"\n", b"")


def _lines(value: Any) -> bytes:
    """One object for each record, each of them what the record alone would have been answered."""
    for key in _RECORDS:
        if isinstance(value, dict) and isinstance(value.get(key), list):
            return b"\n".join(_json({key: [record]}) for record in value[key])
    return _json(value)


def _records(value: Any) -> list[Any]:
    for key in (*_RECORDS, "outputs"):
        if isinstance(value, dict) and key in value:
            records = value[key]
            return _columns(records) if key == "outputs" else records
    raise ValueError("The answer holds no records that CSV could show.")


def _columns(outputs: Any) -> list[Any]:
    """Rows of a columnar answer; several outputs stand beside each other."""
    if not isinstance(outputs, dict):
        return outputs if isinstance(outputs, list) else [outputs]
    columns = [column if isinstance(column, list) else [column] for column in outputs.values()]
    if len({len(column) for column in columns}) > 1:
        raise ValueError("The outputs differ in length: CSV cannot show them side by side. Accept application/json.")
    return [list(row) for row in zip(*columns, strict=True)]


def _csv(records: list[Any]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for record in records:
        writer.writerow([cell if isinstance(cell, str) else json.dumps(cell) for cell in _cells(record)])
    # The platform joins outputs with line ends of its own.
    return text.getvalue().removesuffix("\n").encode()


def _cells(record: Any) -> list[Any]:
    """The values of a record, one after another, whatever lists and names they are in."""
    if bodies.is_binary(record):
        return [record["b64"]]
    if isinstance(record, dict):
        record = list(record.values())
    if isinstance(record, list):
        return [cell for item in record for cell in _cells(item)]
    return [record]


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()
