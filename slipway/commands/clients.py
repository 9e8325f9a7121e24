"""Commands for those who use images: config, metrics, launch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipway.clients import accelerate, config_check, images, lookup, questions
from slipway.clients.accelerate import Config
from slipway.clients.config_check import Checked
from slipway.commands.guard import command
from slipway.console import Console
from slipway.errors import Fault, InputError, NotFoundError, UsageError

if TYPE_CHECKING:
    from slipway.clients.images import Facts, Labels
    from slipway.emulator.meter import Meter
    from slipway.settings import Settings

DEFAULT_FILE = "sagemaker.yaml"


def config(json: bool, check: str, answers: str, output: str, force: bool, flags: Mapping[str, str | None]) -> None:
    """Write a configuration, or with `check` examine one."""
    with command(json) as (settings, console):
        if check:
            _refuse_with("check", answers=answers, **flags)
            if output:
                _mend(Path(check), _target(output, force), console)
            _check(Path(output or check), settings, console)
            return
        target = _target(output or DEFAULT_FILE, force)
        known = _known(answers, flags)
        if not answers and not any(value is not None for value in flags.values()):
            known = questions.ask(console.ask, console.note, known)
        _write(questions.config(known), target, settings, console)


def checked(path: Path, settings: Settings, console: Console, *, local: bool = False) -> Checked:
    """A configuration without fault, its warnings told. Raises InputError with the faults of all its files."""
    found = config_check.check(path, local=local, facts=_facts(settings), profiles=_profiles())
    for warning in found.warnings:
        console.warn(str(warning))
    found.require()
    return found


def _check(path: Path, settings: Settings, console: Console) -> None:
    found = checked(path, settings, console)
    oldest, newest = accelerate.read_by(found.config)
    console.say(f"{path}: no faults; accelerate {oldest} to {newest} can launch it as well")
    console.result(
        {
            "file": str(path),
            "faults": [],
            "warnings": [asdict(warning) for warning in found.warnings],
            "accelerate": {"oldest": oldest, "newest": newest},
        }
    )


def _target(output: str, force: bool) -> Path:
    target = Path(output)
    if target.exists() and not force:
        raise UsageError(f"{target} exists", fix="give another --output, or --force to write it anew")
    return target


def _mend(path: Path, target: Path, console: Console) -> None:
    """Write a configuration anew without the faults that have one remedy only."""
    from slipway.clients import mending
    from slipway.files import write_whole

    content, done = mending.mend(target, accelerate.read(path).document.data)
    write_whole(target, content)
    for each in done:
        console.note(f"mended: {each}")
    console.note(f"wrote {target}")


def _write(made: Config, target: Path, settings: Settings, console: Console) -> None:
    """Check a configuration and write it. A TSV file that is not there yet is no reason not to."""
    from slipway.files import write_whole

    content = accelerate.text(made, target.suffix)
    found = config_check.check(target, text=content, facts=_facts(settings), profiles=_profiles())
    later = [fault for fault in found.faults if "does not exist" in fault.what and "_file:" in fault.what]
    faults = [fault for fault in found.faults if fault not in later]
    if faults:
        raise InputError(f"{target} was not written: it would have faults", faults=faults)
    write_whole(target, content)
    for warning in (*found.warnings, *later):
        console.warn(str(warning))
    if made.image_uri is None:
        console.note(_would_choose(made, settings))
    console.say(f"wrote {target}; check it at any time with `invoke config --check {target}`")
    console.result({"file": str(target), "warnings": [asdict(warning) for warning in (*found.warnings, *later)]})


def _known(answers: str, flags: Mapping[str, str | None]) -> dict[str, Any]:
    """What a file of answers and the flags say, the flags on top. Raises InputError with every fault of both."""
    known: dict[str, Any] = {}
    faults: list[Fault] = []
    if answers:
        file = accelerate.read(Path(answers))
        given = asdict(file.config)
        known = {name: given[name] for name in file.config.given}
        faults += [fault for fault in file.faults if not fault.what.endswith(" is missing")]
    for name, text in flags.items():
        if text is None:
            continue
        try:
            known[name] = accelerate.from_text(name, text)
        except InputError as error:
            faults.append(Fault(f"--{name.replace('_', '-')} {error.message.partition(': ')[2]}", error.fix))
    known = {name: value for name, value in known.items() if value is not None}
    if answers or any(value is not None for value in flags.values()):
        known.setdefault("distributed_type", "NO")
        faults += [
            Fault(f"{key.name} is not given", f"give --{key.name.replace('_', '-')}: {key.about}")
            for key in accelerate.KEYS
            if key.required and key.name not in known and key.name != "compute_environment"
        ]
    if faults:
        raise InputError("the answers have faults; nothing was written", faults=faults)
    return known


def _refuse_with(option: str, **others: str | None) -> None:
    given = [name for name, value in others.items() if value]
    if given:
        raise UsageError(f"--{option} goes without --{given[0].replace('_', '-')}", fix="leave one of them out")


def _would_choose(config: Config, settings: Settings) -> str:
    try:
        return f"image_uri is empty; today it means {images.newest(config, lookup.known(settings)).uri}"
    except NotFoundError as error:
        return f"image_uri is empty, and nothing fits yet: {error.message}"


def _facts(settings: Settings) -> Any:
    pushes, look_at = lookup.known(settings), labels(settings)

    def look(reference: str) -> Facts:
        return images.facts(reference, pushes, look_at)

    return look


def labels(settings: Settings) -> Labels:
    """Labels of images that the engine has; an engine that does not answer has none."""
    from slipway.errors import EngineError, SlipwayError

    def look(reference: str) -> Mapping[str, str] | None:
        from slipway.engine.docker import Engine

        try:
            return dict(Engine.connect(settings.environment).image(reference)["Config"].get("Labels") or {})
        except (EngineError, NotFoundError, SlipwayError):
            return None

    return look


def _profiles() -> list[str]:
    import boto3

    return boto3.session.Session().available_profiles


def metrics(json: bool, definitions: str, log: str) -> None:
    """Show what each definition of a metrics file would read from a log."""
    from slipway.commands.run import number, plain
    from slipway.emulator import metrics as reading
    from slipway.emulator.meter import Meter

    with command(json) as (_, console):
        if not definitions:
            raise UsageError("no metrics file was named", fix="invoke metrics --try metrics.tsv LOGFILE")
        found = reading.read(Path(definitions))
        for warning in found.warnings:
            console.warn(str(warning))
        firsts: dict[str, str] = {}

        def keep(value: reading.MetricValue) -> None:
            firsts.setdefault(value.name, value.line)

        meter = Meter(found.definitions, keep)
        _feed(meter, Path(log))
        for problem in meter.problems():
            console.warn(str(problem))
        rows = [
            (
                each.name,
                each.count,
                *(number(value) for value in (each.last, each.min, each.max)),
                _short(firsts, each.name),
            )
            for each in meter.summaries()
        ]
        console.table(("metric", "count", "last", "min", "max", "first line"), rows)
        told = [{**asdict(each), "first_line": firsts.get(each.name, "")} for each in meter.summaries()]
        console.result(plain({"metrics": told, "problems": [asdict(problem) for problem in meter.problems()]}))


def _feed(meter: Meter, log: Path) -> None:
    """Hand a log over in blocks of whole lines, as a job's output is."""
    try:
        with log.open("rb") as stream:
            while lines := stream.readlines(1 << 20):
                meter.feed(b"".join(lines).decode("utf-8", "replace").replace("\r\n", "\n"))
    except OSError as error:
        raise InputError(f"{log} cannot be read: {error.strerror}", fix="name a job's log") from None


def _short(firsts: Mapping[str, str], name: str) -> str:
    line = firsts.get(name, "-").strip()
    return line if len(line) <= 70 else line[:69] + "…"
