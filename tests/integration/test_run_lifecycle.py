"""What outlives a job's instances: checkpoints over a spot interruption, a warm pool's cache; and who its hosts are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from slipway.emulator import checkpoints, warm_pool
from slipway.emulator.channels import Channel
from slipway.emulator.cluster import InstanceGroup
from slipway.emulator.job import LogLine, TrainingJob, TrainingResult
from slipway.emulator.training import run_training
from slipway.engine.docker import Engine, Mount, Ulimit
from slipway.errors import InputError, NoDeviceError

from .conftest import members

pytestmark = pytest.mark.integration

# Makes a step a line, goes on from where a checkpoint says, and stays at step 3 until it has been interrupted once.
STEPS = """
import json, os, pathlib, signal, sys, time
host = json.load(open("/opt/ml/input/config/resourceconfig.json"))["current_host"]
folder = pathlib.Path("/opt/ml/checkpoints")
def on_term(number, frame):
    (folder / host / "last-word").write_text("in the grace")
    print("asked to stop", flush=True)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
seen = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
print(host, "finds", json.dumps(seen), flush=True)
if not seen or f"{host}/step" not in seen:
    (folder / host).mkdir()
    (folder / "link").symlink_to("/etc/hostname")
    pathlib.Path("/opt/ml/model/of-the-first").touch()
    (folder / host / "step").write_text("3")
    print("saved", flush=True)
    while True:
        on_term(signal.sigwait({signal.SIGTERM}), None)
step = int((folder / host / "step").read_text())
(folder / host / "step").write_text(str(step + 1))
pathlib.Path("/opt/ml/model", host).write_text(str(step))
"""


@pytest.fixture
def run(engine: Engine, train_image: str, script: Callable[[str], Path], tmp_path: Path) -> Iterator[Any]:
    lines: list[LogLine] = []

    def run(text: str, s3_endpoint: str | None = None, **job: Any) -> tuple[TrainingResult, list[str]]:
        lines.clear()
        given = TrainingJob(image=train_image, source=script(text), entry="train.py", **job)
        result = run_training(given, engine, tmp_path / "out", on_line=lines.append, s3_endpoint=s3_endpoint)
        return result, [line.text for line in lines]

    yield run
    assert not [path.name for path in tmp_path.rglob(".job-*")], "a work folder was left behind"


def test_an_interrupted_job_goes_on_from_its_checkpoints_in_s3(run: Any, s3: str, aws_keys: None) -> None:
    client = boto3.client("s3", endpoint_url=s3)
    client.create_bucket(Bucket="kept")
    result, lines = run(
        STEPS,
        s3,
        checkpoints="s3://kept/of/job",
        spot_interrupt=4.0,
        stop_grace=2.0,
        hosts=2,
        checkpoint_path="/opt/ml/checkpoints/",
    )
    assert result.status == "Completed", lines
    assert {"algo-1 finds []", "algo-2 finds []"} <= set(lines)
    everything = ["algo-1/last-word", "algo-1/step", "algo-2/last-word", "algo-2/step"]
    assert f"algo-1 finds {json.dumps(everything)}" in lines and f"algo-2 finds {json.dumps(everything)}" in lines
    assert lines.count("asked to stop") == 2, "the grace was not given"
    kept = {item["Key"] for item in client.list_objects_v2(Bucket="kept")["Contents"]}
    assert kept == {f"of/job/{name}" for name in everything}, "a link was followed, or something is missing"
    assert client.get_object(Bucket="kept", Key="of/job/algo-2/step")["Body"].read() == b"4"
    assert [each.status for each in result.transitions] == [
        *("Starting", "Downloading", "Training", "Interrupted"),
        *("Starting", "Downloading", "Training", "Uploading", "Completed"),
    ]
    assert result.model is not None and members(result.model) == {"algo-1": b"3", "algo-2": b"3"}
    assert "saved" in result.hosts[0].log.read_text(), "the log of the first instances is gone"


def test_checkpoints_are_kept_while_the_job_runs(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "PAUSE", 0.1)
    there = tmp_path / "kept"
    source = """
import pathlib, time
pathlib.Path("/opt/ml/checkpoints/first").write_text("1")
until = time.monotonic() + 60
while not pathlib.Path("/seen/first").exists() and time.monotonic() < until:
    time.sleep(0.1)
print("kept meanwhile" if time.monotonic() < until else "not kept", flush=True)
"""
    there.mkdir()
    result, lines = run(source, checkpoints=str(there), mounts=(Mount(there, "/seen", read_only=True),))
    assert (result.status, lines) == ("Completed", ["kept meanwhile"])


def test_checkpoints_that_s3_does_not_take_fail_the_job_and_are_not_lost(
    run: Any, s3: str, aws_keys: None, tmp_path: Path
) -> None:
    client = boto3.client("s3", endpoint_url=s3)
    client.create_bucket(Bucket="going")
    lines = "import pathlib; pathlib.Path('/opt/ml/checkpoints/c').write_text('kept'); print('saved', flush=True)"
    real = checkpoints.Checkpoints.restore

    def restore(self: checkpoints.Checkpoints, folder: Path) -> None:
        real(self, folder)
        client.delete_bucket(Bucket="going")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints.Checkpoints, "restore", restore)
        result, _ = run(lines, s3, checkpoints="s3://going/job")
    assert result.status == "Failed"
    assert result.failure_reason.startswith(
        "ClientError: Artifact upload failed: there is no bucket for s3://going/job"
    )
    assert (tmp_path / "out" / "checkpoints" / "algo-1" / "c").read_text() == "kept"
    assert any("instead of s3://going/job" in note for note in result.notes)


def test_a_job_that_ends_before_its_interruption_says_so(run: Any) -> None:
    result, _ = run("pass", spot_interrupt=60.0)
    assert result.status == "Completed"
    assert any("ended before it could be interrupted" in note for note in result.notes)


def test_the_cache_of_a_warm_pool_outlives_the_job(run: Any, tmp_path: Path) -> None:
    source = """
import os
folder = os.environ["SAGEMAKER_MANAGED_WARMPOOL_CACHE_DIRECTORY"]
print(folder, sorted(os.listdir(folder)))
open(folder + "/of-" + os.environ["TRAINING_JOB_NAME"], "w").close()
"""
    pool = tmp_path / "pools" / "mine"
    printed = [run(source, name=name, warm_pool=pool)[1] for name in ("one", "two")]
    assert printed == [["/opt/ml/sagemaker/warmpoolcache []"], ["/opt/ml/sagemaker/warmpoolcache ['of-one']"]]
    assert run(source, warm_pool=tmp_path / "pools" / "other")[1] == ["/opt/ml/sagemaker/warmpoolcache []"]


def test_a_warm_pool_takes_one_job_at_a_time(run: Any, tmp_path: Path) -> None:
    pool = tmp_path / "pools" / "mine"
    with warm_pool.held(pool), pytest.raises(InputError, match="another job runs in the warm pool mine"):
        run("pass", warm_pool=pool)


def test_groups_sizes_and_limits_are_as_asked_for(run: Any, tmp_path: Path) -> None:
    source = """
import json, os, resource
me = json.load(open("/opt/ml/input/config/resourceconfig.json"))
shm = os.statvfs("/dev/shm")
told = json.load(open("/opt/ml/input/config/inputdataconfig.json"))
channels = sorted(os.listdir("/opt/ml/input/data")), sorted(told)
print(json.dumps([me["current_host"], *channels, me["current_group_name"], me["current_instance_type"],
    len(me["instance_groups"]),
    shm.f_frsize * shm.f_blocks, resource.getrlimit(resource.RLIMIT_NOFILE)]))
"""
    groups = (InstanceGroup("data", "ml.c5.xlarge", 1), InstanceGroup("train", "ml.m5.xlarge", 1))
    (tmp_path / "file").touch()
    channels = (
        Channel("all", str(tmp_path / "file")),
        Channel("some", str(tmp_path / "file"), instance_groups=("train",)),
    )
    result, lines = run(
        source,
        hosts=2,
        instance_groups=groups,
        channels=channels,
        shm_bytes=96 << 20,
        ulimits=(Ulimit("nofile", 1000, 2000),),
    )
    assert result.status == "Completed"
    assert sorted(json.loads(line) for line in lines) == [
        ["algo-1", ["all"], ["all"], "data", "ml.c5.xlarge", 2, 96 << 20, [1000, 2000]],
        ["algo-2", ["all", "some"], ["all", "some"], "train", "ml.m5.xlarge", 2, 96 << 20, [1000, 2000]],
    ]


def test_gpus_that_the_engine_does_not_have_are_refused(run: Any, engine: Engine, tmp_path: Path) -> None:
    if "nvidia" in engine.info().get("Runtimes", {}):
        pytest.skip("this engine has GPUs to give")
    with pytest.raises(NoDeviceError) as refused:
        run("print('ran all the same')", gpus="1")
    assert refused.value.fix and not (tmp_path / "out").exists()
