"""Predictions to bodies, by media type. numpy is the image's own, loaded on first use."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from typing import Any

from sagemaker_inference import content_types, negotiation, records

SUPPORTED_CONTENT_TYPES = frozenset((content_types.JSON, content_types.CSV, content_types.NPY))


def encode(array_like: Any, content_type: str) -> str | bytes:
    """The body of a value: text for JSON, CSV and JSON lines, bytes for NPY.

    content_type may be a whole Accept header: the best type for the client is taken, and stands in the answer's
    header unless the user's function names another. Raises NotAcceptableError (406).
    """
    kind = negotiation.choose(content_type, SUPPORTED, content_types.JSON)
    if kind != content_type:
        negotiation.chosen.set(kind)
    return _ENCODERS[kind](array_like)


def plain(value: Any) -> Any:
    """What JSON has no form for, as a value that it has one for: arrays, tensors and their scalars have tolist."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no form in JSON: {str(value)[:80]}")


def _array_to_json(array_like: Any) -> str:
    """Arrays, tensors and numpy scalars may stand anywhere inside lists and dicts. NaN is written as NaN."""
    try:
        return json.dumps(array_like, default=plain)
    except TypeError:
        # numpy scalars as keys; looking for them in every answer would cost every answer.
        return json.dumps(_plain_keys(array_like), default=plain)


def _array_to_csv(array_like: Any) -> str:
    """A row for each row of two dimensions, or for each value of one, with a line end after the last."""
    import numpy as np

    stream = io.StringIO()
    np.savetxt(stream, array_like, delimiter=",", fmt="%s")
    return stream.getvalue()


def _array_to_npy(array_like: Any) -> bytes:
    """Raises ValueError for what would have to be pickled, such as dicts."""
    import numpy as np

    buffer = io.BytesIO()
    np.save(buffer, array_like, allow_pickle=False)
    return buffer.getvalue()


def _array_to_json_lines(array_like: Any) -> str:
    """A line for each item of a list or of an array's first dimension; a line for anything else."""
    value = array_like.tolist() if hasattr(array_like, "tolist") else array_like
    items = value if isinstance(value, (list, tuple)) else [value]
    return records.join(_array_to_json(item) for item in items)


def _plain_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {plain(key) if hasattr(key, "tolist") else key: _plain_keys(item) for key, item in value.items()}
    return [_plain_keys(item) for item in value] if isinstance(value, (list, tuple)) else value


_ENCODERS: Mapping[str, Callable[[Any], str | bytes]] = {
    content_types.JSON: _array_to_json,
    content_types.CSV: _array_to_csv,
    content_types.NPY: _array_to_npy,
    **dict.fromkeys(content_types.JSON_LINES_TYPES, _array_to_json_lines),
}
SUPPORTED = tuple(_ENCODERS)
