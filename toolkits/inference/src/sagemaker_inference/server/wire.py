"""A connection's transport in a worker: reads only what is handled next, and writes at once.

uvloop's own transport reads every connection that has something before the first request is handled, and writes when
all are. Then a worker that is killed takes requests with it that it had not begun, and answers that it had given. Here
a request stays in the kernel until its turn, where another worker can still read it.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from sagemaker_inference.server import board

READ_BYTES = 65536
BODY_BYTES = 1 << 20
"""Read at a time while a large body comes in."""
HIGH_WATER = 1 << 20
UNREAD_BYTES = 64 << 20
"""Of earlier answers, when one more is to be sent on the same connection."""
LINGER_SECONDS = 5.0
_JOIN_BYTES = 1 << 16  # below, one copy is cheaper than a list for writev


class Wire(asyncio.Transport):
    """Carries bytes between one socket and one protocol, and notes on the board how far both have come."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        connection: socket.socket,
        shared: board.Board,
        slot: int,
        on_closed: Callable[[Wire], None],
    ) -> None:
        super().__init__()
        self.loop = loop
        self.slot = slot
        self.read_bytes = READ_BYTES
        self._socket = connection
        self._descriptor = connection.fileno()
        self.words = shared.words
        self.times = shared.times
        first = board.slot_cell(slot)
        self.state = first + board.STATE
        self.started = first + board.STARTED
        self._received = first + board.RECEIVED
        self._sent = first + board.SENT
        self._expected = first + board.EXPECTED
        self._on_closed = on_closed
        self.protocol: Any = None
        self._parts: list[bytes] | None = None
        self._backlog: list[memoryview] = []
        self._answer = 0  # bytes of the answer so far
        self._answered = False
        self._reading = False
        self._closing = False
        self.closed = False
        self._ended = False
        self._lingering: asyncio.TimerHandle | None = None

    def open(self, protocol: Any) -> None:
        """Begins to read for the protocol."""
        self.protocol = protocol
        self.words[self.state] = board.IDLE
        protocol.connection_made(self)
        self.resume_reading()
        # What the supervisor looked at is there already.
        self._readable()

    # Reading

    def _readable(self) -> None:
        words = self.words
        before = words[self.state]
        if before == board.TAKEN:
            self._lost(None)
            return
        if before == board.IDLE:
            # Noted first: were we killed between, nobody would answer what we have read.
            words[self.state] = board.READ
        try:
            data = self._socket.recv(self.read_bytes)
        except (BlockingIOError, InterruptedError):
            words[self.state] = before
            return
        except OSError as error:
            self._lost(error)
            return
        words[self._received] += len(data) or 1
        if not data:
            self._peer_ended()
        elif not self._closing:
            self.protocol.data_received(data)
            if before == board.IDLE and words[self.state] == board.READ and not self.closed:
                self._nothing_begun()

    def _nothing_begun(self) -> None:
        """Takes back that a request is being read, where an empty line was all that came."""
        protocol = self.protocol
        if not (self._closing or protocol.receiving() or protocol.answering()):
            self.words[self.state] = board.IDLE

    def _peer_ended(self) -> None:
        """The peer sends no more. It may still wait for an answer that is on its way, but not for a stream."""
        self._ended = True
        self.pause_reading()
        if self._closing or not self.protocol.answering():
            self._lost(None)
        elif self.protocol.streaming:
            self.protocol.peer_gone()

    def peer_left(self) -> bool:
        """Whether the peer has ended or reset the connection, seen without reading."""
        if self.closed or self._ended:
            return True
        poll = select.poll()
        poll.register(self._descriptor, select.POLLRDHUP)
        return bool(poll.poll(0))

    def waiting(self) -> bool:
        """Whether bytes of a next request wait unread."""
        try:
            return bool(self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except OSError:
            return False

    def pause_reading(self) -> None:
        if self._reading:
            self._reading = False
            self.loop.remove_reader(self._descriptor)

    def resume_reading(self) -> None:
        if not self._reading and not self._ended and not self.closed:
            self._reading = True
            self.loop.add_reader(self._descriptor, self._readable)

    # Writing

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing:
            return
        if self._parts is not None:
            self._parts.append(bytes(data))
        else:
            self._send([bytes(data)])

    def interim(self, data: bytes) -> None:
        """Writes an informational response, which is no part of the answer."""
        before = self._answer
        self._send([data])
        if not self.closed:
            self.words[self._sent] += self._answer - before
            self._answer = before

    def cork(self) -> None:
        """Keeps what is written until ``uncork``, so that an answer is one write."""
        self._parts = []
        if len(self._backlog) and self.get_write_buffer_size() > UNREAD_BYTES:
            # A client that sends requests and reads no answers.
            self._lost(None)
        if not self.closed:
            self.words[self.state] = board.ANSWERING

    def uncork(self, whole: bool = False) -> None:
        """Writes; whole: it is a complete answer."""
        parts, self._parts = self._parts, None
        if parts:
            if not self.closed:
                self.words[self._expected] = self.words[self._sent] + sum(map(len, parts)) if whole else 0
            self._send(parts)

    def begun(self) -> bool:
        """Whether bytes of the answer are gone."""
        return self._answer > 0 or bool(self._backlog) or self.closed

    def discard(self) -> None:
        """Forgets what was written since ``cork``."""
        self._parts = None

    def finish(self) -> None:
        """The answer is complete; noted on the board once all of it is with the kernel."""
        if self.closed:
            # The slot may be another connection's by now.
            return
        if self._backlog:
            self._answered = True
            return
        self._answered = False
        # In this order: an idle connection's count of sent bytes is not looked at.
        self.words[self.state] = board.IDLE
        self.words[self._sent] += self._answer
        self._answer = 0
        if self._ended and not self.protocol.answering():
            self._lost(None)

    def _send(self, parts: list[bytes]) -> None:
        if self.closed:
            return
        if self._backlog:
            self._backlog.extend(memoryview(part) for part in parts)
            return
        size = sum(map(len, parts))
        try:
            if size <= _JOIN_BYTES:
                written = os.write(self._descriptor, parts[0] if len(parts) == 1 else b"".join(parts))
            else:
                written = os.writev(self._descriptor, parts[:1000])
        except (BlockingIOError, InterruptedError):
            written = 0
        except OSError as error:
            self._lost(error)
            return
        self._answer += written
        if written < size:
            self._backlog = _after(parts, written)
            self.loop.add_writer(self._descriptor, self._writable)
            if size - written > HIGH_WATER and self.protocol.waits:
                self.protocol.pause_writing()

    def _writable(self) -> None:
        try:
            written = os.writev(self._descriptor, self._backlog[:1000])
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lost(error)
            return
        self._answer += written
        self._backlog = _after(self._backlog, written)
        if self._backlog:
            return
        self.loop.remove_writer(self._descriptor)
        if self._answered:
            self.finish()
        self.protocol.resume_writing()
        if self._closing:
            self._shut()

    def flush(self, deadline: float) -> bool:
        """Waits, while the loop waits too, until all is written; False: the peer is gone or takes too long."""
        while self._backlog and not self.closed:
            left = deadline - self.loop.time()
            poll = select.poll()
            poll.register(self._descriptor, select.POLLOUT)
            if left <= 0 or not poll.poll(left * 1000):
                return False
            self._writable()
        return not self.closed

    def get_write_buffer_size(self) -> int:
        return sum(map(len, self._backlog))

    # Closing

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        """Closes when all is written."""
        if self._closing:
            return
        self.uncork()
        self._closing = True
        if not self._backlog and not self.closed:
            self._shut()

    def abort(self) -> None:
        """Closes at once, so that the peer sees an answer that is not complete."""
        self._parts = None
        self._lost(None)

    def _shut(self) -> None:
        """Ends our side. Where the peer still sends, waits for its end: else it would lose the answer to a reset."""
        taken = self.words[self.state] == board.TAKEN
        if taken or self._ended or not (self.protocol.receiving() or self.waiting()):
            self._lost(None)
            return
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError as error:
            self._lost(error)
            return
        self.read_bytes = BODY_BYTES
        self.resume_reading()
        self._lingering = self.loop.call_later(LINGER_SECONDS, self._lost, None)

    def _lost(self, error: Exception | None) -> None:
        if self.closed:
            return
        self._closing = True
        self._forget()
        if self.words[self.state] != board.TAKEN:
            # The supervisor holds a duplicate, so that closing alone would not end the connection.
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._on_closed(self)
        self.loop.call_soon(self.protocol.connection_lost, error)

    def _forget(self) -> None:
        self.pause_reading()
        if self._backlog:
            self.loop.remove_writer(self._descriptor)
            self._backlog = []
        if self._lingering is not None:
            self._lingering.cancel()
        self.closed = True

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "socket":
            return self._socket
        if name in ("sockname", "peername"):
            try:
                return self._socket.getsockname() if name == "sockname" else self._socket.getpeername()
            except OSError:
                return default
        return default

    def get_protocol(self) -> Any:
        return self.protocol

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol


def _after(parts: list[Any], written: int) -> list[memoryview]:
    """What is left of buffers when so many bytes are gone."""
    left = []
    for part in parts:
        size = len(part)
        if written >= size:
            written -= size
            continue
        left.append(memoryview(part)[written:])
        written = 0
    return left
