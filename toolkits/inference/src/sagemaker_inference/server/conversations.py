"""Bidirectional streams: the platform's side-car opens a WebSocket, and messages go both ways."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from sagemaker_inference.server import board, replies
from sagemaker_inference.server.wire import Wire
from sagemaker_inference.service import Headers, Message, Request, Service

PATH = "/invocations-bidirectional-stream"
_NORMAL = 1000
_FAILED = 1011
_REASON_BYTES = 123
"""What a closing frame has room for."""

logger = logging.getLogger("sagemaker_inference.server")


class Conversation(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket on a ``Wire``."""

    streaming = True
    waits = True
    read_at = 0.0
    draining = False

    def answering(self) -> bool:
        return True

    def receiving(self) -> bool:
        return False

    def peer_gone(self) -> None:
        self.transport.abort()

    def drain(self) -> None:
        """Ends the conversation: it has no end of its own that could be waited for."""
        self.shutdown()

    def connection_made(self, transport: Any) -> None:
        # Whatever is written from here on cannot be sent by another worker.
        wire: Wire = transport
        wire.words[wire.state] = board.ANSWERING
        super().connection_made(transport)


async def converse(service: Service, scope: Any, receive: Callable[[], Awaitable[Any]], send: Any) -> None:
    """One conversation, from its acceptance to its end."""
    await receive()
    await send({"type": "websocket.accept"})
    request = Request(b"", Headers(scope["headers"]), replies.request_id(), PATH)
    ours = service.converse(_messages(receive), request)
    try:
        async for message in ours:
            await send({"type": "websocket.send", "text" if isinstance(message, str) else "bytes": message})
    except OSError:
        logger.info("request %s: the client has left its conversation", request.id)
    except Exception as error:
        logger.exception("request %s: the conversation failed", request.id)
        await _close(send, _FAILED, str(error))
    else:
        await _close(send, _NORMAL, "")
    finally:
        await ours.aclose()


async def _messages(receive: Callable[[], Awaitable[Any]]) -> AsyncIterator[Message]:
    """What the client sends, until it closes."""
    while True:
        event = await receive()
        if event["type"] == "websocket.disconnect":
            return
        text = event.get("text")
        yield event["bytes"] if text is None else text


async def _close(send: Any, code: int, reason: str) -> None:
    cut = reason.encode()[:_REASON_BYTES].decode(errors="ignore")
    # It may be closed already.
    with suppress(OSError, RuntimeError):
        await send({"type": "websocket.close", "code": code, "reason": cut})
