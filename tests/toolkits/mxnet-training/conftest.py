"""The base toolkit's job folders, with the MXNet toolkit as what ``train`` calls, and a stand-in for MXNet."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "toolkits" / "mxnet-training" / "src"

sys.path.insert(0, str(SOURCE))
sys.path.insert(0, str(ROOT))

from tests.toolkits.training import conftest as base  # noqa: E402
from tests.toolkits.training.conftest import job  # noqa: E402

__all__ = ["job"]

# As MXNet does, serves where its role is to serve. Notes who it is first.
MXNET = """\
import json, os, time
role = os.environ.get("DMLC_ROLE")
if role in ("scheduler", "server"):
    own = {name: value for name, value in os.environ.items() if name.startswith(("DMLC_", "PS_"))}
    path = os.path.join(os.environ["SAGEMAKER_BASE_DIR"], role + ".json")
    with open(path + ".part", "w") as file:
        json.dump({**own, "pid": os.getpid()}, file)
    os.rename(path + ".part", path)
    while True:
        time.sleep(60)
"""


@pytest.fixture
def mx_job(job: base.Job) -> base.Job:
    """A job in an image of MXNet."""
    folder = job.base / "installed"
    folder.mkdir()
    (folder / "mxnet.py").write_text(MXNET)
    job.env["PYTHONPATH"] = os.pathsep.join(map(str, (folder, SOURCE, base.SOURCE)))
    job.env["SAGEMAKER_TRAINING_MODULE"] = "sagemaker_mxnet_container.training:main"
    return job
