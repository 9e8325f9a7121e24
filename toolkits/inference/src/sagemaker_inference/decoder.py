"""Request bodies to arrays, by content type. Nothing is ever unpickled.

numpy and scipy are the image's own, loaded on first use.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from sagemaker_inference import content_types, errors, negotiation, records

if TYPE_CHECKING:
    import numpy

Body = str | bytes | bytearray | memoryview

#: Bytes that a compressed body may unpack to.
MAX_UNPACKED = 1 << 30


def decode(obj: Body, content_type: str | None) -> Any:
    """The value of a body; parameters and case of the type do not matter, no type means JSON.

    Raises UnsupportedFormatError (415) for a type without a decoder, UndecodableError (400) for a body that is not
    what its type says, with the place of the fault.
    """
    kind, parameters = negotiation.media_type(content_type or content_types.JSON)
    decode_kind = _DECODERS.get(kind)
    if decode_kind is None:
        raise errors.UnsupportedFormatError(content_type, _DECODERS)
    if kind in _TEXT_TYPES:
        obj = records.text(obj, parameters.get("charset") or "utf-8")
    return decode_kind(obj)


def _json_to_numpy(string_like: Body, dtype: Any = None) -> numpy.ndarray[Any, Any]:
    """Any JSON value; an object or null becomes an array of no dimensions that holds it."""
    import numpy as np

    try:
        value = json.loads(string_like)  # type: ignore[arg-type]  # a memoryview never gets here as one
    except (ValueError, RecursionError) as error:
        raise errors.UndecodableError(f"The body is no JSON: {error}.") from error
    try:
        array: numpy.ndarray[Any, Any] = np.array(value, dtype=dtype)
        return array
    except (ValueError, TypeError, OverflowError) as error:
        raise errors.UndecodableError(f"The JSON body is no array: {error}.") from error


def _csv_to_numpy(string_like: Body, dtype: Any = None) -> numpy.ndarray[Any, Any]:
    """Rows of one length; see the table in docs/contract/inference.md for what becomes of each kind of field."""
    import numpy as np

    try:
        # A stream, never the text itself, which numpy would take for a file name or an address.
        stream = io.StringIO(records.text(string_like))
        rows: numpy.ndarray[Any, Any] = np.genfromtxt(stream, dtype=dtype, delimiter=",", encoding=None)
        return rows
    except (ValueError, TypeError, OverflowError, IndexError) as error:  # numpy's own, by version
        raise errors.UndecodableError(f"The body is no CSV: {' '.join(str(error).split())}.") from error


def _npy_to_numpy(npy_array: bytes | bytearray | memoryview) -> numpy.ndarray[Any, Any]:
    """An array that may be written to; one copy of the body at most is made."""
    import numpy as np

    try:
        shape, fortran, dtype, start = _npy_header(io.BytesIO(npy_array), len(npy_array))
        count = math.prod(shape)
        # An empty buffer is none to numpy.
        flat = np.frombuffer(npy_array, dtype, count, start).copy() if count else np.empty(shape, dtype)
        array: numpy.ndarray[Any, Any] = flat.reshape(shape, order="F" if fortran else "C")
        return array
    except ValueError as error:
        raise errors.UndecodableError(f"The body is no NPY array: {error}.") from error


def _npz_to_sparse(npz_bytes: bytes | bytearray | memoryview) -> Any:
    """The scipy.sparse matrix of a body that ``scipy.sparse.save_npz`` wrote."""
    import scipy.sparse

    stream = io.BytesIO(npz_bytes)
    try:
        _check_npz(stream)
        stream.seek(0)
        return scipy.sparse.load_npz(stream)
    except MemoryError:
        raise
    except Exception as error:  # zip archives fail in too many ways to name: their flags alone know a dozen
        raise errors.UndecodableError(f"The body is no sparse NPZ matrix: {error}.") from error


def _json_lines_to_list(string_like: Body) -> list[Any]:
    return records.parse_json_lines(records.text(string_like))


def _npy_header(stream: Any, size: int) -> tuple[tuple[int, ...], bool, numpy.dtype[Any], int]:
    """Shape, whether the order is Fortran's, type and where the data begins. Raises ValueError.

    What the header promises is compared with the size before anything is allocated: a few bytes may claim terabytes.
    """
    import numpy as np

    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise ValueError(f"version {version[0]}.{version[1]} is unknown")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    try:
        shape, fortran, dtype = read(stream)
    except Exception as error:  # numpy evaluates the header, which may fail in any way
        raise ValueError(f"its header cannot be read ({error})") from error
    if dtype.hasobject:
        raise ValueError("arrays of Python objects are not read, since they can run code")
    if any(length < 0 for length in shape) or not dtype.itemsize:
        raise ValueError(f"shape {shape} of {dtype} cannot be")
    promised, held = math.prod(shape) * dtype.itemsize, size - stream.tell()
    if promised > held:
        raise ValueError(f"shape {shape} of {dtype} takes {promised} bytes, and {held} follow the header")
    return shape, fortran, dtype, stream.tell()


def _check_npz(stream: io.BytesIO) -> None:
    import zipfile

    with zipfile.ZipFile(stream) as archive:
        members = archive.infolist()
        unpacked = sum(member.file_size for member in members)
        if unpacked > MAX_UNPACKED:
            raise ValueError(f"it unpacks to {unpacked} bytes, and {MAX_UNPACKED} are allowed")
        for member in members:
            with archive.open(member) as file:
                _npy_header(file, member.file_size)


_DECODERS: Mapping[str, Callable[[Any], Any]] = {
    content_types.JSON: _json_to_numpy,
    content_types.CSV: _csv_to_numpy,
    content_types.NPY: _npy_to_numpy,
    content_types.NPZ: _npz_to_sparse,
    **dict.fromkeys(content_types.JSON_LINES_TYPES, _json_lines_to_list),
}
_TEXT_TYPES = frozenset((content_types.JSON, content_types.CSV, *content_types.JSON_LINES_TYPES))
