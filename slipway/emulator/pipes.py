"""A channel in Pipe mode: a named pipe for each epoch, `CHANNEL_0`, `CHANNEL_1` …, that gives the whole data once.

Source of the rules: the SageMaker developer guide, "How Amazon SageMaker Provides Training Information".
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

_ATTEMPTS = 100


@dataclass
class Pipe:
    """Feeds the pipes of one channel from `start` to `stop`.

    `opened`: whether the job opened the first one. `problem`: why it could not go on.
    """

    folder: Path
    name: str
    blocks: Callable[[], Iterator[bytes]]
    opened: bool = False
    problem: str = ""
    _epoch: int = 0
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._make(0)
        self._thread = threading.Thread(target=self._feed, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it, whether someone reads or not."""
        self._over.set()
        for _ in range(_ATTEMPTS):
            # It may wait for a reader, and gets one; or for one that reads no further, and sees it go.
            with contextlib.suppress(OSError):
                reader = os.open(self._path(self._epoch), os.O_RDONLY | os.O_NONBLOCK)
                try:
                    self._wait()
                finally:
                    os.close(reader)
            self._wait()
            if self._thread is None or not self._thread.is_alive():
                return

    def _wait(self) -> None:
        if self._thread is not None:
            self._thread.join(timeout=0.1)

    def _path(self, epoch: int) -> Path:
        return self.folder / f"{self.name}_{epoch}"

    def _make(self, epoch: int) -> None:
        path = self._path(epoch)
        os.mkfifo(path)
        path.chmod(0o666)  # an image may run as any user

    def _feed(self) -> None:
        try:
            while not self._over.is_set():
                with contextlib.suppress(BrokenPipeError), self._path(self._epoch).open("wb", buffering=0) as pipe:
                    self.opened = self.opened or not self._over.is_set()
                    # There before this one ends: a script that comes to its end asks for the next at once.
                    self._make(self._epoch + 1)
                    self._epoch += 1
                    for block in self.blocks():
                        if self._over.is_set():
                            break
                        _write(pipe.fileno(), block)
        except Exception as error:  # the reader gets the end of the data, the job's result the reason
            self.problem = f"channel {self.name}: epoch {self._epoch}: {error}"


def _write(handle: int, block: bytes) -> None:
    left = memoryview(block)
    while left:
        left = left[os.write(handle, left) :]
