"""Passes one request on to a unit, and its answer back, byte by byte as they come.

Neither body is ever held whole. When the client goes, the connection to the unit is dropped, so that the model stops
working for nobody; when the unit breaks off in the middle of an answer, so does the router.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from sagemaker_inference.multi_model import refusal
from sagemaker_inference.multi_model.link import Headers, Link, LinkLost
from sagemaker_inference.multi_model.unit import Unit

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

# They concern one connection, not the request (RFC 9110, 7.6.1). 100-continue has been answered by the router.
_HOP_BY_HOP = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade", b"expect")
)
# A short request is over before it is worth a task to watch its client.
_WATCH_AFTER_SECONDS = 0.02


async def forward(unit: Unit, scope: Scope, receive: Receive, send: Send) -> int:
    """Passes a request on as ``POST /invocations``. Returns the status of the answer, 0 when it broke off.

    Raises Refusal when there is no answer; nothing was sent then.
    """
    try:
        link = await unit.pool.take()
    except OSError as error:
        raise refusal.unavailable(f"The model's server does not answer: {error}.") from error
    client = _Client(link, receive)
    begun = False
    try:
        await client.begin(scope)
        status, headers = await link.head()
        body, more = await link.body() if status == 500 else (b"", True)
        if unit.killed_for_memory(body):
            raise refusal.no_memory("The worker was killed while it handled this request, as memory ran out.")
        begun = True
        await send({"type": "http.response.start", "status": status, "headers": _passed_on(headers)})
        if body or not more:
            await send({"type": "http.response.body", "body": body, "more_body": more})
        while more:
            body, more = await link.body()
            await send({"type": "http.response.body", "body": body, "more_body": more})
        return status
    except LinkLost:
        if begun or client.gone:
            return 0
        raise await unit.no_answer() from None
    finally:
        client.end()
        unit.pool.give_back(link)


class _Client:
    """The side of the client: its request's body goes to the link, and its going closes the link."""

    def __init__(self, link: Link, receive: Receive) -> None:
        self.gone = False
        self._link = link
        self._receive = receive
        self._chunked = False
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def begin(self, scope: Scope) -> None:
        """Sends the head, and the body as far as it is there; what comes later is sent beside the caller."""
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self._leave()
            return
        body, more = message.get("body", b""), message.get("more_body", False)
        headers = scope["headers"]
        self._chunked = more and not any(name == b"content-length" for name, _ in headers)
        self._link.request(_head(scope, self._chunked, len(body)), self._framed(body, last=not more), last=not more)
        if more:
            self._watch()
        else:
            self._timer = asyncio.get_running_loop().call_later(_WATCH_AFTER_SECONDS, self._watch)

    def end(self) -> None:
        """Nothing more is expected of the client."""
        if self._timer:
            self._timer.cancel()
        if self._task:
            self._task.cancel()

    def _watch(self) -> None:
        self._task = asyncio.ensure_future(self._follow())

    async def _follow(self) -> None:
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self._leave()
                return
            last = not message.get("more_body", False)
            if data := self._framed(message.get("body", b""), last):
                await self._link.write(data, last)

    def _leave(self) -> None:
        self.gone = True
        self._link.close()

    def _framed(self, body: bytes, last: bool) -> bytes:
        if not self._chunked:
            return body
        chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
        return chunk + b"0\r\n\r\n" if last else chunk


def _head(scope: Scope, chunked: bool, size: int) -> bytes:
    query = scope["query_string"]
    lines = [b"POST /invocations?" + query if query else b"POST /invocations", b" HTTP/1.1\r\n"]
    sized = False
    for name, value in scope["headers"]:
        if name not in _HOP_BY_HOP:
            sized = sized or name == b"content-length"
            lines += (name, b": ", value, b"\r\n")
    if chunked:
        lines.append(b"transfer-encoding: chunked\r\n")
    elif not sized:
        lines.append(b"content-length: %d\r\n" % size)
    lines.append(b"\r\n")
    return b"".join(lines)


def _passed_on(headers: Headers) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in headers if name.lower() not in _HOP_BY_HOP]
