"""The ranks that torchrun starts on this host: a pipe for the lines of each, and their end.

torchrun's children would share its pipes, where a line that one writes in two pieces is torn by another's. So a
few lines of Python come between: they open the rank's own pipes, note its process id, and become the script. (A shell
would do as well, but Debian's drops variables whose names it cannot use, such as ``SM_HP_BATCH-SIZE``.)
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import threading
from contextlib import suppress
from types import TracebackType
from typing import List, Optional, Sequence, Tuple, Type

_RANK = """
import os, sys
folder, errors, *script = sys.argv[1:]
rank = os.path.join(folder, os.environ["LOCAL_RANK"])
with open(rank + ".pid", "w") as file:
    file.write(str(os.getpid()))
os.dup2(os.open(rank + ".out", os.O_WRONLY), 1)
os.dup2(os.open(rank + ".err", os.O_WRONLY) if errors == "err" else 1, 2)
os.execvp(script[0], script)
"""
_AGENT = """
import os, sys
folder, *torchrun = sys.argv[1:]
with open(os.path.join(folder, "agent.pid"), "w") as file:
    file.write(str(os.getpid()))
os.execvp(torchrun[0], torchrun)
"""

# For ranks of a run that is lost. The others, which the platform stops, get the platform's grace.
_END_SECONDS = 10.0


class Ranks:
    """Pipes and process ids of a number of ranks, in a private folder that is gone at the end."""

    def __init__(self, count: int) -> None:
        self._over = threading.Event()
        self._folder = tempfile.mkdtemp(prefix="slipway-ranks-")
        # One pipe for both streams where both end in the same place: then their order is exact.
        self._names = ("out",) if _same(1, 2) else ("out", "err")
        self._pipes = [(f"{rank}.{name}", name) for name in self._names for rank in range(count)]
        for pipe, _ in self._pipes:
            os.mkfifo(os.path.join(self._folder, pipe), 0o600)

    def __enter__(self) -> Ranks:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self._over.set()
        # Their sessions are their own, so they outlive a torchrun that was killed.
        self._signal(signal.SIGKILL)
        shutil.rmtree(self._folder, ignore_errors=True)

    def rank_command(self, script: Sequence[str]) -> List[str]:
        """What torchrun starts for each rank, as it is to start it (no Python of its own)."""
        return [*_python(_RANK), self._folder, self._names[-1], *script]

    def agent_command(self, torchrun: Sequence[str]) -> List[str]:
        return [*_python(_AGENT), self._folder, *torchrun]

    def sources(self) -> List[Tuple[int, str]]:
        """The pipes to relay. Read only: then the end of the last writer is the end of the pipe."""
        streams = {"out": "stdout", "err": "stderr"}
        return [
            (os.open(os.path.join(self._folder, pipe), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), streams[name])
            for pipe, name in self._pipes
        ]

    def end(self) -> None:
        """Ends torchrun and the ranks, from any thread: politely, after a while by force."""
        while not self._signal(signal.SIGTERM, only="agent.pid"):
            if self._over.wait(0.1):
                return
        if self._over.wait(_END_SECONDS):
            return
        # torchrun sees its ranks end and ends by itself; if not even that, it is ended like them.
        self._signal(signal.SIGKILL, leave="agent.pid")
        if not self._over.wait(_END_SECONDS):
            self._signal(signal.SIGKILL)

    def _signal(self, signum: int, only: str = "", leave: str = "") -> bool:
        """Signals process groups. Whether there was one to signal."""
        found = False
        with suppress(FileNotFoundError):
            for name in os.listdir(self._folder):
                if name.endswith(".pid") and name != leave and only in ("", name):
                    with suppress(ValueError, OSError), open(os.path.join(self._folder, name)) as file:
                        os.killpg(int(file.read()), signum)
                        found = True
        return found


def _python(program: str) -> List[str]:
    """This interpreter without site-packages: it starts in about 10 ms, and the environment goes through it whole."""
    return [sys.executable, "-I", "-S", "-c", program]


def _same(first: int, second: int) -> bool:
    try:
        one, other = os.fstat(first), os.fstat(second)
    except OSError:
        return False
    return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
