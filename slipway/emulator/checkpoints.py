"""Checkpoints of a training job: restored before it starts, kept while it runs and at its end.

As with SageMaker's CheckpointConfig every host has a folder of its own, all of which go to one location: of equal names
the later file stays. What a job removes from its folder stays at the location.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from slipway.emulator import layout, s3
from slipway.errors import InputError, SlipwayError
from slipway.files import naming_full_disk

PAUSE = 1.0
"""Seconds between two looks at the folders. A file is kept once it is the same in two looks, or the job has ended."""

_Mark = tuple[int, int]  # size, time of change


@dataclass
class Checkpoints:
    """The checkpoints at `location`: a folder, `file:///…` or `s3://…`. `endpoint` None: AWS's own."""

    location: str
    endpoint: str | None = None
    _kept: dict[Path, _Mark] = field(default_factory=dict)
    _seen: dict[Path, _Mark] = field(default_factory=dict)

    @property
    def uri(self) -> str:
        return self.location if self._in_s3 else self._folder.absolute().as_uri()

    @property
    def _in_s3(self) -> bool:
        return self.location.startswith("s3://")

    @property
    def _folder(self) -> Path:
        return Path(self.location.removeprefix("file://"))

    def restore(self, folder: Path) -> None:
        """Bring what is at the location into a host's new folder. Raises as s3.download does, DiskError."""
        if self._in_s3:
            s3.download(self.location, folder, self.endpoint, may_be_empty=True)
        elif self._folder.is_dir():
            with naming_full_disk(folder):
                shutil.copytree(self._folder, folder)
        elif self._folder.exists():
            raise InputError(f"the checkpoints' location {self._folder} is no folder", fix="name a folder")
        else:
            folder.mkdir(parents=True)
        for path in (folder, *layout.tree(folder)):
            path.chmod(0o777 if path.is_dir() else 0o666)  # an image may run as any user, and writes over them
        self._kept |= dict(_files(folder))

    @contextlib.contextmanager
    def kept_up(self, folders: Sequence[Path]) -> Iterator[None]:
        """Keep what appears in the folders for as long as the job runs. What cannot be kept is tried again."""
        over = threading.Event()

        def go_on() -> None:
            while not over.wait(PAUSE):
                with contextlib.suppress(SlipwayError, OSError):
                    self._pass(folders, all_of_them=False)

        thread = threading.Thread(target=go_on, daemon=True)
        thread.start()
        try:
            yield
        except BaseException:
            over.set()
            thread.join()
            with contextlib.suppress(SlipwayError, OSError):
                self._pass(folders, all_of_them=True)
            raise
        over.set()
        thread.join()

    def keep(self, folders: Sequence[Path]) -> None:
        """Keep all that the job left. Raises InputError or AuthError when S3 does not take it, DiskError."""
        self._pass(folders, all_of_them=True)

    def _pass(self, folders: Sequence[Path], *, all_of_them: bool) -> None:
        fresh = []
        for folder in folders:
            for path, mark in _files(folder):
                if self._kept.get(path) == mark:
                    continue
                if all_of_them or self._seen.get(path) == mark:
                    fresh.append((path, path.relative_to(folder).as_posix(), mark))
                self._seen[path] = mark
        if not fresh:
            return
        with self._taking() as take:
            for path, name, mark in sorted(fresh, key=lambda each: each[2][1]):
                with _opened(path) as content:
                    take(name, content)
                self._kept[path] = mark

    @contextlib.contextmanager
    def _taking(self) -> Iterator[s3.Take]:
        if self._in_s3:
            with s3.uploading(self.location, self.endpoint) as take:
                yield take
        else:
            yield self._take_here

    def _take_here(self, name: str, content: IO[bytes]) -> None:
        """Write a file so that the location never holds a part of it."""
        target = self._folder / name
        with naming_full_disk(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            handle, part = tempfile.mkstemp(prefix=".kept.", dir=target.parent)
            try:
                with os.fdopen(handle, "wb") as stream:
                    shutil.copyfileobj(content, stream)
                Path(part).chmod(0o644)
                Path(part).replace(target)
            except BaseException:
                Path(part).unlink(missing_ok=True)
                raise


def _files(folder: Path) -> Iterator[tuple[Path, _Mark]]:
    """The plain files below a folder. Links are left out: the job made them, and they may lead anywhere."""
    for path in layout.tree(folder):
        with contextlib.suppress(FileNotFoundError):
            status = path.lstat()
            if stat.S_ISREG(status.st_mode):
                yield path, (status.st_size, status.st_mtime_ns)


def _opened(path: Path) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")
