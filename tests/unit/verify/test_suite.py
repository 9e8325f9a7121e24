"""The suite's hash: it follows what decides a verdict, and nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from slipway.verify import smoke_hash, suite_hash

PROJECT = Path(__file__).parents[3]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The parts of the project that could matter."""
    for part in ("slipway", "tests/contract", "tests/smoke", "docs"):
        shutil.copytree(PROJECT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_the_same_files_have_the_same_hash_anywhere(copy: Path) -> None:
    assert suite_hash(copy) == suite_hash(PROJECT)
    (copy / "slipway/verify/__pycache__").mkdir()
    (copy / "slipway/verify/__pycache__/runner.cpython-311.pyc").write_bytes(b"x")
    assert suite_hash(copy) == suite_hash(PROJECT)


@pytest.mark.parametrize(
    "name",
    [
        "tests/contract/training.yml",
        "tests/contract/training/test_job.py",
        "tests/contract/conftest.py",
        "tests/contract/training/probe/train.py",
        "tests/contract/training/probe/metrics.tsv",
        "slipway/verify/plugin.py",
        "slipway/emulator/training.py",
        "slipway/engine/docker.py",
        "slipway/engine/images.py",
        "slipway/size.py",
        "slipway/tables.py",
    ],
)
def test_what_decides_a_verdict_changes_the_hash(copy: Path, name: str) -> None:
    with (copy / name).open("r+") as file:
        file.seek(0, 2)
        file.write("\n")
    assert suite_hash(copy) != suite_hash(PROJECT)


def test_a_new_or_a_missing_check_changes_the_hash(copy: Path) -> None:
    (copy / "tests/contract/test_more.py").write_text("")
    with_more = suite_hash(copy)
    (copy / "tests/contract/test_more.py").unlink()
    (copy / "tests/contract/training/test_users.py").unlink()
    assert len({with_more, suite_hash(copy), suite_hash(PROJECT)}) == 3


@pytest.mark.parametrize(
    "name",
    [
        "tests/contract/mutants/ending.stop.Dockerfile",
        "slipway/build.py",
        "docs/contract/checks.md",
        "tests/smoke/steps.yml",
    ],
)
def test_what_decides_no_verdict_does_not(copy: Path, name: str) -> None:
    with (copy / name).open("r+") as file:
        file.seek(0, 2)
        file.write("\n")
    assert suite_hash(copy) == suite_hash(PROJECT)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("tests/smoke/test_steps.py", True),
        ("tests/smoke/probe/on_torch.py", True),
        ("tests/smoke/steps.yml", True),
        ("slipway/verify/probing.py", True),
        ("tests/smoke/mutants/torch-training.step.py", False),
        ("tests/contract/image.yml", False),
    ],
)
def test_smoke_has_a_hash_of_its_own(copy: Path, name: str, changes: bool) -> None:
    with (copy / name).open("a") as file:
        file.write("\n")
    assert (smoke_hash(copy) != smoke_hash(PROJECT)) is changes
