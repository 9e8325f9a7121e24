"""The command smoke."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from slipway.commands.guard import command
from slipway.commands.verify import find_targets
from slipway.errors import Fault, NoDeviceError, NotFoundError, UsageError, VerifyError
from slipway.spec.select import Selector

if TYPE_CHECKING:
    from slipway.console import Console
    from slipway.records import CheckResult, Smoke
    from slipway.settings import Settings
    from slipway.verify.target import Target

DEVICES = ("cpu", "cuda")
STATES = {"skipped": "not run"}
EVERYWHERE = ("framework", "device", "driver", "seconds")  # numbers that every step carries


def smoke(selector: Selector, image: str | None, device: str | None, steps: Sequence[str], json: bool) -> None:
    """Run the smoke steps inside each image and file what they say.

    Raises VerifyError when a step failed; NoDeviceError, with nothing filed, when the GPU is missing that an image or
    `device` asks for.
    """
    from slipway.engine.docker import Engine
    from slipway.records import Records
    from slipway.verify import contract, report
    from slipway.verify.smoke import Smoker

    with command(json) as (settings, console):
        if device is not None and device not in DEVICES:
            raise UsageError(f"--device {device!r} is no device", fix="name cpu or cuda")
        records = Records(settings.state)
        engine = Engine.connect(settings.environment)
        targets = find_targets(selector, image, settings, records, engine)
        contract.steps(settings.project).choose(steps)
        smoker = Smoker(
            project=settings.project, records=records, on_result=lambda result: console.note(report.line(result))
        )
        done: list[Smoke] = []
        missing: list[str] = []
        empty: list[NotFoundError] = []
        for target in targets:
            on = device or target.device
            try:
                with console.fold(f"smoke {target.image} on {on}"):
                    done.append(smoker.smoke(target, on, steps, _locks(target, settings)))
            except NoDeviceError as error:
                # The others may need none.
                console.note(f"{target.image}: NOT RUN on {on}: {error.message}")
                missing.append(f"{target.image}: {error.message}")
            except NotFoundError as error:
                console.note(error.message)
                empty.append(error)
            else:
                _show(console, done[-1])
        if len(empty) == len(targets):
            raise empty[0]
        console.result({"run": [asdict(smoke) for smoke in done], "not_run": missing})
        _judge(done, missing)


def _locks(target: Target, settings: Settings) -> list[Path]:
    """The locks of an image of the matrix; none of any other."""
    from slipway import lock
    from slipway.spec import load

    cell = next((cell for cell in load.load(settings.project).images if cell.id == target.image), None)
    parts = lock.parts(cell) if cell is not None else ()
    return [settings.project / "buildspec" / "locks" / f"{part.name}.txt" for part in parts]


def _show(console: Console, smoke: Smoke) -> None:
    from slipway.verify import report
    from slipway.verify.probing import in_words

    def seen(step: CheckResult) -> str:
        own = {name: value for name, value in step.numbers.items() if name not in EVERYWHERE}
        return report.first_line(step.detail) or in_words(own)

    rows = [
        (step.id, STATES.get(step.status, step.status), step.numbers.get("seconds", 0.0), seen(step))
        for step in smoke.steps
    ]
    console.table(("step", "outcome", "s", "seen"), rows)
    for step in smoke.steps:
        if step.status == "failed":
            console.say(report.failure(step))
    where = f"{smoke.device_name or smoke.device}{f', driver {smoke.driver}' if smoke.driver else ''}"
    outcome = "passed" if smoke.passed else "FAILED"
    counts = report.summary(smoke.steps).replace("skipped", "not run")
    console.say(f"{smoke.image} on {where}: {outcome} ({counts}) in {smoke.seconds:.0f} s")


def _judge(done: Sequence[Smoke], missing: Sequence[str]) -> None:
    failed = [smoke for smoke in done if not smoke.passed]
    if failed:
        faults = [
            Fault(f"{smoke.image}: {', '.join(step.id for step in smoke.steps if step.status == 'failed')}")
            for smoke in failed
        ]
        raise VerifyError("smoke steps failed", faults=faults, fix="see the steps above")
    if missing:
        raise NoDeviceError(
            "not run, and nothing was filed",
            faults=[Fault(one) for one in missing],
            fix="run it on a host with an NVIDIA GPU and the NVIDIA Container Toolkit",
        )
