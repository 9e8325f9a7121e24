"""What a user function returned, as the body of an answer."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from sagemaker_inference import content_types, encoder, errors, negotiation

_FRAMED = "data: {}\n\n"


def pair(name: str, result: tuple[Any, ...]) -> tuple[Any, str | None]:
    """Body and content type of a result that is a tuple. Raises TypeError for other tuples."""
    if len(result) == 2 and (result[1] is None or isinstance(result[1], str)):
        return result
    raise TypeError(f"{name} returned a tuple that is not (body, content type).")


def whole(name: str, result: Any) -> bytes:
    """The bytes of a result that is no stream: text as UTF-8, bytes as they are, None as nothing, values as JSON."""
    if isinstance(result, str):
        return result.encode()
    if isinstance(result, (bytes, bytearray, memoryview)):
        return bytes(result)
    if result is None:
        return b""
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise TypeError(f"{name} returned something to be awaited: define it with async def.")
    encoded = encoder.encode(result, content_types.JSON)
    return encoded.encode() if isinstance(encoded, str) else encoded


def is_stream(result: Any) -> bool:
    """Whether a result is sent item by item: an iterator of either kind, such as a generator; no list or file name."""
    return hasattr(result, "__next__") or hasattr(result, "__anext__")


def stream_type(first: Any, accept: negotiation.Accept) -> str:
    """The content type of a stream whose maker names none: text is what the client asked for, values are lines."""
    if isinstance(first, (str, bytes, bytearray, memoryview)):
        return accept.first
    try:
        supported = (*content_types.JSON_LINES_TYPES, content_types.EVENT_STREAM)
        return negotiation.choose(accept.value, supported, content_types.JSON_LINES)
    except errors.NotAcceptableError:
        # A stream of JSON values is what the user's code makes of any request, and lines are its only true name.
        return content_types.JSON_LINES


def item_writer(kind: str) -> Callable[[Any], bytes]:
    """A function from one item of a stream to its bytes; text and bytes go as they are."""
    frame = _FRAMED if negotiation.media_type(kind)[0] == content_types.EVENT_STREAM else "{}\n"

    def write(item: Any) -> bytes:
        if isinstance(item, (str, bytes, bytearray, memoryview)):
            return whole("", item)
        return b"" if item is None else frame.format(whole("", item).decode()).encode()

    return write


class Stream(Iterator[bytes]):
    """The bytes of an iterator whose first item has been taken; closing it closes the iterator."""

    __slots__ = ("_first", "_items", "_write")

    def __init__(self, first: Any, items: Iterator[Any], write: Callable[[Any], bytes]) -> None:
        self._first: list[Any] = [first]
        self._items = items
        self._write = write

    def __next__(self) -> bytes:
        if self._first:
            return self._write(self._first.pop())
        return self._write(next(self._items))

    def close(self) -> None:
        self._first.clear()
        close = getattr(self._items, "close", None)
        if close:
            close()


class AsyncStream(AsyncIterator[bytes]):
    """The same for an async iterator."""

    __slots__ = ("_first", "_items", "_write")

    def __init__(self, first: Any, items: AsyncIterator[Any], write: Callable[[Any], bytes]) -> None:
        self._first: list[Any] = [first]
        self._items = items
        self._write = write

    async def __anext__(self) -> bytes:
        if self._first:
            return self._write(self._first.pop())
        return self._write(await anext(self._items))

    async def aclose(self) -> None:
        self._first.clear()
        close = getattr(self._items, "aclose", None)
        if close:
            await close()
