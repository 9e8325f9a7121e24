"""Files written whole or not at all, hashes, and JSON in one fixed form."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from slipway.errors import DiskError


def canonical_json(data: Any) -> str:
    """JSON with sorted keys, two spaces and a final newline: the same data always gives the same bytes."""
    return json.dumps(data, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def write_whole(path: Path, content: str | bytes, *, mode: int = 0o644) -> None:
    """Write a file so that a reader sees the old or the new content, never a part of it."""
    data = content.encode() if isinstance(content, str) else content
    with naming_full_disk(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        temporary = Path(name)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.chmod(mode)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


@contextlib.contextmanager
def naming_full_disk(path: Path) -> Iterator[None]:
    """Turn "no space left" into an error that names the disk."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskError(f"no space left to write {path}", fix="free space there, or run `invoke clean`") from error
        raise


@contextlib.contextmanager
def locked(path: Path, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold a file's lock, which no other process gets meanwhile and which ends with this one, however it ends.

    `waiting` is called once when another process holds it.
    """
    import fcntl

    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def same_file(source: Path, target: Path) -> Path:
    """Make `target` the same file as `source`: by a link where the disk allows, else a copy. Returns `target`.

    Whoever looks sees the old or the new file, whole, also when two commands do this at once.
    """
    with contextlib.suppress(FileNotFoundError):  # of the target, which another command may take away just now
        if target.samefile(source):
            return target
    with naming_full_disk(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as scratch:
            fresh = Path(scratch) / "file"
            try:
                os.link(source, fresh)
            except OSError:  # another disk, or a file system without links
                shutil.copyfile(source, fresh)
            fresh.replace(target)
    return target


def sha256_bytes(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


_NO_SOURCES = ("__pycache__", ".hypothesis", ".mypy_cache", ".pytest_cache", ".ruff_cache", "dist")


def tree_files(folder: Path, *, skip: tuple[str, ...] = _NO_SOURCES) -> list[Path]:
    """The files below a folder, sorted by path, without caches and build leftovers."""
    found: list[Path] = []
    for place, folders, names in os.walk(folder):  # into what is skipped it does not look at all
        folders[:] = [name for name in folders if not _skipped(name, skip)]
        found += [Path(place, name) for name in names if not _skipped(name, skip)]
    return sorted(path for path in found if path.is_file())


def _skipped(name: str, skip: tuple[str, ...]) -> bool:
    return name in skip or name.endswith(".egg-info")
