"""A private /opt/ml tree for each test, and ``train`` run in it as the platform runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).parents[3] / "toolkits" / "training" / "src"

# The package reads its base folder when it is imported, so the tests' own comes first.
# The framework toolkits' tests load this file once more, by another name: it must be the same folder then.
_BASE = os.environ.setdefault("SLIPWAY_TESTS_BASE", tempfile.mkdtemp(prefix="slipway-training-"))
os.environ["SAGEMAKER_BASE_DIR"] = _BASE
sys.path.insert(0, str(SOURCE))


@dataclass
class Done:
    """How a run of ``train`` ended."""

    code: int
    out: str
    err: str
    base: Path

    @property
    def failure(self) -> str:
        path = self.base / "output" / "failure"
        return path.read_text() if path.exists() else ""

    @property
    def success(self) -> bool:
        return (self.base / "output" / "success").exists()


class Job:
    """A training job's folder, and its container's environment."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.env: dict[str, str] = {
            "PATH": os.environ["PATH"],
            "HOME": str(base / "home"),
            "PYTHONPATH": str(SOURCE),
            "SAGEMAKER_BASE_DIR": str(base),
            "LANG": "C.UTF-8",
        }
        for folder in ("input/config", "input/data", "code", "model", "output/data", "home"):
            (base / folder).mkdir(parents=True, exist_ok=True)
        self.hyperparameters({})
        self.resources({"current_host": "algo-1", "hosts": ["algo-1"]})
        self.channels({})

    def config(self, name: str, content: Any) -> None:
        text = content if isinstance(content, str) else json.dumps(content)
        (self.base / "input/config" / name).write_text(text)

    def hyperparameters(self, values: dict[str, Any]) -> None:
        self.config("hyperparameters.json", values)

    def resources(self, content: Any) -> None:
        self.config("resourceconfig.json", content)

    def channels(self, content: Any) -> None:
        self.config("inputdataconfig.json", content)

    def code(self, name: str, text: str) -> Path:
        path = self.base / "code" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    def script(self, text: str, **hyperparameters: Any) -> None:
        """The usual job: one script, train.py."""
        self.code("train.py", text)
        self.hyperparameters({"sagemaker_program": "train.py", **hyperparameters})

    def start(self, **options: Any) -> subprocess.Popen[bytes]:
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        return subprocess.Popen(
            [sys.executable, "-m", "sagemaker_training.cli.train"], env=self.env, cwd=str(self.base), **options
        )

    def finish(self, process: subprocess.Popen[bytes]) -> Done:
        try:
            out, err = process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        return Done(process.returncode, (out or b"").decode(), (err or b"").decode(), self.base)

    def run(self, **options: Any) -> Done:
        return self.finish(self.start(**options))

    def fake_boto3(self, text: str) -> None:
        """A boto3 of the test's own, for what would talk to AWS."""
        folder = self.base / "fake"
        (folder / "boto3").mkdir(parents=True, exist_ok=True)
        (folder / "boto3" / "__init__.py").write_text(textwrap.dedent(text))
        self.env["PYTHONPATH"] = f"{folder}{os.pathsep}{SOURCE}"


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path / "ml")


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    """The same tree, for code that runs in the test's own process."""
    from sagemaker_training import layout

    job = Job(tmp_path / "ml")
    for name, value in vars(layout).copy().items():
        if isinstance(value, str) and name.islower() and value.startswith(_BASE):
            monkeypatch.setattr(layout, name, value.replace(_BASE, str(job.base), 1))
    return job
