"""One hash over everything that decides a verdict: the checks, what runs them, and what plays SageMaker."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from slipway.files import sha256_file, tree_files

CHECKS = "tests/contract"
SMOKE = "tests/smoke"

# The mutants prove the checks; no verdict on an image depends on them.
_APART = ("tests/contract/mutants", "tests/smoke/mutants")
_DECIDING = (
    CHECKS,
    "slipway/verify",
    "slipway/emulator",
    "slipway/engine/docker.py",
    "slipway/engine/images.py",
    "slipway/size.py",
    "slipway/tables.py",
    # Some of the steps are checks as well.
    "tests/smoke/probe",
    "tests/smoke/test_steps.py",
)
_DECIDING_SMOKE = (SMOKE, "slipway/verify/plugin.py", "slipway/verify/probing.py", "slipway/verify/smoke.py")


def suite_hash(project: Path) -> str:
    """The hash under which verdicts are filed. It changes with any file that could change a verdict."""
    return _hash(project, _DECIDING)


def smoke_hash(project: Path) -> str:
    """The same of the smoke steps: the steps, their limits, and what runs them."""
    return _hash(project, _DECIDING_SMOKE)


def _hash(project: Path, deciding: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for path in _files(project, deciding):
        digest.update(f"{path.relative_to(project).as_posix()}\0{sha256_file(path)}\n".encode())
    return digest.hexdigest()


def _files(project: Path, deciding: Sequence[str]) -> Iterator[Path]:
    for part in deciding:
        path = project / part
        found = tree_files(path) if path.is_dir() else [path]
        apart = [project / name for name in _APART]
        yield from (file for file in found if not any(file.is_relative_to(folder) for folder in apart))
