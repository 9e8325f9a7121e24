"""A training job on this machine's engine, run as SageMaker runs it.

Source of the rules: the SageMaker developer guide, "Use Your Own Training Algorithms", and the API reference of
CreateTrainingJob and StopTrainingJob.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from slipway.emulator import warm_pool
from slipway.emulator.channel_data import ChannelStore
from slipway.emulator.checkpoints import Checkpoints
from slipway.emulator.following import SPOT, Follower, Hearing
from slipway.emulator.history import History
from slipway.emulator.hosts import Cluster, need_gpus, prepare
from slipway.emulator.job import JobInterrupted, LogLine, TrainingJob, TrainingResult, check, new_name
from slipway.emulator.layout import HostFolders
from slipway.emulator.meter import Meter
from slipway.emulator.metrics import MetricValue
from slipway.emulator.outcome import gather
from slipway.emulator.pipes import Pipe
from slipway.engine.docker import ContainerSpec, Engine, Mount
from slipway.engine.interrupts import uninterrupted
from slipway.errors import EngineError, InputError, SlipwayError
from slipway.files import naming_full_disk


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
    need_gpus(engine, job)
    with _work_folder(output, engine, job.image) as work, warm_pool.held(job.warm_pool):
        history, notes = History(), list[str]()
        hear = Hearing(Meter(job.metrics, on_metric), on_line, stop_when)
        store = ChannelStore(work / "channels", s3_endpoint)
        checkpoints = Checkpoints(job.checkpoints, s3_endpoint) if job.checkpoints else None
        history.enter("Starting")
        history.enter("Downloading")
        store.bring(job.channels)
        tried = _Attempt(job, engine, output, store, checkpoints, history, notes)
        follower = tried.run(work / "1", hear, job.spot_interrupt)
        refusal = tried.keep(follower)
        if follower.stopped_by == SPOT:
            # Another instance takes over, which knows of the first one's work by the checkpoints alone.
            shutil.rmtree(work / "1")
            history.enter("Starting")
            history.enter("Downloading")
            if checkpoints is None:
                notes.append("the job was interrupted and began anew: without checkpoints nothing of it was left")
            follower = tried.run(work / "2", hear, 0.0)
            refusal = tried.keep(follower)
        elif job.spot_interrupt:
            notes.append(f"the job ended before it could be interrupted at {job.spot_interrupt:g} s")
        result = gather(job, follower, output, history, refusal, notes)
    if result.stopped_by == "Ctrl-C":
        raise JobInterrupted(result)
    return result


@dataclass(frozen=True)
class _Attempt:
    """A job on one set of instances; a second set takes over after a spot interruption."""

    job: TrainingJob
    engine: Engine
    output: Path
    store: ChannelStore
    checkpoints: Checkpoints | None
    history: History
    notes: list[str]

    def run(self, work: Path, hear: Hearing, interrupt_after: float) -> Follower:
        """Run it to its end, whatever that is."""
        job, notes = self.job, self.notes
        folders = {name: prepare(job, name, work / name, self.output, self.checkpoints) for name in job.host_names()}
        logs = self.output / "logs"
        if not self.history.has("Training"):
            shutil.rmtree(logs, ignore_errors=True)
            logs.mkdir()
        left = job.time_limit - self.history.seconds_since("Training")
        kept_up = self.checkpoints.kept_up([own.checkpoints for own in folders.values()]) if self.checkpoints else None
        with (
            _feeding(job, self.store, folders, notes) as pipes,
            self.engine.run() as run,
            kept_up or contextlib.nullcontext(),
        ):
            hosts = Cluster(job, folders, self.store, logs).start(run, notes)
            self.history.enter("Training")
            follower = Follower(job, hosts, hear, left, interrupt_after or math.inf)
            follower.follow()
        if not follower.stopped_by:
            unread = sorted({pipe.name for pipe in pipes if not pipe.opened})
            notes += [
                f"channel {name}: the job never opened its pipe, and SageMaker ends such a job with a time-out"
                for name in unread
            ]
        _take_over(work, self.engine, job.image)
        if job.warm_pool is not None:
            _take_over(job.warm_pool, self.engine, job.image)
        if follower.stopped_by == SPOT:
            self.history.enter("Interrupted", f"{SPOT} after {interrupt_after:g} s")
        elif follower.stopped_by:
            self.history.enter("Stopping", follower.stopped_by)
        return follower

    def keep(self, follower: Follower) -> str:
        """Keep the checkpoints that are left; why they cannot be, and then they lie in the output; else empty."""
        if self.checkpoints is None:
            return ""
        folders = [host.folders.checkpoints for host in follower.hosts]
        try:
            self.checkpoints.keep(folders)
        except (SlipwayError, OSError) as error:
            for host, folder in zip(follower.hosts, folders, strict=True):
                shutil.copytree(folder, self.output / "checkpoints" / host.name, symlinks=True, dirs_exist_ok=True)
            self.notes.append(f"the checkpoints lie in {self.output / 'checkpoints'} instead of {self.job.checkpoints}")
            return str(error)
        return ""


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


@contextlib.contextmanager
def _feeding(
    job: TrainingJob, store: ChannelStore, folders: Mapping[str, HostFolders], notes: list[str]
) -> Iterator[list[Pipe]]:
    """Feed the channels in Pipe mode for as long as the job runs."""
    pipes = [
        pipe
        for name, own in folders.items()
        for channel, *share in job.channels_of(name)
        for pipe in store.pipes([channel], own.data, *share)
    ]
    try:
        for pipe in pipes:
            pipe.start()
        yield pipes
    finally:
        for pipe in pipes:
            pipe.stop()
        notes += [pipe.problem for pipe in pipes if pipe.problem]


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
