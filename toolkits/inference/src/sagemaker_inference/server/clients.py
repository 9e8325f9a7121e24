"""The connections as the supervisor sees them: accepted, looked at, answered here or given to a worker."""

from __future__ import annotations

import errno
import logging
import select
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from sagemaker_inference.server import board, replies, sockets

FIRST_BYTES_SECONDS = 75.0
"""For a connection on which nothing has come: longer than clients keep idle ones."""
HEAD_SECONDS = 10.0
"""For the rest of a request that is ours."""
LINGER_SECONDS = 5.0
HEAD_BYTES = 16384
_ACCEPTED_AT_ONCE = 64
_LINGER_BYTES = 1 << 20
_NEW = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET

logger = logging.getLogger("sagemaker_inference.server")


@dataclass(eq=False)
class Client:
    """A connection. slot: its place on the board while a worker has it, else -1.

    received, sent: bytes consumed and written so far, as on the board.
    """

    connection: socket.socket
    descriptor: int
    slot: int = -1
    deadline: float = 0.0
    received: int = 0
    sent: int = 0
    lingering: bool = False
    registered: bool = False


class Clients:
    """All connections that no worker has."""

    def __init__(
        self,
        epoll: select.epoll,
        own: dict[bytes, Callable[[], bytes]],
        on_request: Callable[[Client], None],
    ) -> None:
        """own: path -> the whole response to a GET of it; on_request: takes a connection with any other request."""
        self._epoll = epoll
        self._own = {b"GET " + path: make for path, make in own.items()}
        self._longest = max(map(len, self._own)) + 1
        self._on_request = on_request
        self._waiting: dict[int, Client] = {}
        self._count = 0
        self.closing = False

    def __len__(self) -> int:
        return len(self._waiting)

    def accept(self, listener: socket.socket) -> bool:
        """Accepts what waits, a bounded number at once; False: descriptors have run out."""
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                connection, _ = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return True
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    continue  # The peer's fault, such as a network that is gone.
                return self._drop_oldest()
            connection.setblocking(False)
            if connection.family != socket.AF_UNIX:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.watch(Client(connection, connection.fileno()))
            if len(self._waiting) > board.SLOTS:
                self._drop_oldest()
        return True

    def watch(self, client: Client) -> None:
        """Waits for the next request on a connection, which may be there already."""
        client.deadline = time.monotonic() + FIRST_BYTES_SECONDS
        self._waiting[client.descriptor] = client
        # Most clients send at once; then the connection need not be registered.
        if self._look(client) and not client.lingering:
            # What came in between raises an event, since registering tells the present state.
            self._register(client, _NEW)

    def on_event(self, descriptor: int) -> None:
        client = self._waiting.get(descriptor)
        if client is None:
            return
        if client.lingering:
            self._linger(client)
        else:
            self._look(client)

    def _look(self, client: Client) -> bool:
        """Answers or hands over what has come; False: the connection is not ours any more."""
        while True:
            try:
                head = client.connection.recv(self._longest, socket.MSG_PEEK)
            except (BlockingIOError, InterruptedError):
                return self._stay(client)
            except OSError:
                return self._leave(client)
            if not head:
                return self._leave(client)
            mine = self._mine(head)
            if mine is None:
                # What is too short now stays so when its client has ended.
                return not sockets.ended(client.connection) or self._leave(client)
            if not mine:
                self._let_go(client)
                self._on_request(client)
                return False
            if not self._answer(client, mine):
                return client.descriptor in self._waiting

    def _stay(self, client: Client) -> bool:
        if self.closing:
            return self._leave(client)
        return True

    def _leave(self, client: Client) -> bool:
        self._let_go(client)
        client.connection.close()
        return False

    def _let_go(self, client: Client) -> None:
        # A descriptor that a worker has too would stay registered when it is closed here.
        self._waiting.pop(client.descriptor, None)
        if client.registered:
            client.registered = False
            self._epoll.unregister(client.descriptor)

    def _register(self, client: Client, events: int) -> None:
        client.registered = True
        self._epoll.register(client.descriptor, events)

    def is_own(self, client: Client) -> bool:
        """Whether the request that waits on a connection is one that we answer."""
        return self._mine(sockets.readable(client.connection, self._longest)) != b""

    def _mine(self, head: bytes) -> bytes | None:
        """Which of our own requests begins so; empty: none, None: more is needed."""
        short = False
        for start in self._own:
            if head[: len(start)] == start:
                if len(head) == len(start):
                    short = True
                elif head[len(start) : len(start) + 1] in b" ?":
                    return start
            elif start.startswith(head):
                short = True
        return None if short else b""

    def _answer(self, client: Client, start: bytes) -> bool:
        """Answers a request of ours; False: not yet, or the connection is done."""
        head = client.connection.recv(HEAD_BYTES, socket.MSG_PEEK)
        end = head.find(b"\r\n\r\n")
        if end < 0:
            if len(head) == HEAD_BYTES:
                self.refuse(client, replies.whole(431, f"The head is larger than {HEAD_BYTES} bytes.", close=True))
            elif sockets.ended(client.connection):
                self._leave(client)
            client.deadline = min(client.deadline, time.monotonic() + HEAD_SECONDS)
            return False
        client.received += len(client.connection.recv(end + 4))
        lines = head[:end].lower().split(b"\r\n")
        last = lines[0].endswith(b"http/1.0") or self.closing or any(map(_ends, lines[1:]))
        response = self._own[start]()
        if last:
            self.refuse(client, response.replace(b"\r\n", b"\r\nconnection: close\r\n", 1))
            return False
        try:
            sent = client.connection.send(response)
        except OSError:
            sent = 0
        client.sent += sent
        if sent < len(response):
            # A client that does not read answers of a hundred bytes is none.
            return self._leave(client)
        client.deadline = time.monotonic() + FIRST_BYTES_SECONDS
        return True

    def refuse(self, client: Client, response: bytes) -> None:
        """Answers for good: sends, ends our side, and waits a little for the peer to end his."""
        self._let_go(client)
        try:
            if response:
                client.connection.send(response)
            client.connection.shutdown(socket.SHUT_WR)
        except OSError:
            client.connection.close()
            return
        client.lingering = True
        client.deadline = time.monotonic() + LINGER_SECONDS
        self._waiting[client.descriptor] = client
        self._register(client, select.EPOLLIN | select.EPOLLRDHUP)
        self._linger(client)

    def _linger(self, client: Client) -> None:
        try:
            if client.connection.recv(_LINGER_BYTES):
                return
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            pass
        self._leave(client)

    def sweep(self, now: float) -> None:
        """Closes connections whose time is over."""
        for client in [client for client in self._waiting.values() if client.deadline < now]:
            self._leave(client)

    def close(self) -> None:
        """No further requests: closes connections on which nothing has come."""
        self.closing = True
        for client in list(self._waiting.values()):
            if client.lingering:
                continue
            if not sockets.readable(client.connection):
                self._leave(client)

    def _drop_oldest(self) -> bool:
        for client in list(self._waiting.values())[:_ACCEPTED_AT_ONCE]:
            self._leave(client)
        return False


def _ends(line: bytes) -> bool:
    """Whether a header line makes this the last request: by wish, or by a body that a GET of ours does not read."""
    name, _, value = line.partition(b":")
    value = value.strip()
    if name == b"connection":
        return b"close" in value
    return name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
