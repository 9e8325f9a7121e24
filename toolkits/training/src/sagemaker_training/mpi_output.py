"""Takes the lines of all ranks on the first host, and gives each its rank and host.

Rules: docs/contract/mpi.md, rows mpi-lines-*.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple, Type

from sagemaker_training import mpi_trust
from sagemaker_training.relay import Relay, Sink, Stream, open_pipe

_TAG = re.compile(rb"\[(?:[^\]\s]*@)?(\d+),(\d+)\]<std(out|err)>:")
_GREETING = re.compile(rb"(\d{1,9}) (stdout|stderr|ended:(-?\d{1,3}):(\d{1,12}\.\d{6})) ([\w.-]{0,253})\n")

_SOCKET_CLOSED = re.compile(r"An error occurred in Socket closed.{0,400}?reported by process \[\d+,(\d+)\]", re.DOTALL)

# A greeting comes at once; whoever does not send one is no rank.
_GREETING_SECONDS = 10.0
_GREETING_LENGTH = 512
_ROUND_SECONDS = 0.5


def host_tags(hosts: Sequence[str], processes_per_host: int) -> Callable[[bytes], bytes]:
    """A transform of mpirun's own tags: ``[1,3]<stdout>:`` becomes ``[1,mpirank:3,algo-2]<stdout>:``."""

    def name(match: re.Match[bytes]) -> bytes:
        index = int(match[2]) // processes_per_host
        host = hosts[index] if index < len(hosts) else hosts[-1]
        return _tag(match[1], match[2], host.encode(), b"std" + match[3])

    return lambda lines: _TAG.sub(name, lines)


def _tag(job: bytes, rank: bytes, host: bytes, stream: bytes) -> bytes:
    return b"[%s,mpirank:%s,%s]<%s>:" % (job, rank, host, stream)


class _Prefix:
    """Puts a tag before each line. A transform for one stream, which may get a long line in pieces."""

    def __init__(self, tag: bytes) -> None:
        self._tag = tag
        self._midline = False

    def __call__(self, data: bytes) -> bytes:
        body, end = (data[:-1], b"\n") if data.endswith(b"\n") else (data, b"")
        start = b"" if self._midline else self._tag
        self._midline = not end
        return start + body.replace(b"\n", b"\n" + self._tag) + end


class Failed(NamedTuple):
    """A rank that failed of its own accord. moment: seconds since 1970. code: negative for a signal."""

    moment: float
    rank: int
    host: str
    code: int

    def __str__(self) -> str:
        how = f"ended with exit code {self.code}" if self.code > 0 else f"was ended by signal {-self.code}"
        return f"Rank {self.rank} on host {self.host} {how}."


class _Connections(Relay):
    """A relay whose sources may break off: the host of a rank was cut off or killed."""

    def _move(self, stream: Stream, rounds: int = 8) -> None:
        try:
            super()._move(stream, rounds)
        except OSError:
            self._close(stream)


class RankOutput:
    """Listens for the ranks and merges their lines into one pipe for each stream.

    hosts: who may connect. on_round: called about twice a second, in the thread that runs inside of this context,
    with the seconds since a rank failed (0 while none did).
    """

    def __init__(self, hosts: Sequence[str], on_round: Callable[[float], None]) -> None:
        self._hosts, self._on_round = list(hosts), on_round
        self._trusted: Set[str] = set()
        self._listener = _listen()
        self._listener.setblocking(False)
        self._pipes = {name: open_pipe() for name in ("stdout", "stderr")}
        self._sinks = {name: Sink(writer) for name, (_, writer) in self._pipes.items()}
        self._streams: Dict[str, List[Stream]] = {"stdout": [], "stderr": []}
        self._failed: List[Failed] = []
        self._failed_at = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ranks", daemon=True)

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def sources(self) -> List[Tuple[int, str]]:
        """The merged lines, for ``process.run``, which closes them."""
        return [(reader, name) for name, (reader, _) in self._pipes.items()]

    def tail(self, stream: str) -> str:
        """The last lines of the ranks, one rank after the other."""
        return "".join(made.tail.text() for made in self._streams[stream])

    def failed(self, own: str) -> Optional[Failed]:
        """The rank that failed first, where one did; own: what mpirun itself wrote.

        Ranks that lost their connection to it fail almost at once. Open MPI 5 says of them that a socket was closed.
        """
        followed = {int(rank) for rank in _SOCKET_CLOSED.findall(own)}
        return min(self._failed, key=lambda rank: (rank.rank in followed, rank.moment), default=None)

    def __enter__(self) -> RankOutput:
        self._thread.start()
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self._over.set()
        self._thread.join(2 * _ROUND_SECONDS)
        self._listener.close()
        for _, writer in self._pipes.values():
            with suppress(OSError):
                os.close(writer)

    def _run(self) -> None:
        relay = _Connections()
        relay.watch(self._listener.fileno())
        while not self._over.is_set():
            relay.pump(_ROUND_SECONDS)
            self._accept(relay)
            self._on_round(time.monotonic() - self._failed_at if self._failed else 0.0)

    def _accept(self, relay: Relay) -> None:
        while True:
            try:
                connection, address = self._listener.accept()
            except OSError:
                return
            greeting = self._greeting(connection) if self._is_trusted(str(address[0])) else None
            if greeting is None:
                connection.close()
                continue
            if greeting[3] is not None:
                self._hear_end(Failed(float(greeting[4]), int(greeting[1]), greeting[5].decode(), int(greeting[3])))
                connection.close()
                continue
            rank, name, host = greeting[1], greeting[2].decode(), greeting[5]
            transform = _Prefix(_tag(b"1", rank, host, greeting[2]))
            self._streams[name].append(relay.add(connection.detach(), self._sinks[name], transform))

    def _hear_end(self, rank: Failed) -> None:
        # Ranks that mpirun ends because of another one get SIGTERM from it.
        if rank.code != -signal.SIGTERM:
            self._failed_at = self._failed_at or time.monotonic()
            self._failed.append(rank)

    def _is_trusted(self, address: str) -> bool:
        address = address.removeprefix("::ffff:")  # An IPv4 address on a socket for both families.
        if address not in self._trusted:
            self._trusted = mpi_trust.resolve(self._hosts)
        return address in self._trusted

    def _greeting(self, connection: socket.socket) -> Optional[re.Match[bytes]]:
        """The first line, byte by byte: what follows is the rank's."""
        connection.settimeout(_GREETING_SECONDS)
        line = b""
        with suppress(OSError):
            while len(line) < _GREETING_LENGTH and not line.endswith(b"\n"):
                byte = connection.recv(1)
                if not byte:
                    break
                line += byte
        return _GREETING.fullmatch(line)


def _listen() -> socket.socket:
    with suppress(OSError):
        return socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True, backlog=4096)
    return socket.create_server(("", 0), backlog=4096)
