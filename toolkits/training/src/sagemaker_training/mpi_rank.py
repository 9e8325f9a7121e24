"""What mpirun starts for each rank: the script, in its own host's environment, with its lines sent to the first host.

mpirun itself passes on output in blocks: lines that ranks write at the same time are torn, and of many short lines
its tags make more than it has room for, so that it drops some. Here whole lines go to the first host over
connections of their own, and a rank ends only when they have arrived.

As a program: ``python -m sagemaker_training.mpi_rank FOLDER HOST:PORT NAMES COMMAND...``. FOLDER holds the host's
environment; NAMES, joined by commas, are the variables that come from mpirun rather than from there.

Rules: docs/contract/mpi.md, rows mpi-rank-*.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from sagemaker_training import cgroup
from sagemaker_training.mpi_ranks import RANK_SUFFIX
from sagemaker_training.mpi_shield import SIGNALS
from sagemaker_training.relay import Relay, Sink, open_pipe

ENVIRONMENT_FILE = "environment.json"

# Set by Open MPI for each rank: 4, 5, and the interface that both use.
_OWN_PREFIXES = ("OMPI_", "PMIX_", "PRTE_", "OPAL_", "ORTE_", "HWLOC_", "PMI_")

_STREAMS = ("stdout", "stderr")
_CONNECT_SECONDS = 30.0
_DELIVER_SECONDS = 60.0
_LAST_LINES_SECONDS = 0.1
_POLL_SECONDS = 0.05


class Rank:
    """One rank of the run, on its host."""

    def __init__(self, folder: str, server: str, names: Sequence[str], command: Sequence[str]) -> None:
        self._folder, self._command = folder, list(command)
        host, _, port = server.rpartition(":")
        self._server = (host, int(port))
        self._environment = environment(folder, names, os.environ)
        self._oom_before = cgroup.oom_kills()

    def run(self) -> int:
        """Runs the script to its end. Returns its code as ``subprocess`` gives it."""
        note = self._join_group()
        for number in SIGNALS:
            # The whole group gets them, so the script has them already.
            signal.signal(number, _ignore)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        connections = self._connect()
        try:
            return self._relay(connections)
        finally:
            _deliver(connections)
            with suppress(OSError):
                os.unlink(note)

    def _join_group(self) -> str:
        """Notes the group of this rank, by which the toolkit can stop and end it. Returns the path of the note."""
        if os.getpgrp() != os.getpid():
            os.setpgid(0, 0)
        note = os.path.join(self._folder, f"{os.getpid()}{RANK_SUFFIX}")
        os.close(os.open(note, os.O_WRONLY | os.O_CREAT, 0o600))
        return note

    def _connect(self) -> List[socket.socket]:
        """A connection for each stream; none where the first host cannot be reached, then mpirun has the lines."""
        try:
            return [self._call(stream) for stream in _STREAMS]
        except OSError as error:
            sys.stderr.write(f"{self._server[0]} cannot be reached ({error}): mpirun passes on the lines\n")
            return []

    def _call(self, what: str) -> socket.socket:
        """Calls the first host, and says who calls and for what."""
        connection = socket.create_connection(self._server, timeout=_CONNECT_SECONDS)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        rank = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("PMIX_RANK") or "0"
        connection.sendall(f"{rank} {what} {self._environment.get('SM_CURRENT_HOST', '')}\n".encode())
        connection.settimeout(None)
        return connection

    def _report(self, code: int, moment: float) -> None:
        """Tells the first host how and when this rank failed: others fail soon after, for want of it."""
        with suppress(OSError):
            _deliver([self._call(f"ended:{code}:{moment:.6f}")])

    def _relay(self, connections: Sequence[socket.socket]) -> int:
        sinks = [Sink(connection.fileno()) for connection in connections] or [Sink(1), Sink(2)]
        relay = Relay()
        process, readers = self._start()
        for reader, sink in zip(readers, sinks):
            relay.add(reader, sink)
        patience = _watch_end(relay, process.pid)
        while process.poll() is None:
            relay.pump(patience)
        if process.returncode and connections:
            self._report(process.returncode, time.time())
        relay.drain(_LAST_LINES_SECONDS)
        for sink in sinks:
            if sink.midline:
                # The last words of a rank must not run into another's.
                sink.write(memoryview(b"\n"))
        kills = cgroup.oom_kills() - self._oom_before
        if process.returncode and kills:
            what = f"Out of memory: the kernel killed {kills} process(es) at this container's limit.\n"
            sinks[1].write(memoryview(what.encode()))
        return process.returncode

    def _start(self) -> Tuple[subprocess.Popen[bytes], List[int]]:
        readers, writers = zip(*(open_pipe() for _ in _STREAMS))
        try:
            process = subprocess.Popen(self._command, env=self._environment, stdout=writers[0], stderr=writers[1])
        finally:
            for writer in writers:
                os.close(writer)
        return process, list(readers)


def environment(folder: str, names: Sequence[str], given: Mapping[str, str]) -> Dict[str, str]:
    """The variables of a rank: its host's, and over them what comes from mpirun."""
    with open(os.path.join(folder, ENVIRONMENT_FILE), encoding="utf-8") as file:
        own: Dict[str, str] = json.load(file)
    from_mpirun = {name: value for name, value in given.items() if name in names or name.startswith(_OWN_PREFIXES)}
    return {**own, **from_mpirun}


def _ignore(signum: int, frame: object) -> None:
    """A handler, since what is ignored would stay so in the script."""


def _watch_end(relay: Relay, pid: int) -> Optional[float]:
    """Lets the end of a process end the relay's wait. Returns how long to wait at most where the kernel cannot."""
    try:
        relay.watch(os.pidfd_open(pid))
    except (AttributeError, OSError):
        return _POLL_SECONDS
    return None


def _deliver(connections: Sequence[socket.socket]) -> None:
    """Waits until the first host has read everything: it closes the connection then."""
    for connection in connections:
        with suppress(OSError):
            connection.shutdown(socket.SHUT_WR)
    for connection in connections:
        with suppress(OSError):
            connection.settimeout(_DELIVER_SECONDS)
            connection.recv(1)


def main() -> None:
    folder, server, names, *command = sys.argv[1:]
    try:
        code = Rank(folder, server, names.split(","), command).run()
    except OSError as error:
        sys.stderr.write(f"{command[0]} cannot be started: {error}\n")
        code = 126
    if code < 0:
        # mpirun, and everybody after it, is to see the signal.
        signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    main()
