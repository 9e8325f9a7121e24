"""A training job as the service is asked for it, and what it answers."""

from __future__ import annotations

import datetime
import json
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from slipway.emulator import channels, cluster, metrics, patterns
from slipway.emulator.channels import Channel
from slipway.emulator.cluster import InstanceGroup, Placed
from slipway.emulator.history import Transition
from slipway.emulator.layout import CHECKPOINTS
from slipway.emulator.metrics import FinalMetric, MetricDefinition, MetricProblem, MetricSummary
from slipway.engine.docker import Mount, Ulimit
from slipway.errors import Fault, InputError, Interrupted, nearest


@dataclass(frozen=True, kw_only=True)
class TrainingJob:
    """What is asked for. Times in seconds; `name` empty: one is made.

    `image` is any reference of the engine. With `source` and `entry` the image's toolkit runs that script, told so as
    SDK v2 local mode does. `raw_hyperparameters` sends strings as boto3 and SDK v3 do, else as SDK v2 does.
    `entrypoint` and `arguments` are ContainerEntrypoint and ContainerArguments; without them the image gets `train`.
    `instance_groups` make a heterogeneous cluster, and say what `hosts` and `instance_type` say else. `checkpoints` is
    a folder or `s3://…` that they are restored from and kept in; `warm_pool` a folder that outlives the job. At
    `spot_interrupt` seconds the job is interrupted as a spot instance is, and starts again; 0: never. `gpus`: `all`,
    or how many. `ulimits` go before those that hosted jobs have.
    """

    image: str
    name: str = ""
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    raw_hyperparameters: bool = False
    channels: tuple[Channel, ...] = ()
    metrics: tuple[MetricDefinition, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    source: Path | None = None
    entry: str = ""
    hosts: int = 1
    instance_type: str = "local"
    instance_groups: tuple[InstanceGroup, ...] = ()
    region: str = "us-east-1"
    time_limit: float = 86400.0
    stop_grace: float = 120.0
    entrypoint: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    checkpoints: str = ""
    checkpoint_path: str = CHECKPOINTS
    warm_pool: Path | None = None
    spot_interrupt: float = 0.0
    mounts: tuple[Mount, ...] = ()
    user: str = ""
    read_only: bool = False
    gpus: str = ""
    shm_bytes: int = 2 << 30
    ulimits: tuple[Ulimit, ...] = ()

    def command(self) -> tuple[str, ...]:
        return self.arguments if self.entrypoint or self.arguments else ("train",)

    def placed(self) -> list[Placed]:
        """The groups with their hosts; one group where none is asked for."""
        return cluster.place(
            self.instance_groups or [InstanceGroup(cluster.HOMOGENEOUS, self.instance_type, self.hosts)]
        )

    def host_names(self, groups: Sequence[str] = ()) -> list[str]:
        """All hosts, or those of some groups, sorted as the service sorts them."""
        placed = [each for each in self.placed() if not groups or each.group.name in groups]
        return sorted(host for each in placed for host in each.hosts)

    def channels_of(self, host: str) -> list[tuple[Channel, int, int]]:
        """The channels that a host gets; of each, which one of how many hosts it is that share it."""
        shared = [(channel, self.host_names(channel.instance_groups)) for channel in self.channels]
        return [(channel, hosts.index(host), len(hosts)) for channel, hosts in shared if host in hosts]


class LogLine(NamedTuple):
    """One line of a job's log, without its line feed. `stream`: stdout or stderr."""

    host: str
    stream: str
    text: str


@dataclass(frozen=True)
class HostResult:
    """How one host ended. `exit_code` is 128 + N after signal N; `log` holds both its streams, in order of arrival."""

    name: str
    exit_code: int
    out_of_memory: bool
    log: Path


@dataclass(frozen=True, kw_only=True)
class TrainingResult:
    """What DescribeTrainingJob would say, and where the artefacts are.

    `status`: Completed, Failed or Stopped. `stopped_by`: empty, `time limit`, `caller` or `Ctrl-C`. `exit_code` is that
    of the first host that ended with another than 0. `model` and `output` are None where the job left nothing.
    `transitions` are the secondary statuses, the last one final; `final_metric_data_list` has the service's own shape.
    """

    name: str
    status: str
    exit_code: int
    failure_reason: str
    stopped_by: str
    seconds: float
    hosts: tuple[HostResult, ...]
    metrics: tuple[MetricSummary, ...]
    final_metric_data_list: tuple[FinalMetric, ...]
    problems: tuple[MetricProblem, ...]
    model: Path | None
    output: Path | None
    notes: tuple[str, ...]
    transitions: tuple[Transition, ...] = ()


class JobInterrupted(Interrupted):
    """Ctrl-C: the job was stopped as StopTrainingJob does; `result` says what came of it."""

    def __init__(self, result: TrainingResult) -> None:
        super().__init__(f"the job {result.name} was stopped by Ctrl-C")
        self.result = result


def new_name(base: str = "slipway") -> str:
    """A job name that was not used before."""
    now = datetime.datetime.now(datetime.timezone.utc)
    return f"{base}-{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def check(job: TrainingJob) -> None:
    """Hold a job against the limits of the service model. Raises InputError with every fault."""
    faults = list(_faults(job))
    if faults:
        raise InputError("SageMaker would not take this job", faults=faults)


def _faults(job: TrainingJob) -> Iterator[Fault]:
    if job.name and not re.fullmatch(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}", job.name):
        yield Fault(f"job name {job.name!r}", "1 to 63 letters, digits and single dashes between them")
    if job.hosts < 1:
        yield Fault(f"{job.hosts} hosts", "give 1 or more")
    if job.time_limit <= 0:
        yield Fault(f"a time limit of {job.time_limit:g} s", "give 1 or more")
    if job.instance_groups and job.hosts != sum(group.count for group in job.instance_groups):
        yield Fault(f"{job.hosts} hosts, but the instance groups have others", "leave the number of hosts out")
    yield from cluster.faults(job.instance_groups)
    yield from _pool_faults(job)
    yield from _source_faults(job)
    yield from _hyperparameter_faults(job)
    yield from _environment_faults(job)
    yield from _channel_faults(job)
    yield from _metric_faults(job)
    for words, what in ((job.entrypoint, "entry point"), (job.arguments, "arguments")):
        if len(words) > 100 or any(len(word) > 256 for word in words):
            yield Fault(f"the container's {what}", "100 words of 256 characters at most")


def _pool_faults(job: TrainingJob) -> Iterator[Fault]:
    """What goes together, and what a job's spot instances, warm pool and checkpoints may be."""
    if job.spot_interrupt < 0:
        yield Fault(f"a spot interruption after {job.spot_interrupt:g} s", "give more than 0")
    if job.warm_pool is not None and job.spot_interrupt:
        yield Fault("a warm pool of spot instances", "leave the warm pool or the interruption out")
    if job.warm_pool is not None and job.instance_groups:
        yield Fault("a warm pool for a heterogeneous cluster", "leave the warm pool or the instance groups out")
    if job.gpus and job.gpus != "all" and not (job.gpus.isdecimal() and int(job.gpus) > 0):
        yield Fault(f"{job.gpus!r} GPUs", "give a number from 1 on, or all")
    if job.checkpoints.startswith("s3://") and not re.fullmatch(r"s3://[^/]+(/.*)?", job.checkpoints):
        yield Fault(f"the checkpoints' location {job.checkpoints!r} names no bucket", "write s3://BUCKET/PREFIX")
    if not job.checkpoint_path.startswith("/"):
        yield Fault(f"the checkpoints' path {job.checkpoint_path!r} is not absolute", "begin it with /")


def _channel_faults(job: TrainingJob) -> Iterator[Fault]:
    if len(job.channels) > channels.MOST:
        yield Fault(f"{len(job.channels)} channels", f"SageMaker takes {channels.MOST} at most")
    groups = [group.name for group in job.instance_groups]
    for channel in job.channels:
        for name in channel.instance_groups:
            if name not in groups:
                yield Fault(f"channel {channel.name}: the job has no instance group {name!r}", nearest(name, groups))
    names = [channel.name for channel in job.channels]
    for name in sorted(set(names)):
        if names.count(name) > 1:
            yield Fault(f"channel {name!r} is given twice", "keep one")
        if not channels.NAME.fullmatch(name) or name in (".", ".."):
            yield Fault(f"channel name {name!r}", channels.NAME_RULE)


def _metric_faults(job: TrainingJob) -> Iterator[Fault]:
    if len(job.metrics) > metrics.MOST:
        yield Fault(f"{len(job.metrics)} metric definitions", f"SageMaker takes {metrics.MOST} at most")
    for metric in job.metrics:
        for objection in patterns.objections(metric.regex):
            yield Fault(f"metric {metric.name}: {objection.what}", objection.fix)


def _source_faults(job: TrainingJob) -> Iterator[Fault]:
    if job.entry and job.source is None:
        yield Fault(f"the entry {job.entry} has no source folder", "name the folder that holds it")
    if job.source is None:
        return
    if not job.source.is_dir():
        yield Fault("the source folder does not exist", "name a folder", str(job.source))
    elif not job.entry:
        yield Fault("the source folder has no entry", "name the script to run", str(job.source))
    elif not (job.source / job.entry).is_file():
        held = sorted(path.name for path in job.source.iterdir())
        yield Fault(f"there is no {job.entry} in it", f"it holds: {', '.join(held[:10]) or 'nothing'}", str(job.source))


def _hyperparameter_faults(job: TrainingJob) -> Iterator[Fault]:
    if len(job.hyperparameters) > 100:
        yield Fault(f"{len(job.hyperparameters)} hyperparameters", "SageMaker takes 100 at most")
    for key, value in job.hyperparameters.items():
        if not 1 <= len(key) <= 256 or "\n" in key:
            yield Fault(f"hyperparameter {key!r}", "a key has 1 to 256 characters, on one line")
        text = value if job.raw_hyperparameters and isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if len(text) > 2500 or "\n" in text:
            yield Fault(f"hyperparameter {key}: its value has {len(text)} characters", "2500 at most, on one line")


def _environment_faults(job: TrainingJob) -> Iterator[Fault]:
    if len(job.environment) > 100:
        yield Fault(f"{len(job.environment)} environment variables", "SageMaker takes 100 at most")
    for key, value in job.environment.items():
        if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]{0,511}", key):
            yield Fault(
                f"environment variable {key!r}", "letters, digits and _, not starting with a digit; 512 at most"
            )
        if len(value) > 512:
            # The value may be a secret: its length says enough.
            yield Fault(f"environment variable {key}: its value has {len(value)} characters", "512 at most")
