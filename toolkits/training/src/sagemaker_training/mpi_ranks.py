"""The ranks of this host and, on the first one, mpirun: how they are stopped and ended.

Each notes its process id in the host's private folder: mpirun by ``mpi_shield``, a rank by ``mpi_rank``.
"""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from typing import List, Set

RANK_SUFFIX = ".rank"
MPIRUN_FILE = "mpirun.pid"

# How long ranks of a lost run may take to end.
_END_SECONDS = 10.0


class LocalRanks:
    """The process groups that are noted in a folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._stopped: Set[int] = set()

    def stop(self) -> None:
        """Passes a stop on to each rank once. To be called again for ranks that start meanwhile."""
        for group in self._groups():
            if group not in self._stopped:
                self._stopped.add(group)
                _signal(group, signal.SIGTERM)

    def kill(self) -> None:
        for group in self._groups():
            _signal(group, signal.SIGKILL)

    def end_run(self, over: threading.Event) -> None:
        """Ends a run that lost a host: its ranks politely, after a while everything by force, until it is over."""
        self.stop()
        over.wait(_END_SECONDS)
        while not over.is_set():
            with suppress(OSError, ValueError), open(os.path.join(self._folder, MPIRUN_FILE)) as file:
                _signal(int(file.read()), signal.SIGKILL)
            self.kill()
            over.wait(1)

    def _groups(self) -> List[int]:
        with suppress(FileNotFoundError):
            return [int(name[: -len(RANK_SUFFIX)]) for name in os.listdir(self._folder) if name.endswith(RANK_SUFFIX)]
        return []


def _signal(group: int, signum: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signum)
