"""Disks that are full."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def small(folder: Path, options: str) -> Iterator[Path]:
    """A file system in memory with mount's options, such as its size; only root can make one."""
    folder.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]).returncode:
        pytest.skip("a file system can only be mounted by root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> list[Path]:
    """Takes all that is left, in files; they are given back."""
    made: list[Path] = []
    with contextlib.suppress(OSError):
        while True:
            one = folder / f"filler-{len(made)}"
            one.touch()
            made.append(one)
    return made
