"""The jobs that were run with a training image. Each runs once, however many checks look at it."""

from __future__ import annotations

import os
import runpy
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slipway.emulator import channels as channel_files
from slipway.emulator import metrics as metric_files
from slipway.emulator.channels import Channel
from slipway.emulator.job import TrainingJob
from slipway.emulator.metrics import MetricDefinition
from slipway.engine.docker import Engine
from slipway.verify import jobs
from slipway.verify.wheels import write_wheel

PROBE = Path(__file__).parent / "probe"

Run = Callable[..., jobs.Finished]


@pytest.fixture(scope="session")
def run(engine: Engine, image: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs a job with a script of the probe folder, as SageMaker would."""

    def run_job(entry: str, *, source: Path = PROBE, **fields: Any) -> jobs.Finished:
        job = TrainingJob(image=image, source=source, entry=entry, **{"time_limit": 120.0, "stop_grace": 8.0, **fields})
        return jobs.run(job, engine, tmp_path_factory.mktemp("job") / "out")

    return run_job


@pytest.fixture(scope="session")
def probe() -> SimpleNamespace:
    """The names of the probe script: what it prints is known from the same lines that print it."""
    return SimpleNamespace(**runpy.run_path(str(PROBE / "train.py")))


@pytest.fixture(scope="session")
def channels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Channel, ...]:
    """The channels of a TSV file: random bytes, sub-folders, odd names, one file alone, and nothing at all."""
    folder = tmp_path_factory.mktemp("channels")
    files = {
        "train/part-0001.bin": 1 << 20,
        "train/deep/er/part-0002.bin": 4099,
        "train/deep/.hidden": 7,
        "my-data/blank name ü.csv": 1000,
        "my-data/-dash 'quote\" $(id) *": 65536,
        "my-data/empty.txt": 0,
        "single.bin": 31,
    }
    for name, size in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(size))
    (folder / "nothing").mkdir()
    rows = ["channel_name\tdata_location", "train\ttrain", "my-chan.v1\tmy-data", "one\tsingle.bin", "nothing\tnothing"]
    (folder / "inputs.tsv").write_text("\n".join(rows) + "\n")
    return channel_files.read(folder / "inputs.tsv").channels


@pytest.fixture(scope="session")
def definitions() -> tuple[MetricDefinition, ...]:
    return metric_files.read(PROBE / "metrics.tsv").definitions


@pytest.fixture(scope="session")
def hyperparameters() -> dict[str, Any]:
    """Every type, and every character that a shell would trip over."""
    return {
        "epochs": 10,
        "lr": 0.001,
        "negative": -1,
        "amp": False,
        "shuffle": True,
        "nothing": None,
        "empty": "",
        "name": "two words",
        "quotes": """it's "quoted" $HOME `id` \\ back""",
        "unicode": "Zürich ✓",
        "digits": "0123",
        "batch-size": 64,
        "k": 5,
        "layers": [64, "relu", True],
        "optimizer": {"name": "adam", "betas": [0.9, 0.999], "eps": None},
    }


@pytest.fixture(scope="session")
def job(
    run: Run,
    channels: tuple[Channel, ...],
    definitions: tuple[MetricDefinition, ...],
    hyperparameters: dict[str, Any],
) -> jobs.Finished:
    """The probe's job, with everything that a job can be given."""
    return run("train.py", channels=channels, metrics=definitions, hyperparameters=hyperparameters)


@pytest.fixture(scope="session")
def raw_job(run: Run, hyperparameters: dict[str, Any]) -> jobs.Finished:
    """A job whose hyperparameters came as boto3 and SDK v3 send them."""
    return run("small.py", hyperparameters=hyperparameters, raw_hyperparameters=True)


@pytest.fixture(scope="session")
def failed_job(run: Run) -> jobs.Finished:
    return run("fail.py")


@pytest.fixture(scope="session")
def killed_job(run: Run) -> jobs.Finished:
    return run("killed.py")


@pytest.fixture(scope="session")
def stopped_job(run: Run) -> jobs.Finished:
    """A job that is stopped at its first line, or after a while if that never arrives."""
    return run("stopped.py", time_limit=20.0)


@pytest.fixture(scope="session")
def user_job(run: Run, anybody: int) -> jobs.Finished:
    return run("small.py", user=f"{anybody}:{anybody}")


@pytest.fixture(scope="session")
def read_only_job(run: Run) -> jobs.Finished:
    return run("small.py", read_only=True)


@pytest.fixture(scope="session")
def requiring_job(run: Run, tmp_path_factory: pytest.TempPathFactory) -> jobs.Finished:
    """A job that brings a wheel along and requires it by path: no index is asked."""
    source = tmp_path_factory.mktemp("requiring")
    shutil.copy(PROBE / "needs.py", source)
    write_wheel(source, "slipway_probe_package", "1.0", "ANSWER = '42'\n")
    (source / "requirements.txt").write_text("--no-index\n./slipway_probe_package-1.0-py3-none-any.whl\n")
    return run("needs.py", source=source)


@pytest.fixture(scope="session")
def unmet_job(run: Run, tmp_path_factory: pytest.TempPathFactory) -> jobs.Finished:
    """A job that requires what no index has."""
    source = tmp_path_factory.mktemp("unmet")
    (source / "script.py").write_text("print('the script has started')\n")
    (source / "requirements.txt").write_text("--no-index\nslipway-probe-missing==1.0\n")
    return run("script.py", source=source)
