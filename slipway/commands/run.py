"""Command `run`: a training job on this machine, as SageMaker would run it."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import math
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from slipway.commands import plot, resources
from slipway.commands.guard import command
from slipway.commands.reading import Reading
from slipway.console import Console
from slipway.emulator import channels, hyperparameters, metrics
from slipway.emulator.cluster import InstanceGroup
from slipway.emulator.job import JobInterrupted, LogLine, TrainingJob, TrainingResult, new_name
from slipway.emulator.metrics import MetricValue
from slipway.emulator.training import run_training
from slipway.engine.docker import Engine, Ulimit
from slipway.errors import Fault, InputError, JobError, NotFoundError, nearest
from slipway.records import Records
from slipway.settings import Settings


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The command's options as text; empty: not given."""

    image: str
    source: str = ""
    entry: str = ""
    inputs: str = ""
    metrics: str = ""
    hyperparameters: str = ""
    env: tuple[str, ...] = ()
    output: str = ""
    time_limit: str = "86400"
    hosts: str = "1"
    instance_groups: str = ""
    checkpoints: str = ""
    spot_interrupt: str = ""
    warm_pool: str = ""
    gpus: str = ""
    shm_size: str = ""
    ulimit: tuple[str, ...] = ()
    plot: str = ""


def run(json: bool, options: Options) -> None:
    with command(json) as (settings, console), ending_as_ctrl_c():
        curves = plot.Curves(Path(options.plot)) if options.plot else None
        job = _job(options, settings, console)
        engine = Engine.connect(settings.environment)
        job = dataclasses.replace(job, image=reference_of(options.image, Records(settings.state), engine))
        output = Path(options.output) if options.output else settings.state / "jobs" / job.name
        try:
            result = run_training(
                job,
                engine,
                output,
                on_line=printer(console, job.hosts),
                on_metric=_teller(console, curves),
                s3_endpoint=settings.aws_endpoint("s3"),
            )
        except JobInterrupted as stopped:
            show(stopped.result, console)
            _draw(curves, console)
            raise
        show(result, console)
        _draw(curves, console)
        if result.status != "Completed":
            raise job_error(result)


def _job(options: Options, settings: Settings, console: Console) -> TrainingJob:
    """The job that the options describe. Raises InputError with the faults of all its files."""
    reading = Reading()
    attempt = reading.take
    inputs = channels.Channels((), ())
    if options.inputs:
        inputs = attempt(lambda: channels.read(Path(options.inputs)), inputs)
    defined = metrics.Metrics((), ())
    if options.metrics:
        defined = attempt(lambda: metrics.read(Path(options.metrics)), defined)
    values: dict[str, Any] = attempt(lambda: hyperparameters.parse(options.hyperparameters), {})
    environment: dict[str, str] = attempt(lambda: environment_of(options.env, settings.environment), {})
    hosts = attempt(lambda: whole("hosts", options.hosts), 0)
    time_limit = attempt(lambda: whole("time-limit", options.time_limit), 0)
    spot_interrupt = attempt(lambda: whole("spot-interrupt", options.spot_interrupt or "0"), 0)
    groups: tuple[InstanceGroup, ...] = attempt(lambda: resources.instance_groups(options.instance_groups), ())
    shm_bytes = attempt(lambda: resources.size(options.shm_size or "2g"), 0)
    ulimits: tuple[Ulimit, ...] = attempt(lambda: resources.ulimits(options.ulimit), ())
    pool = attempt(lambda: resources.pool(options.warm_pool), "")
    if groups and options.hosts != Options.hosts:
        reading.faults.append(Fault("--hosts beside --instance-groups", "the groups say how many there are"))
    reading.close("the job's inputs have faults")
    for warning in (*inputs.warnings, *defined.warnings):
        console.warn(str(warning))
    return TrainingJob(
        image=options.image,
        name=new_name(),
        hyperparameters=values,
        channels=inputs.channels,
        metrics=defined.definitions,
        environment=environment,
        source=Path(options.source) if options.source else None,
        entry=options.entry,
        hosts=sum(group.count for group in groups) or hosts,
        instance_type="local_gpu" if options.gpus else "local",
        instance_groups=groups,
        region=region_of(settings),
        time_limit=time_limit,
        checkpoints=options.checkpoints,
        spot_interrupt=spot_interrupt,
        warm_pool=settings.state / "warm-pools" / pool if pool else None,
        gpus=options.gpus,
        shm_bytes=shm_bytes,
        ulimits=ulimits,
    )


def region_of(settings: Settings) -> str:
    """The region that a container here is told to be in."""
    return settings.environment.get("AWS_REGION") or settings.environment.get("AWS_DEFAULT_REGION") or "us-east-1"


def whole(name: str, text: str) -> int:
    if not text.isdecimal():
        raise InputError(f"--{name} takes a whole number, not {text!r}", fix="write digits alone")
    return int(text)


def environment_of(given: Sequence[str], own: Mapping[str, str]) -> dict[str, str]:
    """NAME=VALUE as it is; NAME alone from this process's environment, so that a secret stays off the command line."""
    values: dict[str, str] = {}
    faults = []
    for item in given:
        name, equals, value = item.partition("=")
        if not equals and name not in own:
            faults.append(Fault(f"--env {name} has no value, and is not set here", f"write {name}=VALUE"))
        if name in values:
            faults.append(Fault(f"--env {name} is given twice", "keep one"))
        values[name] = value if equals else own.get(name, "")
    if faults:
        raise InputError("--env has faults", faults=faults)
    return values


def reference_of(image: str, records: Records, engine: Engine) -> str:
    """The engine's name of an image that was built here by its ID, else of any image of the engine."""
    built = {build.image for build in records.builds()}
    reference = records.build_of(image).reference if image in built else image
    try:
        engine.image(reference)
    except NotFoundError as error:
        if not built or reference != image:
            raise
        raise NotFoundError(error.message, fix=f"{error.fix}; {nearest(image, built)}") from None
    return reference


def printer(console: Console, hosts: int) -> Callable[[LogLine], None]:
    """Log lines are progress, not the answer, and go where progress goes."""
    if hosts == 1:
        return lambda line: console.note(line.text)
    return lambda line: console.note(f"[{line.host}] {line.text}")


def _teller(console: Console, curves: plot.Curves | None) -> Callable[[MetricValue], None]:
    """Values are shown as they come, and kept where they are to be drawn."""

    def tell(value: MetricValue) -> None:
        console.note(f"metric {value.name} = {value.value:g}")
        if curves is not None:
            curves.add(value.name, value.value)

    return tell


def _draw(curves: plot.Curves | None, console: Console) -> None:
    if curves is not None:
        console.say(f"plot: {curves.draw() or 'none, as no metric had a value'}")


def show(result: TrainingResult, console: Console) -> None:
    for problem in result.problems:
        console.warn(str(problem))
    for note in result.notes:
        console.warn(note)
    rows = [
        (each.name, *(number(value) for value in (each.last, each.min, each.max)), each.count)
        for each in result.metrics
    ]
    if rows:
        console.table(("metric", "last", "min", "max", "steps"), rows)
    if any(transition.status == "Interrupted" for transition in result.transitions):
        console.say("status: " + ", ".join(f"{each.status} {each.seconds:.1f} s" for each in result.transitions))
    console.say(f"{result.name}: {result.status} after {result.seconds:.1f} s")
    for what, path in (
        ("model", result.model),
        ("output", result.output),
        *(("log", host.log) for host in result.hosts),
    ):
        console.say(f"{what}: {path if path is not None else 'none'}")
    console.result(plain(dataclasses.asdict(result)))


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"


def plain(value: Any) -> Any:
    """JSON has no number that is not finite, and no time."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def job_error(result: TrainingResult) -> JobError:
    logs = ", ".join(str(host.log) for host in result.hosts)
    if result.status == "Stopped":
        return JobError(
            f"the job {result.name} was stopped: {result.stopped_by}", fix=f"give it a longer --time-limit; log: {logs}"
        )
    return JobError(
        f"the job {result.name} failed with exit code {result.exit_code}: {result.failure_reason}", fix=f"see {logs}"
    )


@contextlib.contextmanager
def ending_as_ctrl_c() -> Iterator[None]:
    """SIGTERM, as CI systems send it, and SIGHUP of a closed terminal stop the job just as Ctrl-C does."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    former = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
