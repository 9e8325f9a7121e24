"""uvicorn's HTTP/1.1 on a ``Wire``: a request is handled the moment its last byte is read, without a task.

Differences from uvicorn's own: heads and bodies have a limit, a request that cannot be read gets its error as JSON, and
functions that are not async run in place, so that one connection is read, handled and answered before the next is read.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from sagemaker_inference.server import board, replies
from sagemaker_inference.server.wire import BODY_BYTES, READ_BYTES, Wire

HEAD_BYTES = 65536
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
BIDIRECTIONAL = b"/invocations-bidirectional-stream"
KEEP_ALIVE_SECONDS = 75
"""Longer than clients keep idle connections, so that it is the client who closes, not a request that meets a close."""

logger = logging.getLogger("sagemaker_inference.server")


class Connection(HttpToolsProtocol):
    """One client's requests, one after the other."""

    def __init__(
        self, config: uvicorn.Config, server_state: ServerState, wire: Wire, limit: int | None, inline: bool
    ) -> None:
        super().__init__(config, server_state, {"wire": wire}, wire.loop)
        self.access_log = False
        self._wire = wire
        self._limit = limit
        self._inline = inline
        self.waits = not inline
        """Whether its requests run in tasks, which may wait until the client has read."""
        self._in_head = False
        self._head_bytes = 0
        self._parts: list[bytes] = []
        self._size = 0
        self._refused = False
        self._upgrading = False
        self.draining = False
        self.streaming = False
        self.read_at = time.monotonic()
        """When the last bytes of an unfinished request came."""

    # What the wire asks

    def answering(self) -> bool:
        """Whether a request has been read whole and is not answered yet."""
        cycle = self.cycle
        return bool(self.pipeline) or (cycle is not None and not cycle.more_body and not cycle.response_complete)

    def receiving(self) -> bool:
        """Whether a part of a request has been read, but not all."""
        return self._in_head or (self.cycle is not None and self.cycle.more_body)

    def peer_gone(self) -> None:
        """The peer of a stream has ended."""
        self.cycle.disconnected = True
        self.cycle.message_event.set()

    # What the parser and the wire call

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        super().data_received(data)
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES:
                self._refuse(431, f"The request's head is larger than {HEAD_BYTES} bytes.")
        if self.receiving():
            self.read_at = time.monotonic()

    def _should_upgrade_to_ws(self) -> bool:
        # On any other path an upgrade is a request like others, and gets its 404.
        return super()._should_upgrade_to_ws() and self.url.partition(b"?")[0] == BIDIRECTIONAL

    def _unsupported_upgrade_warning(self) -> None:
        """The answer says it."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True
        self._head_bytes = 0
        self._parts = []
        self._size = 0
        if not self._wire.closed:
            self._wire.words[self._wire.state] = board.READ

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._upgrading = self.ws_protocol_class is not None and self.parser.should_upgrade() and self._should_upgrade()
        super().on_headers_complete()
        if self.draining and not self._upgrading:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        if self._upgrading or self.cycle.response_complete or self._refused:
            return
        if not self._parts:
            self._wire.read_bytes = BODY_BYTES
        self._parts.append(body)
        self._size += len(body)
        if self._limit is not None and self._size > self._limit:
            self._too_large(self._size, more=True)

    def on_message_complete(self) -> None:
        self._wire.read_bytes = READ_BYTES
        if self._upgrading:
            return
        cycle = self.cycle
        if cycle.response_complete or self._refused:
            return
        parts, self._parts = self._parts, []
        cycle.body = parts[0] if len(parts) == 1 else b"".join(parts)  # type: ignore[assignment]
        cycle.more_body = False
        cycle.message_event.set()
        if not self.pipeline:
            self._run(cycle)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        if cycle.more_body:
            # It runs when its last byte is in; until then only the head can be judged.
            self._judge_head(cycle)
        else:
            self._run(cycle)

    def _judge_head(self, cycle: RequestResponseCycle) -> None:
        if self._limit is None and not cycle.waiting_for_100_continue:
            return
        for name, value in self.headers:
            if name == b"content-length" and self._limit is not None and int(value) > self._limit:
                self._too_large(int(value))
                return
        if cycle.waiting_for_100_continue:
            cycle.waiting_for_100_continue = False
            self._wire.interim(CONTINUE)

    def _run(self, cycle: RequestResponseCycle) -> None:
        running = cycle.run_asgi(self.app)
        if self._inline:
            try:
                ticket = running.send(None)
            except StopIteration:
                return
            # All that functions which are not async ever wait for is the rest of a batch.
            ticket.coroutine = running
            return
        task: asyncio.Task[None] = self.loop.create_task(running)
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)

    # Refusals

    def _too_large(self, size: int, more: bool = False) -> None:
        self._refuse(413, replies.too_large(size, self._limit or 0, more))

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, msg)

    def _refuse(self, status: int, message: str) -> None:
        """Answers a request that is not read to its end, and closes."""
        self._refused = True
        self._parts = []
        if self.cycle is not None:
            self.cycle.response_complete = True
        self._wire.cork()
        self._wire.write(replies.whole(status, message, close=True))
        self._wire.uncork()
        self._wire.finish()
        self._wire.close()

    def give_up(self) -> None:
        """The client has stopped in the middle of a request."""
        self._refuse(408, "The rest of the request did not come.")

    def drain(self) -> None:
        """No further request on this connection: closes when what is there already is answered."""
        self.draining = True
        if self.answering() or self.receiving() or self._wire.waiting():
            if self.cycle is not None:
                self.cycle.keep_alive = False
        else:
            self._wire.close()
