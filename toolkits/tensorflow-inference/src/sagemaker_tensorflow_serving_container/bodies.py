"""The body that goes to the model, made of the one that came in.

Rules tf-body-*: JSON that already has TensorFlow Serving's form passes through; values, lines of JSON and CSV rows
become row-format instances. Nothing here needs numpy.
"""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any

from sagemaker_inference import content_types

from sagemaker_tensorflow_serving_container.documents import Document

JSON = content_types.JSON
CSV = content_types.CSV
LINES = content_types.JSON_LINES_TYPES
SUPPORTED = (JSON, CSV, *LINES)

_READY = ("instances", "inputs", "examples")
# JSON's own grammar of a number, and what numpy and spreadsheets write beside it. 007 and 1_000 are names.
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_DECIMAL = re.compile(r"[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_SPECIAL = {"NaN", "nan", "Infinity", "-Infinity", "inf", "-inf"}

# The default, 128 KiB, is less than an image in base64.
csv.field_size_limit(1 << 30)


class BodyError(ValueError):
    """The body cannot be read as what its type says: answered 400."""


class UnsupportedType(ValueError):
    """No such type can be turned into instances: answered 415."""


def convert(body: bytes, media_type: str | None, charset: str = "utf-8") -> Document:
    """The body in TensorFlow Serving's REST form. Raises BodyError, UnsupportedType.

    Without a type the body is taken as JSON. ``media_type`` is lower case and without parameters.
    """
    media_type = media_type or JSON
    if media_type not in SUPPORTED:
        raise UnsupportedType(f"Unsupported Media Type: {media_type}. Use one of: {', '.join(SUPPORTED)}.")
    try:
        text = body.decode(charset).removeprefix("\ufeff")
    except (UnicodeDecodeError, LookupError) as error:
        raise BodyError(f"The body is no {charset} text: {error}.") from None
    if media_type == CSV:
        return Document({"instances": _rows(text)})
    values = _values(text)
    if len(values) != 1:
        return Document({"instances": values})
    (value,) = values
    if isinstance(value, dict) and any(key in value for key in _READY):
        if any(value.get(key) == [] for key in _READY):
            raise BodyError(_EMPTY)
        return Document(value, body if charset.lower() in ("utf-8", "us-ascii") else None)
    if _is_list_of_lists(value) and media_type == JSON:
        return Document({"instances": value})
    return Document({"instances": [value]})


_EMPTY = "There are no records in the body."


def read(body: bytes) -> Document:
    """The one JSON value of a body that is meant for TensorFlow Serving already. Raises BodyError."""
    try:
        values = _values(body.decode())
    except UnicodeDecodeError as error:
        raise BodyError(f"The body is no UTF-8 text: {error}.") from None
    if len(values) != 1:
        raise BodyError("The body holds more than one JSON value.")
    return Document(values[0], body)


def _values(text: str) -> list[Any]:
    """The JSON values of a text, one after another: on lines of their own, or as ``}{`` and ``][``."""
    decoder = json.JSONDecoder()
    values: list[Any] = []
    at = _skip_blanks(text, 0)
    while at < len(text):
        try:
            value, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            raise BodyError(f"The body is no JSON: {error}.") from None
        except RecursionError:
            raise BodyError("The body is no JSON that can be read: it is nested too deeply.") from None
        values.append(value)
        at = _skip_blanks(text, end)
        if at < len(text) and "\n" not in text[end:at] and not (text[end - 1] in "}]" and text[at] in "{["):
            raise BodyError(f"The body is no JSON: a second value follows at character {at}, on the same line.")
    if not values or values == [[]]:
        raise BodyError(_EMPTY)
    return values


def _skip_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _is_list_of_lists(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, list) for item in value)


def _rows(text: str) -> list[Any]:
    """CSV's rows by RFC 4180: a list of cells each, or the cell itself where there is one column."""
    rows: list[list[Any]] = []
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for cells in reader:
            if not cells or (len(cells) == 1 and not cells[0].strip()):
                continue
            if rows and len(cells) != len(rows[0]):
                raise BodyError(
                    f"The CSV row in line {reader.line_num} has {len(cells)} columns, the first one has {len(rows[0])}."
                )
            rows.append([_cell(cell) for cell in cells])
    except csv.Error as error:
        raise BodyError(f"The body is no CSV: line {reader.line_num}: {error}.") from None
    if not rows:
        raise BodyError(_EMPTY)
    return [row[0] for row in rows] if len(rows[0]) == 1 else rows


def _cell(text: str) -> int | float | str:
    number = text.strip()
    if _INTEGER.fullmatch(number):
        return int(number)
    if _DECIMAL.fullmatch(number) or number in _SPECIAL:
        return float(number)
    return text


def is_binary(value: Any) -> bool:
    """Whether a value is bytes, which JSON has as ``{"b64": TEXT}``."""
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get("b64"), str)
