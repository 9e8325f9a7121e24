"""Command `launch`: a configuration, a script and its arguments, as a job on SageMaker or on this machine."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json as json_module
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from slipway.clients import emit, images, lookup, request
from slipway.clients import launch as launching
from slipway.clients.aws import Aws
from slipway.clients.config_check import Checked
from slipway.clients.follow import Follower, Outcome
from slipway.clients.launch import Prepared
from slipway.commands import clients
from slipway.commands.guard import command
from slipway.commands.run import ending_as_ctrl_c, job_error, number, plain, printer, show
from slipway.console import Console
from slipway.emulator.metrics import MetricDefinition, MetricValue
from slipway.errors import AuthError, InputError, Interrupted, JobError, ServiceError, UsageError
from slipway.records import Records
from slipway.settings import Settings


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The command's options; empty: not given."""

    config: str = ""
    script: str = ""
    argv: tuple[str, ...] = ()
    local: bool = False
    dry_run: bool = False
    detach: bool = False
    wait: str = ""
    emit: str = ""
    output: str = ""
    official: bool = False
    ours: bool = False


_NOT_WITH_WAIT = ("script", "local", "dry_run", "detach", "emit", "output", "official", "ours")


def launch(json: bool, options: Options) -> None:
    with command(json) as (settings, console):
        _refuse_contradictions(options)
        if options.wait:
            _wait(options, settings, console)
            return
        checked = clients.checked(Path(options.config), settings, console, local=options.local)
        _refuse_without_effect(options, checked)
        prepared = _prepare(checked, options, settings, console)
        now = datetime.datetime.now(datetime.timezone.utc)
        name = request.new_name(str(prepared.given.get("base_job_name") or "job"), now)
        if options.emit:
            _emit(options.emit, prepared, name, checked, console)
        elif options.local or checked.config.local:
            _here(prepared, name, options, settings, console)
        elif options.dry_run:
            _show_request(prepared, name, checked, console)
        else:
            _on_sagemaker(prepared, name, options, checked, console)


def remainder(context_remainder: str) -> tuple[str, ...]:
    """The words behind `--` as they were typed: invoke joins them with blanks, which loses where they end."""
    words = sys.argv[sys.argv.index("--") + 1 :] if "--" in sys.argv else []
    return tuple(words) if " ".join(words) == context_remainder else tuple(shlex.split(context_remainder))


def _refuse_contradictions(options: Options) -> None:
    if options.wait:
        given = [name for name in _NOT_WITH_WAIT if getattr(options, name)]
        if given or options.argv:
            other = _flag(given[0]) if given else "words behind `--`"
            raise UsageError(f"--wait follows a job that runs: it goes without {other}", fix="leave it out")
        return
    if not options.config or not options.script:
        raise UsageError("name a configuration and a script", fix="invoke launch CONFIG SCRIPT -- ARGUMENTS")
    ways = [name for name in ("dry_run", "detach", "emit") if getattr(options, name)]
    if len(ways) > 1:
        raise UsageError(f"{_flag(ways[0])} goes without {_flag(ways[1])}", fix="leave one of them out")
    if options.emit and options.emit not in emit.FORMS:
        raise UsageError(f"--emit {options.emit} is not known", fix="known: " + ", ".join(emit.FORMS))
    if options.emit and options.local:
        raise UsageError("--emit goes without --local: what it prints starts a job on SageMaker", fix="leave it out")
    _refuse_without_place(options, options.local, sure=False)


def _refuse_without_effect(options: Options, checked: Checked) -> None:
    """Refuse what the configuration leaves no meaning."""
    _refuse_without_place(options, options.local or checked.config.local, sure=True)
    if options.official and (checked.config.additional_args.get("image_uri") or checked.config.image_uri):
        raise UsageError(
            "--official goes without image_uri, which the configuration names",
            fix="leave out --official, or remove image_uri",
        )


def _refuse_without_place(options: Options, here: bool, *, sure: bool) -> None:
    """Refuse what one place has not. Not `sure`: the configuration may still name this machine."""
    if here and options.detach:
        raise UsageError("a job on this machine cannot be left alone", fix="leave out --detach")
    if options.output and (options.emit or (sure and not here)):
        raise UsageError(
            "--output is the folder of a job on this machine: it goes with --local alone",
            fix="leave it out; on SageMaker results go to additional_args: output_path",
        )


def _flag(name: str) -> str:
    return name if name == "script" else "--" + name.replace("_", "-")


def _prepare(checked: Checked, options: Options, settings: Settings, console: Console) -> Prepared:
    prepared = launching.prepare(
        checked,
        Path(options.script),
        options.argv,
        pushes=lookup.known(settings),
        labels=clients.labels(settings),
        home=Path(settings.environment.get("HOME", "/nonexistent")),
        take_official=options.official,
        ours=options.ours,
    )
    for note in prepared.notes:
        console.note(note)
    if checked.image is None:  # the check could not look at an image that was chosen only now
        for _, what, fix in images.warnings(prepared.image, checked.config, prepared.instance_type):
            console.warn(f"{what} (fix: {fix})" if fix else what)
    return prepared


def _here(prepared: Prepared, name: str, options: Options, settings: Settings, console: Console) -> None:
    from slipway.emulator.job import JobInterrupted
    from slipway.emulator.training import run_training
    from slipway.engine.docker import Engine

    records = Records(settings.state)
    output = Path(options.output) if options.output else settings.state / "jobs" / name
    reference = launching.reference_here(prepared.image.reference, lookup.known(settings), records.builds())
    job, notes = launching.on_this_machine(prepared, name, reference, output)
    for note in notes:
        console.warn(note)
    if options.dry_run:
        described = {**dataclasses.asdict(job), "source": str(job.source)}
        console.say(json_module.dumps(described, indent=2, ensure_ascii=False, default=str))
        console.result(described)
        return
    engine = Engine.connect(settings.environment)
    with ending_as_ctrl_c(), _laid_out(prepared) as folder:
        try:
            result = run_training(
                dataclasses.replace(job, source=folder),
                engine,
                output,
                on_line=printer(console, job.hosts),
                on_metric=_metric_printer(console),
                s3_endpoint=settings.aws_endpoint("s3"),
            )
        except JobInterrupted as stopped:
            show(stopped.result, console)
            raise
        show(result, console)
        if result.status != "Completed":
            raise job_error(result)


@contextlib.contextmanager
def _laid_out(prepared: Prepared) -> Iterator[Path]:
    """The script's folder, with dependencies beside the script if there are any."""
    assert prepared.source is not None
    if not prepared.source.dependencies:
        yield prepared.source.folder
        return
    with tempfile.TemporaryDirectory(prefix="slipway-source-") as folder:
        prepared.source.copy(Path(folder))
        yield Path(folder)


def _show_request(prepared: Prepared, name: str, checked: Checked, console: Console) -> None:
    """The request as JSON. Without AWS at hand account and role are guessed, and it says so."""
    try:
        launch = launching.on_sagemaker(prepared, name, _aws(checked))
    except (AuthError, ServiceError) as error:
        console.warn(f"{error.message}; the account is guessed: {launching.guessed_account(prepared)}")
        launch = launching.on_sagemaker(prepared, name, None)
    asked = request.create(launch)
    console.say(json_module.dumps(asked, indent=2, ensure_ascii=False))
    console.result(asked)


def _emit(form: str, prepared: Prepared, name: str, checked: Checked, console: Console) -> None:
    try:
        launch = launching.on_sagemaker(prepared, name, _aws(checked) if form == "boto3" else None)
    except (AuthError, ServiceError):
        launch = launching.on_sagemaker(prepared, name, None)
    snippet = emit.snippet(form, prepared, request.create(launch))
    console.say(snippet.rstrip("\n"))
    console.result({"form": form, "text": snippet})


def _on_sagemaker(prepared: Prepared, name: str, options: Options, checked: Checked, console: Console) -> None:
    aws = _aws(checked)
    launch = launching.on_sagemaker(prepared, name, aws)
    arn, size = launching.start(prepared, launch, aws)
    if size:
        console.note(f"uploaded {size / 1e6:.1f} MB to {launch.source}")
    console.note(f"started {name} ({arn})")
    console.note(f"to follow it again: {_again(aws, name, options.config)}")
    if options.detach:
        console.say(name)
        console.result({"name": name, "arn": arn, "status": "InProgress"})
        return
    _follow(aws, name, options.config, console, checked.metrics.definitions)


def _wait(options: Options, settings: Settings, console: Console) -> None:
    environment = settings.environment
    if options.config:
        aws = _aws(clients.checked(Path(options.config), settings, console))
    else:
        region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
        if not region:
            raise UsageError("in which region does it run?", fix="give --config FILE, or set AWS_REGION")
        aws = Aws(region)
    _follow(aws, options.wait, options.config, console, None)


def _again(aws: Aws, name: str, config: str) -> str:
    """The command that follows a job, from this folder. Without a configuration the environment says where it runs."""
    if config:
        return f"invoke launch --wait {name} --config {shlex.quote(config)}"
    return f"AWS_REGION={aws.region} invoke launch --wait {name}"


def _follow(aws: Aws, name: str, config: str, console: Console, metrics: Sequence[MetricDefinition] | None) -> None:
    follower = Follower(
        aws,
        name,
        on_line=lambda host, line: console.note(f"[{host}] {line}"),
        on_metric=_metric_printer(console),
        on_status=lambda status: console.note(f"{name}: {status}"),
        pause=time.sleep,
        metrics=metrics,
    )
    try:
        outcome = follower.follow()
    except KeyboardInterrupt:
        profile = f" --profile {shlex.quote(aws.profile)}" if aws.profile else ""
        stop = f"aws sagemaker stop-training-job --training-job-name {name} --region {aws.region}{profile}"
        raise Interrupted(
            f"no longer following {name}, which goes on",
            fix=f"follow it: {_again(aws, name, config)}; stop it: {stop}",
        ) from None
    _tell(outcome, console)
    if not outcome.completed:
        raise JobError(
            f"the job {name} ended as {outcome.status}: {outcome.failure_reason or 'no reason is given'}",
            fix="see the log above",
        )


def _tell(outcome: Outcome, console: Console) -> None:
    for problem in outcome.problems:
        console.warn(str(problem))
    rows = [
        (each.name, *(number(value) for value in (each.last, each.min, each.max)), each.count)
        for each in outcome.metrics
    ]
    if rows:
        console.table(("metric", "last", "min", "max", "count"), rows)
    took = f" after {outcome.seconds:.0f} s" if outcome.seconds is not None else ""
    billed = f", {outcome.billable:.0f} s billed" if outcome.billable is not None else ""
    console.say(f"{outcome.name}: {outcome.status}{took}{billed}")
    console.say(f"model: {outcome.model or 'none'}")
    console.result(plain(dataclasses.asdict(outcome)))


def _metric_printer(console: Console) -> Any:
    def tell(value: MetricValue) -> None:
        console.note(f"metric {value.name} = {value.value:g}")

    return tell


def _aws(checked: Checked) -> Aws:
    config = checked.config
    if config.local:
        raise InputError(f"{config.ec2_instance_type} is this machine", fix="launch with --local")
    return Aws(config.region, config.profile or "")
