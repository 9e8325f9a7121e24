"""Jobs of the SageMaker SDK v2 in local mode: it starts the image with `train`, as SageMaker does."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from slipway.emulator.meter import Meter
from slipway.emulator.metrics import MetricDefinition
from slipway.engine.docker import Engine

from .clients import sdk
from .conftest import members

pytestmark = pytest.mark.integration

Run = Callable[..., sdk.Finished]


@pytest.fixture(scope="module")
def image(engine: Engine) -> str:
    return sdk.training_image(engine)


@pytest.fixture(scope="module")
def client() -> Iterator[sdk.Client]:
    with sdk.client("v2") as client:
        yield client


@pytest.fixture
def s3(client: sdk.Client) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=client.environment["AWS_ENDPOINT_URL"],
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )


@pytest.fixture
def output(tmp_path: Path) -> Path:
    folder = tmp_path / "output"
    folder.mkdir()
    return folder


@pytest.fixture
def run(client: sdk.Client, image: str, output: Path, tmp_path: Path) -> Run:
    """Runs a job whose source is mounted and whose artifacts go to a folder, unless a test asks for something else."""
    source = shutil.copytree(sdk.SOURCE, tmp_path / "source")
    plain: dict[str, Any] = {"image": image, "source": str(source), "output": output.as_uri(), "local_code": True}
    return lambda **fields: client.run(sdk.Job(**{**plain, **fields}), tmp_path)


@pytest.fixture
def channel(tmp_path: Path) -> Path:
    folder = tmp_path / "channel"
    folder.mkdir()
    (folder / "part.csv").write_text("1,2\n")
    return folder


def test_a_script_gets_its_channels_hyperparameters_and_variables(run: Run, channel: Path, output: Path) -> None:
    values = {"epochs": 2, "lr": 1e-5, "amp": True, "name": "it's two words", "layers": [64, "relu"], "k": 5}
    done = run(hyperparameters=values, channels={"train": str(channel)})
    assert not done.error, done.text
    report = done.report
    expected = ["--amp", "True", "--epochs", "2", "-k", "5", "--layers", "[64, 'relu']", "--lr", "1e-05"]
    assert report["arguments"] == [*expected, "--name", "it's two words"]
    variables = report["variables"]
    assert variables["SM_CHANNEL_TRAIN"] == "/opt/ml/input/data/train"
    assert variables["SM_CHANNELS"] == '["train"]'
    assert variables["SM_HP_NAME"] == "it's two words"
    assert re.fullmatch(r"algo-1-\w{5}", variables["SM_CURRENT_HOST"])
    assert report["files"] == {"train/part.csv": "1,2\n"}
    assert set(members(output / "model.tar.gz")) == {"weights-algo-1"}
    assert "data/notes.txt" in members(output / "output.tar.gz")


def test_metric_definitions_find_their_values_in_the_log(run: Run) -> None:
    """The SDK reads no metrics itself: what it shows of the log is read as SageMaker reads it."""
    done = run()
    assert not done.error, done.text
    values: list[float] = []
    meter = Meter([MetricDefinition("loss", r"loss=([0-9.]+)")], lambda value: values.append(value.value))
    meter.feed("".join(f"{line}\n" for line in done.printed))
    assert values == [0.5, 0.3333, 0.25]
    assert not meter.problems()


def test_source_and_artifacts_go_through_s3(run: Run, s3: Any, tmp_path: Path) -> None:
    """The source is an archive in a bucket, which the image fetches from the endpoint that it is told."""
    s3.create_bucket(Bucket="jobs")
    done = run(local_code=False, output="s3://jobs")
    assert not done.error, done.text
    assert done.report["variables"]["SM_MODULE_DIR"].startswith("s3://jobs/")
    (key,) = re.findall(r"model data: s3://jobs/(.+)", done.text)
    archive = tmp_path / "model.tar.gz"
    s3.download_file("jobs", key, str(archive))
    assert set(members(archive)) == {"weights-algo-1"}


def test_a_failing_script_names_its_cause_in_the_failure_text(run: Run, output: Path) -> None:
    done = run(hyperparameters={"fail": "the cause"})
    assert "Process exited with code: 1" in done.error
    failure = members(output / "output.tar.gz")["failure"].decode()
    assert "ValueError: the cause" in failure.splitlines()[0]
    assert len(failure) <= 1024


def test_two_hosts_see_each_other(run: Run, output: Path) -> None:
    done = run(entry="meet.py", hosts=2)
    assert not done.error, done.text
    assert "algo-1 of 2 met algo-2" in done.lines["algo-1"]
    assert "algo-2 of 2 met algo-1" in done.lines["algo-2"]
    assert set(members(output / "model.tar.gz")) == {"met-algo-1", "met-algo-2"}


def test_torch_distributed_on_two_hosts(run: Run, output: Path) -> None:
    done = run(entry="all_reduce.py", hosts=2, distribution={"torch_distributed": {"enabled": True}})
    assert not done.error, done.text
    assert "rank 0 of 2 on algo-1: sum 2" in "\n".join(done.lines["algo-1"])
    assert "rank 1 of 2 on algo-2: sum 2" in "\n".join(done.lines["algo-2"])
    assert members(output / "model.tar.gz") == {"sum": b"2"}
