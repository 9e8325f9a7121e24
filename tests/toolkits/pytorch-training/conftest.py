"""The base toolkit's job folders, with the PyTorch toolkit as what ``train`` calls, and a stand-in for PyTorch."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "toolkits" / "pytorch-training" / "src"

sys.path[:0] = [str(ROOT), str(SOURCE)]

from tests.toolkits.training import conftest as base
from tests.toolkits.training.conftest import job

STAND_INS = ROOT / "tests/toolkits/training/stand_ins"


@pytest.fixture
def torch_job(job: base.Job) -> base.Job:
    """A job in an image of PyTorch."""
    job.env["PYTHONPATH"] = os.pathsep.join(map(str, (STAND_INS, SOURCE, base.SOURCE)))
    job.env["SAGEMAKER_TRAINING_MODULE"] = "sagemaker_pytorch_container.training:main"
    return job


@pytest.fixture
def installed(job: base.Job):
    """Installs a made-up package for the job: its folder comes first on the job's search path."""
    folder = job.base / "installed"

    def install(name: str, text: str = "") -> None:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if str(folder) not in job.env["PYTHONPATH"]:
            job.env["PYTHONPATH"] = f"{folder}{os.pathsep}{job.env['PYTHONPATH']}"

    return install
