"""Answers that are made piece by piece: one write for each item, and a close that shows when one is cut short."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sagemaker_inference.server.wire import Wire
from sagemaker_inference.service import Reply

if TYPE_CHECKING:
    from sagemaker_inference.server.app import App

logger = logging.getLogger("sagemaker_inference.server")

Send = Callable[[dict[str, Any]], Awaitable[None]]


class Broken(Exception):
    """The client is gone, or does not read."""


async def send_all(app: App, scope: Any, send: Send, wire: Wire, reply: Reply, identity: str) -> None:
    """Sends a reply whose body is an iterator of bytes, sync or async; closes the iterator however it ends."""
    items: Any = reply.body
    asynchronous = hasattr(items, "__aiter__")
    wire.protocol.streaming = True
    try:
        if scope["http_version"] == "1.0":
            await _send_whole(send, wire, reply, [item async for item in items] if asynchronous else list(items))
        elif asynchronous:
            await _send_async(send, wire, reply, items)
        else:
            await _send_sync(app, send, wire, reply, items)
    except Broken:
        logger.info("request %s: the client has left its stream", identity)
        wire.abort()
    except Exception:
        logger.exception("request %s: the stream broke off", identity)
        wire.abort()
    finally:
        wire.protocol.streaming = False
        if asynchronous:
            with suppress(Exception, GeneratorExit):
                await items.aclose()
        elif hasattr(items, "close"):
            _close(items, identity)


async def _send_whole(send: Send, wire: Wire, reply: Reply, items: list[bytes]) -> None:
    """HTTP/1.0 knows no chunks."""
    from sagemaker_inference.server.app import answer

    await answer(wire, send, reply, b"".join(items))


async def _send_sync(app: App, send: Send, wire: Wire, reply: Reply, items: Any) -> None:
    await _begin(send, wire, reply)
    for item in items:
        app.touch()
        await _send_item(send, wire, item)
        # The loop waits with us, so that the memory of a client that reads slowly stays bounded.
        if wire.peer_left() or not wire.flush(wire.loop.time() + app.timeout):
            raise Broken
    await _end(send, wire)


async def _send_async(send: Send, wire: Wire, reply: Reply, items: Any) -> None:
    await _begin(send, wire, reply)
    async for item in items:
        await _send_item(send, wire, item)
        if wire.peer_left():
            raise Broken
    await _end(send, wire)


async def _begin(send: Send, wire: Wire, reply: Reply) -> None:
    wire.cork()  # the head leaves together with the first item
    await send({"type": "http.response.start", "status": reply.status, "headers": list(reply.headers)})


async def _send_item(send: Send, wire: Wire, item: bytes) -> None:
    if item:
        await send({"type": "http.response.body", "body": item, "more_body": True})
    wire.uncork()


async def _end(send: Send, wire: Wire) -> None:
    await send({"type": "http.response.body", "body": b"", "more_body": False})
    wire.uncork()
    wire.finish()


def _close(items: Any, identity: str) -> None:
    try:
        items.close()
    except Exception:
        logger.exception("request %s: closing the stream failed", identity)
