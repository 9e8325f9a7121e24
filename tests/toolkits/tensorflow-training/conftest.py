"""The base toolkit's job folders, with the TensorFlow toolkit as what ``train`` calls."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "toolkits" / "tensorflow-training" / "src"

sys.path.insert(0, str(SOURCE))
sys.path.insert(0, str(ROOT))

from tests.toolkits.training import conftest as base  # noqa: E402
from tests.toolkits.training.conftest import job  # noqa: E402

__all__ = ["job"]

# A parameter server that notes what it was started as, and serves until it is ended.
TENSORFLOW = """\
import json, os, sys, types

class Server:
    def __init__(self, cluster, job_name, task_index, config):
        note = {"cluster": cluster, "job": job_name, "index": task_index, "config": config,
                "devices": os.environ["CUDA_VISIBLE_DEVICES"], "pid": os.getpid()}
        path = os.path.join(os.environ["SAGEMAKER_BASE_DIR"], "server.json")
        with open(path + ".part", "w") as file:
            json.dump(note, file)
        os.rename(path + ".part", path)

    def join(self):
        import time
        while True:
            time.sleep(60)

distribute = types.SimpleNamespace(Server=Server)
compat = types.SimpleNamespace(v1=types.SimpleNamespace(ConfigProto=lambda **options: options))
"""


@pytest.fixture
def tf_job(job: base.Job) -> base.Job:
    """A job in an image of TensorFlow."""
    folder = job.base / "installed"
    folder.mkdir()
    (folder / "tensorflow.py").write_text(TENSORFLOW)
    job.env["PYTHONPATH"] = os.pathsep.join(map(str, (folder, SOURCE, base.SOURCE)))
    job.env["SAGEMAKER_TRAINING_MODULE"] = "sagemaker_tensorflow_container.training:main"
    return job
