"""Slipway installed by hand into an environment of one's own, as the README offers it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from slipway import process

pytestmark = [pytest.mark.integration, pytest.mark.slow]

ROOT = Path(__file__).parents[2]


def test_pip_install_and_invoke_are_enough_in_a_clean_clone(tmp_path: Path) -> None:
    """What pyproject.toml forgot would be missing here; everywhere else a lock file installs it."""
    clone, environment = tmp_path / "clone", tmp_path / "venv"
    process.run(["git", "clone", "--quiet", ROOT, clone])
    process.run([sys.executable, "-m", "venv", environment])
    process.run([environment / "bin/pip", "install", "--quiet", "--editable", clone], timeout=600)
    invoke = environment / "bin/invoke"
    built = process.run([invoke, "build", "--framework", "pytorch", "--dry-run"], cwd=clone, timeout=120)
    assert "pytorch-training-" in built.stdout and "pytorch-inference-" in built.stdout
    for words in (["list"], ["doctor"], ["checks"], ["--help", "run"]):
        process.run([invoke, *words], cwd=clone, timeout=120)
