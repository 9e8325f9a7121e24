"""PyTorch jobs on two hosts: what the ranks are given, whose failure is told, and what becomes of lost hosts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slipway import process
from slipway.emulator.job import LogLine, TrainingJob, TrainingResult
from slipway.emulator.training import run_training
from slipway.engine.docker import Engine

from .training_hosts import PYTORCH_BASE, TRAINING_MODULE, build_image, build_wheels, start_hosts

pytestmark = pytest.mark.integration

TORCHRUN = {"sagemaker_torch_distributed_enabled": True}

ALL_REDUCE = """\
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
print("world", dist.get_world_size(), "rank", dist.get_rank(), "sum", int(total), "host", os.environ["SM_CURRENT_HOST"])
dist.destroy_process_group()
"""

STEPS = """\
import sys, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
for step in range(100000):
    dist.all_reduce(torch.ones(1))
    if step == 3:
        print("training", flush=True)
    time.sleep(0.05)
"""


@pytest.fixture(scope="session")
def torch_image(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A PyTorch image with the toolkits of this tree."""
    engine.image(PYTORCH_BASE)
    context = tmp_path_factory.mktemp("torch")
    build_wheels(context, "training", "pytorch-training")
    reference = build_image(
        context,
        f"FROM {PYTORCH_BASE}",
        "RUN --mount=type=bind,target=/wheels"
        " python -m pip install --no-index --no-deps --force-reinstall --no-cache-dir /wheels/*.whl"
        " && python -m sagemaker_pytorch_container.smddp",
        f"ENV SAGEMAKER_TRAINING_MODULE={TRAINING_MODULE}",
    )
    yield reference
    process.run(["docker", "image", "rm", "--force", reference], check=False)


class Cluster:
    """Runs jobs on hosts of the emulator and keeps the log lines."""

    def __init__(self, engine: Engine, image: str, folder: Path) -> None:
        self.engine, self.image, self.folder = engine, image, folder
        self.lines: list[LogLine] = []

    def source(self, **files: str) -> Path:
        folder = self.folder / "source"
        for name, text in files.items():
            path = folder / f"{name.replace('__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return folder

    def run(
        self,
        source: Path,
        hyperparameters: dict[str, Any],
        stop_when: Callable[[LogLine], bool] | None = None,
        **job: Any,
    ) -> TrainingResult:
        job = {"entry": "train.py", "hosts": 2, "image": self.image, **job}
        given = TrainingJob(source=source, hyperparameters=hyperparameters, **job)
        return run_training(given, self.engine, self.folder / "out", on_line=self.lines.append, stop_when=stop_when)

    def printed(self, start: str = "") -> list[str]:
        return sorted(line.text for line in self.lines if line.text.startswith(start))


@pytest.fixture
def cluster(engine: Engine, torch_image: str, tmp_path: Path) -> Cluster:
    return Cluster(engine, torch_image, tmp_path)


def test_ranks_of_two_hosts_make_one_world(cluster: Cluster) -> None:
    result = cluster.run(cluster.source(train=ALL_REDUCE), TORCHRUN)
    assert result.status == "Completed", result.failure_reason
    assert cluster.printed("world") == [
        "world 2 rank 0 sum 2 host algo-1",
        "world 2 rank 1 sum 2 host algo-2",
    ]


def test_lost_host_is_named_by_the_other(engine: Engine, torch_image: str, cluster: Cluster, tmp_path: Path) -> None:
    source = cluster.source(train=STEPS)
    job = {**TORCHRUN, "sagemaker_program": "train.py"}
    with start_hosts(engine, torch_image, tmp_path, source, job) as (first, second):
        first.wait_for("training")
        second.container.signal("SIGKILL")
        killed = time.monotonic()
        assert first.end() != 0
        assert first.ended - killed < 60
        assert "algo-2" in first.failure.splitlines()[0], first.failure
