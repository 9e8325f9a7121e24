"""Jobs of the SageMaker SDK v3 (ModelTrainer, local containers): it starts the image with drivers of its own."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slipway import process
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
    with sdk.client("v3") as client:
        yield client


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The jobs' scripts, in a folder that a job may spoil."""
    return Path(shutil.copytree(sdk.SOURCE, tmp_path / "source"))


@pytest.fixture
def run(client: sdk.Client, image: str, source: Path, tmp_path: Path) -> Run:
    return lambda **fields: client.run(sdk.Job(**{"image": image, "source": str(source), **fields}), tmp_path)


@pytest.fixture
def channel(tmp_path: Path) -> Path:
    folder = tmp_path / "channel"
    folder.mkdir()
    (folder / "part.csv").write_text("1,2\n")
    return folder


def model_of(finished: sdk.Finished) -> dict[str, bytes]:
    return members(finished.root / "compressed_artifacts" / "model.tar.gz")


def failure_of(finished: sdk.Finished) -> str:
    return (finished.root / "artifacts" / "output" / "failure").read_text()


def test_a_script_gets_its_channels_hyperparameters_and_variables(run: Run, channel: Path) -> None:
    values: dict[str, Any] = {
        "epochs": 2,
        "lr": 1e-5,
        "amp": True,
        "name": "two words",
        "layers": [64, "relu"],
        "optimizer": {"name": "adam", "eps": None},
        "batch-size": 64,
    }
    done = run(hyperparameters=values, channels={"train": str(channel)})
    assert not done.error, done.text
    report = done.report
    arguments = dict(zip(report["arguments"][::2], report["arguments"][1::2], strict=True))
    assert arguments.pop("--name") == "two words"
    assert {name: json.loads(text) for name, text in arguments.items()} == {
        f"--{name}": value for name, value in values.items() if name != "name"
    }
    variables = report["variables"]
    assert json.loads(variables["SM_HPS"]) == values
    assert variables["SM_HP_BATCH_SIZE"] == "64"
    assert json.loads(variables["SM_HOSTS"]) == ["algo-1"]
    assert sorted(json.loads(variables["SM_CHANNELS"])) == ["code", "sm_drivers", "train"]
    assert report["files"] == {"train/part.csv": "1,2\n"}
    assert report["folder"] == "/opt/ml/input/data/code"
    assert not report["toolkit"]
    assert set(model_of(done)) == {"weights-algo-1"}
    assert set(members(done.root / "compressed_artifacts" / "output.tar.gz")) == {"data/notes.txt"}


def test_requirements_are_installed_with_the_images_pip(run: Run, source: Path) -> None:
    build = "import sys, flit_core.buildapi as api; print(api.build_wheel(sys.argv[1]))"
    wheel = process.run([sys.executable, "-c", build, source], cwd=sdk.HERE / "package").stdout.strip()
    (source / "requirements.txt").write_text(f"--no-index\n./{wheel}\n")
    done = run(requirements="requirements.txt")
    assert not done.error, done.text
    assert done.report["package"] == "42"


def test_a_shell_script_calls_the_images_python(run: Run) -> None:
    name = 'two "$HOME" `id` \\ words'
    done = run(entry="report.sh", hyperparameters={"name": name})
    assert not done.error, done.text
    assert done.report["arguments"] == ["--name", name]


def test_a_quote_in_a_hyperparameter_is_lost_on_the_sdk(run: Run) -> None:
    """Variables reach bash in single quotes that nothing escapes. Should this change, so must the page on clients."""
    done = run(hyperparameters={"name": "it's"})
    assert "Process exited with code: 2" in done.error
    assert "unexpected EOF while looking for matching" in done.text


def test_a_failing_script_ends_the_job(run: Run) -> None:
    done = run(hyperparameters={"fail": "the cause"})
    assert "Process exited with code: 1" in done.error
    assert "ValueError: the cause" in done.printed
    # The driver's own words: with v3 the cause is in the log alone.
    assert "returned non-zero exit status 1" in failure_of(done)


def test_torchrun_on_one_host(run: Run) -> None:
    done = run(entry="all_reduce.py", distribution={"torchrun": {"process_count_per_node": 2}})
    assert not done.error, done.text
    assert {"rank 0 of 2 on algo-1: sum 2", "rank 1 of 2 on algo-1: sum 2"} <= set(done.printed)
    assert model_of(done) == {"sum": b"2"}


def test_torchrun_on_two_hosts(run: Run) -> None:
    done = run(entry="all_reduce.py", hosts=2, distribution={"torchrun": {"process_count_per_node": 1}})
    assert not done.error, done.text
    assert "rank 0 of 2 on algo-1: sum 2" in done.lines["algo-1"]
    assert "rank 1 of 2 on algo-2: sum 2" in done.lines["algo-2"]
    assert model_of(done) == {"sum": b"2"}


def test_mpi_on_two_hosts(run: Run) -> None:
    """Local mode names an interface that no container has (ethwe), so the driver is called with one that is there.

    The SDK starts one process for each process *of a host*: two hosts need two, and to be told to spread them.
    """
    driver = "python3 /opt/ml/input/data/sm_drivers/distributed_drivers/mpi_driver.py"
    done = run(
        entry="mpi_sum.py",
        command=f"SM_NETWORK_INTERFACE_NAME=eth0 {driver}",
        hosts=2,
        distribution={"mpi": {"process_count_per_node": 2, "mpi_additional_options": ["--map-by", "node"]}},
    )
    assert not done.error, done.text
    ranks = "\n".join(done.lines["algo-1"])
    assert "rank 0 of 2 on algo-1: sum 2" in ranks
    assert "rank 1 of 2 on algo-2: sum 2" in ranks


def test_without_source_code_the_images_own_entry_trains(run: Run, source: Path, channel: Path) -> None:
    told = {"sagemaker_program": "report.py", "sagemaker_submit_directory": source.as_uri()}
    done = run(entry="", hyperparameters={**told, "epochs": 2}, channels={"train": str(channel)})
    assert not done.error, done.text
    report = done.report
    assert report["toolkit"]
    assert report["arguments"] == ["--epochs", "2"]
    assert report["files"] == {"train/part.csv": "1,2\n"}
    assert report["variables"]["SM_CHANNEL_TRAIN"] == "/opt/ml/input/data/train"
    assert set(model_of(done)) == {"weights-algo-1"}


def test_without_source_code_the_failure_text_names_the_cause(run: Run, source: Path) -> None:
    told = {"sagemaker_program": "report.py", "sagemaker_submit_directory": source.as_uri()}
    done = run(entry="", hyperparameters={**told, "fail": "the cause"})
    assert "Process exited with code: 1" in done.error
    assert "ValueError: the cause" in failure_of(done).splitlines()[0]
