"""Processes of the server: started in groups of their own, reaped whoever they are, gone when it is gone."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def start(program: str, arguments: Sequence[str], environ: Mapping[str, str], descriptors: Sequence[int] = ()) -> int:
    """Starts a program in a process group of its own, with ``descriptors`` as 3, 4, …; its process id.

    Raises OSError.
    """
    # Copies out of the way, so that no source is overwritten before it is used.
    copies = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3 + len(descriptors)) for descriptor in descriptors]
    try:
        return os.posix_spawn(
            program,
            [program, *arguments],
            dict(environ),
            file_actions=[(os.POSIX_SPAWN_DUP2, copy, 3 + index) for index, copy in enumerate(copies)],
            setpgroup=0,
            setsigmask=(),
            setsigdef=(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD),
        )
    finally:
        for copy in copies:
            os.close(copy)


def changed() -> Iterator[tuple[int, int]]:
    """Process id and wait status of each child that has ended or stopped, orphans of others too."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, status


def signal_process(pid: int, signum: int) -> None:
    if pid <= 0:
        return
    with suppress(ProcessLookupError):
        os.kill(pid, signum)


def kill_group(pid: int, signum: signal.Signals = signal.SIGKILL) -> None:
    """Signals a child and what it has started."""
    if pid <= 0:
        return  # 0 is our own group: a forked worker that has not told its number yet.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signum)


def how(code: int) -> str:
    """A return code in words."""
    if code >= 0:
        return f"exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
    return f"signal {-code}, {name}"


def adopt_orphans() -> None:
    """Makes this process the parent of its descendants' orphans, as process 1 is anyway."""
    if os.getpid() != 1:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int) -> None:
    """Has the kernel kill this process when ``parent`` ends; ends at once when it has."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def kill_descendants() -> None:
    """Kills what is left below this process; for the end of the server."""
    while True:
        for pid in _children():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _children() -> list[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def _prctl(option: int, value: int) -> None:
    import ctypes

    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
