"""HTTP/1.1 connections to a unit's socket: one exchange at a time each, kept between exchanges."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import cast

import httptools

# Above this many unread bytes of an answer its reading waits for the client.
_HIGH_WATER = 256 * 1024
# The unit closes what is idle for longer than its own limit; what is near it is not used any more.
_IDLE_SECONDS = 3.0

Headers = Sequence[tuple[bytes, bytes]]


class LinkLost(Exception):
    """The unit closed the connection before its answer was complete."""


class Link(asyncio.Protocol):
    """One connection. ``request`` and ``write`` send, ``head`` and ``body`` give the answer as it comes."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport
        self._parser = httptools.HttpResponseParser(self)
        self._news = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._reading = True
        self._begin()
        self.lost = False
        self.idle_since = 0.0

    def _begin(self) -> None:
        self._headers: list[tuple[bytes, bytes]] = []
        self._status = 0
        self._body = bytearray()
        self._complete = False
        self._kept = False
        self._sent = False

    # What the proxy does.

    def request(self, head: bytes, body: bytes, last: bool) -> None:
        """Begins an exchange. last: whether this is the whole request."""
        self._begin()
        self._sent = last
        self._transport.write(head + body if body else head)

    async def write(self, data: bytes, last: bool) -> None:
        """Sends more of the request, and waits while the unit does not read."""
        if not self.lost:
            self._transport.write(data)
            self._sent = last
            await self._writable.wait()

    async def head(self) -> tuple[int, Headers]:
        """Status and headers of the answer. Raises LinkLost."""
        while not self._status:
            await self._wait()
        return self._status, self._headers

    async def body(self) -> tuple[bytes, bool]:
        """The next bytes of the answer's body, and whether more will come. Raises LinkLost."""
        while not self._body and not self._complete:
            await self._wait()
        data = bytes(self._body)
        self._body.clear()
        if not self._reading and not self.lost:
            self._reading = True
            self._transport.resume_reading()
        return data, not self._complete

    @property
    def answered(self) -> bool:
        """Whether the answer has begun."""
        return bool(self._status)

    @property
    def reusable(self) -> bool:
        """Whether the exchange is over on both sides, and the unit keeps the connection."""
        return not self.lost and self._sent and self._kept

    def close(self) -> None:
        """Drops the connection; the unit sees that nobody waits any more."""
        if not self.lost:
            self._transport.abort()

    async def _wait(self) -> None:
        if self.lost:
            raise LinkLost
        self._news.clear()
        await self._news.wait()

    # What the connection says.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the methods of one, and are of no common class.
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        self._writable.set()
        self._news.set()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.abort()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # What the parser says.

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()
        self._news.set()

    def on_body(self, data: bytes) -> None:
        self._body += data
        if len(self._body) > _HIGH_WATER and self._reading:
            self._reading = False
            self._transport.pause_reading()
        self._news.set()

    def on_message_complete(self) -> None:
        self._complete = True
        self._kept = bool(self._parser.should_keep_alive())
        self._news.set()


class Pool:
    """The connections to one socket. The last used comes first, so that no more stay than are needed."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._idle: list[Link] = []

    async def take(self) -> Link:
        """A connection for one exchange. Raises OSError when the unit does not listen."""
        while self._idle:
            link = self._idle.pop()
            if not link.lost and time.monotonic() - link.idle_since < _IDLE_SECONDS:
                return link
            link.close()
        return await self.new()

    async def new(self) -> Link:
        """A connection on which nothing was sent yet. Raises OSError."""
        _, link = await asyncio.get_running_loop().create_unix_connection(Link, self._path)
        return link

    def give_back(self, link: Link) -> None:
        """Keeps a connection whose exchange is over, and closes any other."""
        if link.reusable:
            link.idle_since = time.monotonic()
            self._idle = [other for other in self._idle if not other.lost]
            self._idle.append(link)
        else:
            link.close()

    def close(self) -> None:
        for link in self._idle:
            link.close()
        self._idle.clear()
