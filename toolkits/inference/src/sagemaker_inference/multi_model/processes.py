"""Processes of others, by more than their numbers, which the system uses again."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import dataclass


@dataclass(frozen=True)
class Process:
    """A process. started: by the kernel's clock; None for one that was gone already."""

    pid: int
    started: int | None

    @classmethod
    def of(cls, pid: int) -> Process:
        return cls(pid, _started(pid))

    def alive(self) -> bool:
        """Whether it still holds memory; a process that only waits to be asked for its exit code does not."""
        return self.started is not None and _started(self.pid) == self.started

    def kill(self) -> None:
        with suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)


def _started(pid: int) -> int | None:
    """When a process was started; None when it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


class Orphans:
    """Children that nobody waits for: what a model's processes left when they died came to this one."""

    def __init__(self) -> None:
        self._seen = 0

    def collect(self) -> None:
        """Takes the exit code of one; call it now and then."""
        found = None
        with suppress(ChildProcessError):
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        pid = found.si_pid if found else 0
        # The event loop collects its own at once, so one that was there the last time too is nobody's.
        if pid and pid == self._seen:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        self._seen = pid
