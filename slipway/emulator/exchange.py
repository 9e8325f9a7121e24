"""HTTP to a container that serves: one request and its answer, whole or as it comes."""

from __future__ import annotations

import contextlib
import http.client
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_BLOCK = 1 << 16


@dataclass(frozen=True)
class Request:
    """A request to a container. `headers` beyond those of HTTP itself; `timeout` in seconds."""

    method: str
    path: str
    body: bytes = b""
    headers: Mapping[str, str] | None = None
    timeout: float = 60.0


@dataclass(frozen=True)
class Answer:
    """What a container answered. `headers` by lower-case name."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "")

    def text(self, longest: int = 500) -> str:
        """The beginning of the body, for people."""
        text = self.body.decode("utf-8", "replace")
        return text if len(text) <= longest else text[:longest] + " …"


class NoAnswer(Exception):
    """The container closed the connection, refused it, or let the time limit pass; the text says which."""


class BrokenStream(NoAnswer):
    """An answer ended before its end."""


def exchange(port: int, request: Request) -> Answer:
    """The whole answer. Raises NoAnswer."""
    with _response(port, request) as response:
        try:
            body = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise BrokenStream(f"its answer broke off: {_said(error)}") from None
        return Answer(response.status, _headers(response), body)


@contextlib.contextmanager
def streaming(port: int, request: Request) -> Iterator[tuple[Answer, Iterator[bytes]]]:
    """The answer's head, with an empty body, and its parts as they come. Parts raise BrokenStream."""
    with _response(port, request) as response:
        yield Answer(response.status, _headers(response), b""), _parts(response)


def _parts(response: http.client.HTTPResponse) -> Iterator[bytes]:
    while True:
        try:
            part = response.read1(_BLOCK)
        except (OSError, http.client.HTTPException) as error:
            raise BrokenStream(f"its answer broke off: {_said(error)}") from None
        if not part:
            # A length that was promised and not kept ends just as quietly.
            if response.length:
                raise BrokenStream(f"its answer broke off {response.length} bytes before its end")
            return
        yield part


@contextlib.contextmanager
def _response(port: int, request: Request) -> Iterator[http.client.HTTPResponse]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=request.timeout)
    try:
        try:
            connection.request(
                request.method, request.path, request.body or None, dict(request.headers or {}), encode_chunked=False
            )
            response = connection.getresponse()
        except TimeoutError:
            raise NoAnswer(f"no answer within {request.timeout:g} s") from None
        except (OSError, http.client.HTTPException) as error:
            raise NoAnswer(_said(error)) from None
        yield response
    finally:
        connection.close()


def _headers(response: http.client.HTTPResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.getheaders()}


def _said(error: BaseException) -> str:
    return str(error) or type(error).__name__
