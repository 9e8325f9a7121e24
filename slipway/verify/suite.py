"""One hash over everything that decides a verdict: the checks, what runs them, and what plays SageMaker."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from slipway.files import sha256_file, tree_files

CHECKS = "tests/contract"

# The mutants prove the checks; no verdict on an image depends on them.
_APART = "tests/contract/mutants"
_DECIDING = (
    CHECKS,
    "slipway/verify",
    "slipway/emulator",
    "slipway/engine/docker.py",
    "slipway/engine/images.py",
    "slipway/tables.py",
)


def suite_hash(project: Path) -> str:
    """The hash under which verdicts are filed. It changes with any file that could change a verdict."""
    digest = hashlib.sha256()
    for path in _files(project):
        digest.update(f"{path.relative_to(project).as_posix()}\0{sha256_file(path)}\n".encode())
    return digest.hexdigest()


def _files(project: Path) -> Iterator[Path]:
    for part in _DECIDING:
        path = project / part
        found = tree_files(path) if path.is_dir() else [path]
        yield from (file for file in found if not file.is_relative_to(project / _APART))
