"""What breaks around a job: each with the right outcome, a clear reason, and nothing left behind."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slipway import settings
from slipway.emulator import following
from slipway.emulator.channels import Channel
from slipway.emulator.job import LogLine, TrainingJob
from slipway.emulator.training import run_training
from slipway.engine.docker import Engine
from slipway.errors import DiskError, EngineError, InputError

from .cut import EngineProxy, dying_s3, engine_proxy

pytestmark = pytest.mark.integration

Make = Callable[..., TrainingJob]


@pytest.fixture
def job(engine: Engine, train_image: str, script: Callable[[str], Path], tmp_path: Path) -> Iterator[Make]:
    def make(text: str, **fields: object) -> TrainingJob:
        return TrainingJob(image=train_image, source=script(text), entry="train.py", **fields)  # type: ignore[arg-type]

    yield make
    assert os.getpid() not in engine.runs().values(), "containers or networks were left behind"
    assert not list(tmp_path.rglob(".job-*")), "a work folder was left behind"


@pytest.fixture
def proxy() -> Iterator[EngineProxy]:
    host = settings.read().environment.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    assert host.startswith("unix://"), "these tests cut a socket of this machine"
    with engine_proxy(host.removeprefix("unix://")) as proxy:
        yield proxy


def behind(proxy: EngineProxy) -> Engine:
    return Engine.connect({**settings.read().environment, "DOCKER_HOST": proxy.url})


def test_an_engine_that_goes_in_mid_job_is_named_and_cleared_when_it_is_back(
    job: Make, proxy: EngineProxy, tmp_path: Path
) -> None:
    """Refused are four connections: of the wait, of the look after it, of two attempts to clear away."""

    def cut(line: LogLine) -> None:
        if line.text == "ready":
            proxy.cut(refusals=4)

    waiting = job("import time; print('ready', flush=True); time.sleep(600)")
    with pytest.raises(EngineError, match=r"stopped answering \(wait for algo-1\)") as failed:
        run_training(waiting, behind(proxy), tmp_path / "out", on_line=cut)
    assert "Docker" in failed.value.fix


def test_a_log_that_was_cut_off_is_told_of(
    job: Make, proxy: EngineProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "_SILENCE", 0.5)

    def cut(line: LogLine) -> None:
        if line.text == "ready":
            proxy.cut()

    script = "import time; print('ready', flush=True); time.sleep(3); print('unheard'); open('/opt/ml/model/m', 'w')"
    result = run_training(job(script), behind(proxy), tmp_path / "out", on_line=cut)
    assert result.status == "Completed" and result.model is not None
    assert any("algo-1: its output ended before it did" in note for note in result.notes)


@pytest.mark.parametrize("dies", [True, False], ids=["gone", "cut each time"])
def test_an_s3_that_breaks_off_in_the_middle_of_an_object(
    job: Make, engine: Engine, aws_keys: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    given = job("print('ran all the same')", channels=(Channel("train", "s3://data/set"),))
    with dying_s3(dies=dies) as endpoint, pytest.raises(InputError) as failed:
        run_training(given, engine, tmp_path / "out", s3_endpoint=endpoint)
    (fault,) = failed.value.faults
    assert fault.what.startswith("channel train: s3://data/set cannot be read:") and "AWS_ENDPOINT_URL_S3" in fault.fix
    assert not (tmp_path / "out").exists()


def test_a_host_that_ends_early_with_0_lets_the_others_go_on(job: Make, engine: Engine, tmp_path: Path) -> None:
    script = """
import json, socket, time
name = json.load(open("/opt/ml/input/config/resourceconfig.json"))["current_host"]
if name == "algo-2":
    time.sleep(2)
    print("found", bool(socket.gethostbyname("algo-1")))
open("/opt/ml/model/" + name, "w").write(name)
print(name, "is done", flush=True)
"""
    lines: list[str] = []
    result = run_training(job(script, hosts=2), engine, tmp_path / "out", on_line=lambda line: lines.append(line.text))
    assert (result.status, [host.exit_code for host in result.hosts]) == ("Completed", [0, 0])
    assert lines == ["algo-1 is done", "found True", "algo-2 is done"], "its name is gone with it"


def test_a_full_disk_is_named(job: Make, engine: Engine, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may make a small disk")
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(small)], check=True)
    try:
        with pytest.raises(DiskError) as failed:
            run_training(job("for i in range(100): print('x' * 60000)"), engine, small / "out")
        assert str(small / "out" / "logs") in failed.value.message and failed.value.fix
        assert not list(small.rglob(".job-*"))
    finally:
        subprocess.run(["umount", str(small)], check=True)
