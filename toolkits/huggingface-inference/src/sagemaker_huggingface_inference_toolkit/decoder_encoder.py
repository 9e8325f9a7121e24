"""Request bodies to what a pipeline takes, and what it gives to bodies.

A decoded request is a dict whose ``inputs`` is the pipeline's first argument and whose ``parameters`` are its keyword
arguments. numpy and Pillow are the image's own, loaded on first use.
"""

from __future__ import annotations

import base64
import csv
import datetime
import io
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sagemaker_inference import decoder, errors, negotiation, records

from sagemaker_huggingface_inference_toolkit import content_types

Body = str | bytes | bytearray | memoryview

_CSV_COLUMNS = ("question", "context", "inputs")
_JSON_SEPARATORS = (",", ":")


class Records(list[Any]):
    """Values of JSON lines: each line is a request of its own, and gets a line of its own in the answer."""


def decode(content: Body, content_type: str | None = content_types.JSON) -> Any:
    """A request: a dict with ``inputs``, or Records of such values. Parameters and case of the type do not matter.

    Raises UnsupportedFormatError (415) for a type without a decoder, UndecodableError (400) for a body that is not
    what its type says.
    """
    kind, parameters = negotiation.media_type(content_type or content_types.JSON)
    decode_kind = _DECODERS.get(kind)
    if decode_kind is None:
        raise errors.UnsupportedFormatError(content_type, _DECODERS)
    if kind in _TEXT_TYPES:
        content = records.text(content, parameters.get("charset") or "utf-8")
    return decode_kind(content)


def encode(content: Any, content_type: str = content_types.JSON) -> str | bytes:
    """The body of an answer: text for JSON, CSV and JSON lines, bytes for images and NPY.

    content_type may be a whole Accept header: the best type for the client is taken. Raises NotAcceptableError (406).
    """
    kind = negotiation.choose(content_type, SUPPORTED, content_types.JSON)
    if kind != content_type:
        negotiation.chosen.set(image_type(kind))
    return _ENCODERS[kind](content)


def decode_json(content: Body) -> Any:
    """Any JSON value. Raises UndecodableError with the place of the fault."""
    try:
        return json.loads(records.text(content))
    except (ValueError, RecursionError) as error:
        if isinstance(error, errors.GenericInferenceToolkitError):
            raise
        raise errors.UndecodableError(f"The body is no JSON: {error}.") from error


def decode_csv(content: Body) -> dict[str, Any]:
    """``{"inputs": …}``: the values of the column ``inputs``, else a dict for each row.

    The first line names the columns, one of question, context and inputs among them. Raises UndecodableError (400).
    """
    reader = csv.reader(io.StringIO(records.text(content).lstrip("\ufeff")), skipinitialspace=True)
    try:
        lines = [(reader.line_num, row) for row in reader if row]
    except csv.Error as error:
        raise errors.UndecodableError(f"Line {reader.line_num} is no CSV: {error}.") from error
    header = [name.strip() for name in lines[0][1]] if lines else []
    if not set(header) & set(_CSV_COLUMNS):
        raise errors.UndecodableError(
            f"The first line of a CSV body must name its columns, one of {', '.join(_CSV_COLUMNS)} among them; it is: "
            f"{','.join(header)[:200]!r}."
        )
    for number, row in lines[1:]:
        if len(row) != len(header):
            raise errors.UndecodableError(f"Line {number} has {len(row)} fields; the first line names {len(header)}.")
    if "inputs" in header:
        return {"inputs": [row[header.index("inputs")] for _, row in lines[1:]]}
    return {"inputs": [dict(zip(header, row, strict=True)) for _, row in lines[1:]]}


def decode_json_lines(content: Body) -> Records:
    return Records(records.parse_json_lines(records.text(content)))


def decode_npy(content: bytes | bytearray | memoryview) -> dict[str, Any]:
    return {"inputs": decoder.decode(content, content_types.NPY).tolist()}


def decode_image(content: bytes | bytearray | memoryview) -> dict[str, Any]:
    """``{"inputs": image}``, an RGB ``PIL.Image``. Raises UndecodableError for what Pillow cannot read."""
    from PIL import Image, UnidentifiedImageError

    try:
        return {"inputs": Image.open(io.BytesIO(content)).convert("RGB")}
    except UnidentifiedImageError as error:
        raise errors.UndecodableError("This is no image of a format that Pillow reads.") from error
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise errors.UndecodableError(f"The image cannot be read: {error}.") from error


def decode_audio(content: bytes | bytearray | memoryview) -> dict[str, Any]:
    """``{"inputs": bytes}``: the file itself, which is read for the model's own sampling rate later."""
    return {"inputs": bytes(content)}


def encode_json(content: Any) -> str:
    """Compact UTF-8 JSON; arrays, tensors, numpy scalars, dates and images (base64 PNG) may stand anywhere.

    Raises ValueError for NaN and infinity, which JSON does not have.
    """
    try:
        return _dumps(content)
    except TypeError:
        # Keys that are no text; looking for them in every answer would cost every answer.
        return _dumps(_with_plain_keys(content))


def encode_csv(content: Any) -> str:
    """A header and a row for each dict; nested values are JSON inside their field. Raises NotAcceptableError (406)."""
    rows = [_row(item) for item in (content if isinstance(content, (list, tuple)) else [content])]
    header = list(dict.fromkeys(name for row in rows for name in row))
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_field(row.get(name, "")) for name in header] for row in rows)
    return stream.getvalue()


def encode_json_lines(content: Any) -> str:
    """A line for each item of a list, a line for anything else; no line end after the last."""
    return records.join(map(encode_json, content if isinstance(content, (list, tuple)) else [content]))


def encode_image(content: Any, content_type: str = content_types.X_IMAGE) -> bytes:
    """The file of an image, or of the only one in a list. Raises NotAcceptableError (406) for anything else."""
    image = content[0] if isinstance(content, (list, tuple)) and len(content) == 1 else content
    if not hasattr(image, "save") or not hasattr(image, "convert"):
        raise errors.NotAcceptableError(content_type, (content_types.JSON, content_types.JSONLINES, content_types.CSV))
    format_ = content_types.IMAGE_FORMATS[content_type]
    if format_ in ("JPEG", "BMP") and image.mode not in ("RGB", "L"):
        image = image.convert("RGB")
    buffer = io.BytesIO()
    image.save(buffer, format=format_)
    return buffer.getvalue()


def encode_npy(content: Any) -> str | bytes:
    from sagemaker_inference import encoder

    return encoder.encode(json.loads(encode_json(content)), content_types.NPY)


def image_type(content_type: str) -> str:
    """The type that an image of an answer really has."""
    return content_types.PNG if content_type == content_types.X_IMAGE else content_type


def _row(item: Any) -> Mapping[str, Any]:
    if isinstance(item, (list, tuple)) and len(item) == 1:  # one answer to one of several inputs
        item = item[0]
    if not isinstance(item, Mapping):
        raise errors.NotAcceptableError(content_types.CSV, (content_types.JSON, content_types.JSONLINES))
    return item


def _field(value: Any) -> Any:
    if isinstance(value, (str, int, float, type(None))):
        return value
    text = encode_json(value)
    return json.loads(text) if text.startswith('"') else text


def _dumps(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=_JSON_SEPARATORS, default=_converted)


def _converted(value: Any) -> Any:
    """What JSON has no form for, as a value that it has one for, or nearly has."""
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode("ascii")
    if hasattr(value, "save") and hasattr(value, "getbands"):
        return base64.b64encode(encode_image(value, content_types.PNG)).decode("ascii")
    if hasattr(value, "detach"):  # a tensor, perhaps on a GPU
        value = value.detach().cpu()
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable):
        return list(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON: {str(value)[:80]}")


def _with_plain_keys(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else _dumps(key): _with_plain_keys(item) for key, item in value.items()}
    return [_with_plain_keys(item) for item in value] if isinstance(value, (list, tuple)) else value


_DECODERS: Mapping[str, Callable[[Any], Any]] = {
    content_types.JSON: decode_json,
    content_types.CSV: decode_csv,
    content_types.NPY: decode_npy,
    **dict.fromkeys(sorted(content_types.JSON_LINES), decode_json_lines),
    **dict.fromkeys(content_types.IMAGE_FORMATS, decode_image),
    **dict.fromkeys(sorted(content_types.AUDIO), decode_audio),
}
_TEXT_TYPES = frozenset((content_types.JSON, content_types.CSV, *content_types.JSON_LINES))


def _image_encoder(content_type: str) -> Callable[[Any], bytes]:
    return lambda content: encode_image(content, content_type)


_ENCODERS: Mapping[str, Callable[[Any], str | bytes]] = {
    content_types.JSON: encode_json,
    content_types.CSV: encode_csv,
    content_types.NPY: encode_npy,
    **dict.fromkeys(sorted(content_types.JSON_LINES), encode_json_lines),
    **{name: _image_encoder(name) for name in content_types.IMAGE_FORMATS},
}
SUPPORTED = tuple(_ENCODERS)
