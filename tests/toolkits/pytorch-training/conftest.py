"""The base toolkit's job folders, with the PyTorch toolkit as what ``train`` calls, and a stand-in for PyTorch."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "toolkits" / "pytorch-training" / "src"

sys.path[:0] = [str(ROOT), str(SOURCE)]

BASE_CONFTEST = ROOT / "tests/toolkits/training/conftest.py"


def base_conftest():
    """The base toolkit's conftest: pytest's own copy where it has one, since a second would move the base folder."""
    loaded = [module for module in sys.modules.values() if getattr(module, "__file__", "") == str(BASE_CONFTEST)]
    return loaded[0] if loaded else importlib.import_module("tests.toolkits.training.conftest")


base = base_conftest()
job = base.job

STAND_INS = ROOT / "tests/toolkits/training/stand_ins"


@pytest.fixture
def torch_job(job):
    """A job in an image of PyTorch."""
    job.env["PYTHONPATH"] = os.pathsep.join(map(str, (STAND_INS, SOURCE, base.SOURCE)))
    job.env["SAGEMAKER_TRAINING_MODULE"] = "sagemaker_pytorch_container.training:main"
    return job


@pytest.fixture
def installed(job):
    """Installs a made-up package for the job: its folder comes first on the job's search path."""
    folder = job.base / "installed"

    def install(name: str, text: str = "") -> None:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if str(folder) not in job.env["PYTHONPATH"]:
            job.env["PYTHONPATH"] = f"{folder}{os.pathsep}{job.env['PYTHONPATH']}"

    return install
