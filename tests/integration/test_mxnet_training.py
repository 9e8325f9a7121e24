"""MXNet jobs on two hosts: the distributed key-value store over scheduler, servers and workers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from slipway.emulator.job import TrainingJob
from slipway.emulator.training import run_training
from slipway.engine.docker import Engine

from .conftest import members
from .training_hosts import lose_a_host, start_hosts, training_image

pytestmark = pytest.mark.integration

JOB = {"sagemaker_parameter_server_enabled": True, "_ps_port": 8123}

SUM = """\
import os
import mxnet as mx
from sagemaker_mxnet_container.training_utils import save, scheduler_host
store = mx.kv.create("dist_sync")
store.init("weight", mx.nd.zeros(3))
store.push("weight", mx.nd.ones(3) * (store.rank + 1))
total = mx.nd.zeros(3)
store.pull("weight", out=total)
print("worker", store.rank, "of", store.num_workers, total.asnumpy().tolist(), os.environ["DMLC_PS_ROOT_PORT"])
data = mx.sym.Variable("data")
module = mx.mod.Module(mx.sym.FullyConnected(data, num_hidden=2), label_names=None)
module.bind([("data", (1, 4))], for_training=False)
module.init_params()
save(os.environ["SM_MODEL_DIR"], module)
"""

FAIL = """\
import os, time
if os.environ["SM_CURRENT_HOST"] == "algo-2":
    raise ValueError("bad batch")
time.sleep(300)
"""


@pytest.fixture(scope="module")
def image(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with training_image(engine, tmp_path_factory.mktemp("mxnet"), "mxnet") as made:
        yield made


def test_workers_sum_in_one_store_and_the_first_host_saves(engine: Engine, image: str, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "train.py").write_text(SUM)
    lines: list[str] = []
    job = TrainingJob(image=image, source=source, entry="train.py", hosts=2, hyperparameters=dict(JOB))
    result = run_training(job, engine, tmp_path / "out", on_line=lambda line: lines.append(line.text))
    assert result.status == "Completed", result.failure_reason
    workers = sorted(line for line in lines if line.startswith("worker "))
    assert workers == [f"worker {rank} of 2 [3.0, 3.0, 3.0] 8123" for rank in (0, 1)]
    assert result.model is not None
    assert set(members(result.model)) == {"model-symbol.json", "model-0000.params", "model-shapes.json"}


def test_a_failed_worker_ends_the_other_host_with_its_cause(engine: Engine, image: str, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "train.py").write_text(FAIL)
    with start_hosts(engine, image, tmp_path, source, {"sagemaker_program": "train.py", **JOB}) as (first, second):
        assert (second.end(), first.end()) == (1, 1)
        assert second.failure.startswith("ValueError: bad batch")
        assert first.failure.startswith("Host algo-2 failed first, with exit code 1: ValueError: bad batch")


@pytest.mark.slow
@pytest.mark.parametrize("dies", [0, 1])
def test_a_lost_host_ends_the_other(engine: Engine, image: str, tmp_path: Path, dies: int) -> None:
    lose_a_host(engine, image, tmp_path, JOB, dies)
