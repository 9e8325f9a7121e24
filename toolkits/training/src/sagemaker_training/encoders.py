"""Arrays as npy, JSON and CSV, and back. numpy is loaded on first use."""

from __future__ import annotations

import io
import json
from typing import Any, Callable, Dict, Optional, Union

from sagemaker_training import content_types, errors


def array_to_npy(array_like: Any) -> bytes:
    import numpy as np

    buffer = io.BytesIO()
    np.save(buffer, array_like)
    return buffer.getvalue()


def npy_to_numpy(npy_array: bytes) -> Any:
    """Raises ValueError for arrays of objects: reading them would run code from the bytes."""
    import numpy as np

    return np.load(io.BytesIO(npy_array), allow_pickle=False)


def array_to_json(array_like: Any) -> str:
    def plain(value: Any) -> Any:
        if hasattr(value, "tolist"):
            return value.tolist()
        raise TypeError(f"{type(value).__name__} has no JSON form")

    return json.dumps(array_like, default=plain)


def json_to_numpy(string_like: Union[str, bytes], dtype: Any = None) -> Any:
    import numpy as np

    return np.array(json.loads(string_like), dtype=dtype)


def csv_to_numpy(string_like: str, dtype: Any = None) -> Any:
    """Numbers as given; where a cell is none, text."""
    import numpy as np

    try:
        return np.genfromtxt(io.StringIO(string_like), dtype=dtype, delimiter=",")
    except ValueError as error:
        raise errors.ClientError(f"The CSV cannot be read as an array: {error}") from error


def array_to_csv(array_like: Any) -> str:
    import numpy as np

    buffer = io.StringIO()
    np.savetxt(buffer, np.atleast_2d(np.array(array_like)), delimiter=",", fmt="%s")
    return buffer.getvalue()


_DECODERS: Dict[str, Callable[[Any], Any]] = {
    content_types.NPY: npy_to_numpy,
    content_types.CSV: csv_to_numpy,
    content_types.JSON: json_to_numpy,
}
_ENCODERS: Dict[str, Callable[[Any], Any]] = {
    content_types.NPY: array_to_npy,
    content_types.CSV: array_to_csv,
    content_types.JSON: array_to_json,
}


def decode(obj: Any, content_type: str) -> Any:
    """An array from its encoded form. Raises UnsupportedFormatError."""
    return _coder(_DECODERS, content_type)(obj)


def encode(array_like: Any, content_type: str) -> Any:
    """An array in encoded form. Raises UnsupportedFormatError."""
    return _coder(_ENCODERS, content_type)(array_like)


def _coder(table: Dict[str, Callable[[Any], Any]], content_type: str) -> Callable[[Any], Any]:
    coder: Optional[Callable[[Any], Any]] = table.get(content_type.split(";")[0].strip().lower())
    if coder is None:
        raise errors.UnsupportedFormatError(content_type)
    return coder
