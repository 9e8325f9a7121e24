"""Watches the other hosts of a distributed run, so that none waits for one that is gone.

A collective operation notices a lost host late or never: a closed connection only when it is next used, a host that
froze or was cut off not at all. So the first host listens, the others connect to it, and both sides send a sign of
life every few seconds. A host says goodbye with its exit code and its cause; one that goes without, or falls
silent, is lost. The first host passes on to the others what it hears.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import threading
import time
from contextlib import suppress
from typing import Any, Callable, Dict, List, Optional, Sequence, Set

from sagemaker_training import process
from sagemaker_training.logs import logger

BEAT_SECONDS = 5.0
SILENCE_SECONDS = 30.0

# A stop reaches all hosts, but not at the same moment.
_STOP_SPREAD_SECONDS = 10.0
_RETRY_SECONDS = 0.1

# A host that fails early waits this long for those that start late, to tell them why.
_LINGER_SECONDS = 5.0
_LONGEST_MESSAGE = 8192


class _Peer:
    """A connection to another host. host: empty until it has said who it is.

    So a connection that the leader's kernel took, but the leader itself never saw, counts for nothing.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(BEAT_SECONDS)
        self.connection = connection
        self.host = ""
        self.heard = time.monotonic()
        self.left = False
        self._rest = b""

    def receive(self) -> Optional[List[bytes]]:
        """Whole messages that have come; None at the end of the connection."""
        try:
            data = self.connection.recv(_LONGEST_MESSAGE)
        except OSError:
            data = b""
        if not data or len(self._rest) > _LONGEST_MESSAGE:
            return None
        self.heard = time.monotonic()
        *messages, self._rest = (self._rest + data).split(b"\n")
        return [message for message in messages if message]

    def send(self, message: bytes = b"") -> None:
        # A failure shows when the connection is next read.
        with suppress(OSError):
            self.connection.sendall(message + b"\n")


class Watch:
    """The watch of one host over the others.

    hosts: all hosts of the run, the first one leads. current: this host. port: where the leader listens.
    patience: seconds after its own start in which the hosts that it knows of must report; None: for ever.
    """

    def __init__(self, hosts: Sequence[str], current: str, port: int, patience: Optional[float] = None) -> None:
        self._hosts, self._current, self._port = list(hosts), current, port
        self._patience = patience
        self._leads = current == hosts[0]
        self._started = False
        self._leader: List[Any] = []
        self._selector = selectors.DefaultSelector()
        self._peers: Dict[socket.socket, _Peer] = {}
        self._joined: Set[str] = set()
        self._stopping: Dict[str, float] = {}
        self._lost: Optional[str] = None
        self._goodbye: Optional[bytes] = None
        self._callback: Optional[Callable[[], None]] = None
        self._lock = threading.RLock()
        self._news = threading.Event()
        self._over = threading.Event()
        self._next_beat = self._next_try = 0.0

    @property
    def lost(self) -> Optional[str]:
        """What happened to the first host that was lost or failed: a sentence that names it."""
        return self._lost

    def wait(self, seconds: float) -> Optional[str]:
        """The same, after waiting for it for a time."""
        self._news.wait(seconds)
        return self._lost

    def absent(self) -> List[str]:
        """Hosts that never reported. Others than the leader know of the leader only."""
        expected = self._hosts[1:] if self._leads else self._hosts[:1]
        return [host for host in expected if host not in self._joined]

    def start(self) -> None:
        """Starts watching in a thread of its own; harmless when repeated.

        While the leader has no address yet nothing is started: call it again when it has one. Where the port is taken
        the run goes on unwatched, with a warning.
        """
        if self._started:
            return
        # Names are looked up here and never in the thread: the resolver reads the environment of the process, which
        # this thread still writes to, and the C library lets the two meet in a crash.
        if self._leads:
            self._started = True
            try:
                self._selector.register(_listen(self._port), selectors.EVENT_READ)
            except OSError as error:
                logger.warning("port %d cannot be used (%s): a lost host is noticed late", self._port, error)
                return
        else:
            try:
                self._leader = socket.getaddrinfo(self._hosts[0], self._port, type=socket.SOCK_STREAM)
            except OSError:
                return
        self._started = True
        threading.Thread(target=self._run, name="peers", daemon=True).start()

    def on_loss(self, callback: Callable[[], None]) -> None:
        """Calls back, in another thread than this one, when a host is lost; at once where one is already."""
        with self._lock:
            self._callback = callback
            lost = self._lost
        if lost is not None:
            threading.Thread(target=callback, name="peers-loss", daemon=True).start()

    def leave(self, code: int, cause: str = "") -> None:
        """Says goodbye: the others hear the exit code and its cause, and end too unless it is 0."""
        stopped = process.stop_requested() is not None
        with self._lock:
            self._goodbye = json.dumps({"end": code, "cause": cause, "stopped": stopped}).encode()
            for peer in self._peers.values():
                self._part(peer)
        deadline = time.monotonic() + (_LINGER_SECONDS if code and not stopped else 0)
        while self.absent() and time.monotonic() < deadline:
            time.sleep(0.05)
        self._over.set()

    def _part(self, peer: _Peer) -> None:
        """Sends the goodbye, if it is time for that."""
        if self._goodbye is not None:
            peer.send(self._goodbye)
            with suppress(OSError):
                peer.connection.shutdown(socket.SHUT_WR)

    def _run(self) -> None:
        late = None if self._patience is None else time.monotonic() + self._patience
        while not self._over.is_set():
            if not self._leads and not self._peers and not self._joined:
                self._connect()
            for key, _ in self._selector.select(0.5) if self._selector.get_map() else ():
                self._ready(key.fileobj)
            self._beat()
            self._look_for_silence()
            if late is not None and time.monotonic() >= late:
                self._look_for_absence()
                late = None

    def _connect(self) -> None:
        connection = _connect(self._leader)
        if connection is None:
            self._over.wait(_RETRY_SECONDS)
            return
        peer = self._add(connection)
        with self._lock:
            peer.send(json.dumps({"host": self._current}).encode())
            self._part(peer)

    def _add(self, connection: socket.socket) -> _Peer:
        peer = _Peer(connection)
        with self._lock:
            self._peers[connection] = peer
        self._selector.register(connection, selectors.EVENT_READ)
        return peer

    def _ready(self, source: Any) -> None:
        peer = self._peers.get(source)
        if peer is None:
            with suppress(OSError):
                self._add(source.accept()[0])
            return
        messages = peer.receive()
        for message in messages or ():
            with suppress(ValueError, TypeError, AttributeError):
                self._hear(peer, json.loads(message))
        if messages is None:
            self._drop(peer)
            if peer.host and not peer.left:
                self._lose(f"Host {peer.host} was lost: it went without a word, so it was killed or it crashed.")

    def _hear(self, peer: _Peer, message: Any) -> None:
        if "host" in message and not peer.host:
            if message["host"] not in self._hosts:
                self._drop(peer)
                return
            peer.host = message["host"]
            with self._lock:
                if self._leads:
                    peer.send(json.dumps({"host": self._current}).encode())
                    if self._lost is not None:
                        peer.send(_lost(self._lost))
                    self._part(peer)
            self._joined.add(peer.host)
            if self._leads and not self.absent():
                logger.info("all %d hosts of the run have reported", len(self._hosts))
        elif "lost" in message:
            self._lose(str(message["lost"]))
        elif "end" in message and peer.host:
            self._hear_goodbye(peer, message)

    def _hear_goodbye(self, peer: _Peer, message: Any) -> None:
        peer.left = True
        if message.get("stopped"):
            self._stopping[peer.host] = time.monotonic() + _STOP_SPREAD_SECONDS
        elif message["end"]:
            cause = f": {message['cause']}" if message.get("cause") else "."
            self._lose(f"Host {peer.host} failed first, with exit code {message['end']}{cause}")

    def _beat(self) -> None:
        now = time.monotonic()
        if now < self._next_beat:
            return
        self._next_beat = now + BEAT_SECONDS
        with self._lock:
            for peer in self._peers.values():
                peer.send()

    def _look_for_silence(self) -> None:
        now = time.monotonic()
        for peer in list(self._peers.values()):
            if now - peer.heard < SILENCE_SECONDS:
                continue
            self._drop(peer)
            if peer.host and not peer.left:
                self._lose(f"Host {peer.host} was lost: it gave no sign of life for {SILENCE_SECONDS:g} s.")
        for host, deadline in list(self._stopping.items()):
            if now >= deadline:
                del self._stopping[host]
                self._lose(f"Host {host} was stopped by the platform.")

    def _look_for_absence(self) -> None:
        absent = self.absent()
        if absent:
            self._lose(
                f"Host {', '.join(absent)} never reported in {self._patience:g} s: it did not start, died at once, or "
                "cannot be reached."
            )

    def _drop(self, peer: _Peer) -> None:
        with self._lock:
            if self._peers.pop(peer.connection, None) is None:
                return
        self._selector.unregister(peer.connection)
        peer.connection.close()

    def _lose(self, what: str) -> None:
        """The first loss counts. While this host itself is being stopped, nothing is made of it."""
        with self._lock:
            if self._lost is not None or self._goodbye is not None or process.stop_requested() is not None:
                return
            self._lost = what
            self._news.set()
            for peer in self._peers.values():
                peer.send(_lost(what))
            callback = self._callback
        logger.error("%s This host ends too.", what)
        if callback is not None:
            callback()


def _lost(what: str) -> bytes:
    return json.dumps({"lost": what}).encode()


def _connect(addresses: Sequence[Any]) -> Optional[socket.socket]:
    """A connection to the first address that takes one."""
    for family, kind, protocol, _, address in addresses:
        connection = socket.socket(family, kind, protocol)
        connection.settimeout(BEAT_SECONDS)
        try:
            connection.connect(address)
        except OSError:
            connection.close()
        else:
            return connection
    return None


def _listen(port: int) -> socket.socket:
    """A listening socket for both families; where there is no IPv6, for the other one."""
    with contextlib.suppress(OSError):
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=512)
    return socket.create_server(("", port), backlog=512)
