"""A training job on this machine's engine, run as SageMaker runs it.

Source of the rules: the SageMaker developer guide, "Use Your Own Training Algorithms", and the API reference of
CreateTrainingJob and StopTrainingJob.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from slipway.emulator import layout
from slipway.emulator.channel_data import ChannelStore
from slipway.emulator.following import Follower, Host
from slipway.emulator.job import HostResult, JobInterrupted, LogLine, TrainingJob, TrainingResult, check, new_name
from slipway.emulator.layout import HostFolders
from slipway.emulator.meter import Meter
from slipway.emulator.metrics import MetricValue
from slipway.engine.docker import Container, ContainerSpec, Engine, LimitsRefused, Mount, Run, Ulimit, uninterrupted
from slipway.errors import EngineError, InputError
from slipway.files import naming_full_disk

_ACCOUNT = "000000000000"

# What hosted jobs have (nproc and memlock without limit).
_ULIMITS = (
    Ulimit("nofile", 65536, 65536),
    Ulimit("memlock", -1, -1),
    Ulimit("nproc", -1, -1),
    Ulimit("stack", 65536 << 10, 65536 << 10),
)


def run_training(
    job: TrainingJob,
    engine: Engine,
    output: Path,
    *,
    on_line: Callable[[LogLine], None] | None = None,
    on_metric: Callable[[MetricValue], None] | None = None,
    stop_when: Callable[[LogLine], bool] | None = None,
    s3_endpoint: str | None = None,
) -> TrainingResult:
    """Run a job to its end and return what came of it; a job that fails is a result, not an error.

    `output` gets model.tar.gz, output.tar.gz and logs/<host>.log, in place of those of a former job. `on_line` and
    `on_metric` hear of each line and value as it comes; the job is stopped, as StopTrainingJob does, at the first line
    for which `stop_when` is true. `s3_endpoint` None: AWS's own.

    Raises InputError for a job that SageMaker would not take or a channel that cannot be read, NotFoundError for an
    image that the engine does not have, EngineError when the engine fails, JobInterrupted after Ctrl-C. In each case
    no container, network or work folder is left behind.
    """
    check(job)
    job = replace(job, name=job.name or new_name())
    engine.image(job.image)
    with _work_folder(output, engine, job.image) as work:
        store = ChannelStore(work / "channels", s3_endpoint)
        store.bring(job.channels)
        folders = {name: _prepare(job, name, work / name, output) for name in job.host_names()}
        meter = Meter(job.metrics, on_metric)
        notes: list[str] = []
        started = time.monotonic()
        with _feeding(job, store, folders, notes), engine.run() as run:
            hosts = _start_hosts(job, run, folders, store, output, notes)
            follower = Follower(job, hosts, meter, on_line, stop_when)
            follower.follow()
        _take_over(work, engine, job.image)
        result = _gather(job, follower, output, time.monotonic() - started, notes)
    if result.stopped_by == "Ctrl-C":
        raise JobInterrupted(result)
    return result


@contextlib.contextmanager
def _work_folder(output: Path, engine: Engine, image: str) -> Iterator[Path]:
    """A folder beside the results, on a disk that is meant to hold them; gone at the end."""
    made = not output.exists()
    try:
        with naming_full_disk(output):
            output.mkdir(parents=True, exist_ok=True)
            work = Path(tempfile.mkdtemp(prefix=".job-", dir=output.resolve()))
    except OSError as error:
        raise InputError(f"{output} cannot hold the results: {error.strerror}", fix="give another folder") from None
    try:
        yield work
    finally:
        with uninterrupted():
            _take_over(work, engine, image)
            shutil.rmtree(work)
            if made and not any(output.iterdir()):
                output.rmdir()


def _prepare(job: TrainingJob, host: str, root: Path, output: Path) -> HostFolders:
    """Write the tree that one host sees under /opt/ml."""
    folders = HostFolders(root)
    folders.make()
    hyperparameters = dict(job.hyperparameters)
    if job.source is not None:
        layout.copy_source(job.source, folders.code, leave_out=output)
        # What SDK v2 local mode adds; the last three may be chosen otherwise.
        hyperparameters |= {"sagemaker_program": job.entry, "sagemaker_submit_directory": layout.CODE}
        hyperparameters.setdefault("sagemaker_container_log_level", 20)
        hyperparameters.setdefault("sagemaker_job_name", job.name)
        hyperparameters.setdefault("sagemaker_region", job.region)
    documents: dict[str, Any] = {
        "hyperparameters": layout.encode_hyperparameters(hyperparameters, raw=job.raw_hyperparameters),
        "resourceconfig": layout.resource_config(host, job.host_names(), job.instance_type),
        "inputdataconfig": layout.input_data_config(job.channels),
        "metric-definition-regex": {metric.name: metric.regex for metric in job.metrics},
    }
    if job.checkpoints is not None:
        documents["checkpointconfig"] = {
            "LocalPath": f"{layout.CHECKPOINTS}/",
            "S3Uri": job.checkpoints.resolve().as_uri(),
        }
    layout.write_configs(folders.config, documents)
    return folders


@contextlib.contextmanager
def _feeding(
    job: TrainingJob, store: ChannelStore, folders: Mapping[str, HostFolders], notes: list[str]
) -> Iterator[None]:
    """Feed the channels in Pipe mode for as long as the job runs."""
    pipes = [
        pipe
        for number, own in enumerate(folders.values())
        for pipe in store.pipes(job.channels, own.data, number, job.hosts)
    ]
    try:
        for pipe in pipes:
            pipe.start()
        yield
    finally:
        for pipe in pipes:
            pipe.stop()
        notes += [pipe.problem for pipe in pipes if pipe.problem]


def _start_hosts(
    job: TrainingJob,
    run: Run,
    folders: Mapping[str, HostFolders],
    store: ChannelStore,
    output: Path,
    notes: list[str],
) -> list[Host]:
    shared = [*job.mounts]
    if job.checkpoints is not None:
        job.checkpoints.mkdir(parents=True, exist_ok=True)
        shared.append(Mount(job.checkpoints.resolve(), layout.CHECKPOINTS))
    logs = output / "logs"
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir()
    network = run.network()
    hosts = []
    for number, (name, own) in enumerate(folders.items()):
        data = store.mounts(job.channels, number, job.hosts)
        spec = ContainerSpec(
            image=job.image,
            name=name,
            entrypoint=job.entrypoint,
            command=job.command(),
            environment=_environment(job),
            mounts=(*own.mounts(), *data, *shared),
            network=network,
            aliases=(name,),
            hostname=name,
            user=job.user,
            read_only=job.read_only,
            tmpfs=("/tmp",) if job.read_only else (),
            shm_bytes=job.shm_bytes,
            ulimits=_ULIMITS,
        )
        hosts.append(Host(name, own, *_start(run, spec, notes), logs / f"{name}.log"))
    return hosts


def _start(run: Run, spec: ContainerSpec, notes: list[str]) -> tuple[Container, Iterator[tuple[str, bytes]]]:
    """Start a container, its output already followed."""
    container = run.create(spec)
    output = container.attach()
    try:
        container.start()
    except LimitsRefused:
        container.remove()
        notes.append(f"{spec.name} has the engine's own limits (nofile, memlock, …): the engine may not raise them")
        return _start(run, replace(spec, ulimits=()), notes)
    return container, output


def _environment(job: TrainingJob) -> dict[str, str]:
    partition = (
        "aws-cn" if job.region.startswith("cn-") else "aws-us-gov" if job.region.startswith("us-gov-") else "aws"
    )
    return {
        "AWS_REGION": job.region,
        **job.environment,
        "TRAINING_JOB_NAME": job.name,
        "TRAINING_JOB_ARN": f"arn:{partition}:sagemaker:{job.region}:{_ACCOUNT}:training-job/{job.name}",
    }


def _gather(job: TrainingJob, follower: Follower, output: Path, seconds: float, notes: list[str]) -> TrainingResult:
    """Say how the job ended, and pack what it left."""
    hosts = [
        HostResult(host.name, host.exit.code, host.exit.out_of_memory, host.log) for host in follower.hosts if host.exit
    ]
    failed = next((host for host in hosts if host.name == follower.first_failed), None)
    stopped = follower.stopped_by not in ("", "failure")
    failure = ""
    if failed is not None and not stopped:
        texts = [layout.failure_text(host.folders.failure) for host in follower.hosts if host.name == failed.name]
        failure = "AlgorithmError: " + (texts[0] or f"Exit Code: {failed.exit_code}")
    model, artefacts = output / "model.tar.gz", output / "output.tar.gz"
    notes += layout.pack([host.folders.model for host in follower.hosts], model)
    notes += layout.pack([host.folders.output_data for host in follower.hosts], artefacts)
    notes += [f"{host.name} ran out of memory" for host in hosts if host.out_of_memory]
    return TrainingResult(
        name=job.name,
        status="Stopped" if stopped else "Failed" if failed is not None else "Completed",
        exit_code=failed.exit_code if failed is not None else 0,
        failure_reason=failure,
        stopped_by=follower.stopped_by if stopped else "",
        seconds=seconds,
        hosts=tuple(hosts),
        metrics=follower.meter.summaries(),
        problems=follower.meter.problems(),
        model=model if model.exists() else None,
        output=artefacts if artefacts.exists() else None,
        notes=tuple(notes),
    )


def _take_over(folder: Path, engine: Engine, image: str) -> None:
    """Give the caller what other users of the container wrote; root may do everything already."""
    mine = os.geteuid()
    if mine == 0 or all(path.lstat().st_uid == mine for path in folder.rglob("*")):
        return
    spec = ContainerSpec(
        image=image,
        name="owner",
        entrypoint=("chown", "-hR", f"{mine}:{os.getegid()}", "/job"),
        mounts=(Mount(folder, "/job"),),
        user="0",
    )
    with engine.run() as run:
        helper = run.create(spec)
        try:
            helper.start()
            code = helper.wait().code
        except EngineError:
            code = 127
    if code != 0:
        what = f"{folder} holds files of other users, and the image has no `chown` to hand them over with"
        raise EngineError(what, fix=f"remove it as root: sudo rm -r {folder}")
