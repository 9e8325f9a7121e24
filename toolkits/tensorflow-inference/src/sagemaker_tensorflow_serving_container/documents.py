"""JSON that is needed as a value here and as bytes there, and is converted once, if at all."""

from __future__ import annotations

import json
from typing import Any

_UNREAD: Any = object()


class Document:
    """One JSON value. Made of a value, of bytes, or of both."""

    __slots__ = ("_data", "_value")

    def __init__(self, value: Any = _UNREAD, data: bytes | None = None) -> None:
        self._value = value
        self._data = data

    @property
    def value(self) -> Any:
        """Raises ValueError if the bytes are no JSON."""
        if self._value is _UNREAD:
            self._value = json.loads(self._data or b"")
        return self._value

    @property
    def data(self) -> bytes:
        if self._data is None:
            self._data = json.dumps(self._value, ensure_ascii=False).encode()
        return self._data
