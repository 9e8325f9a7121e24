"""Commands that prove images: verify, checks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from slipway.commands.guard import command
from slipway.errors import Fault, NotFoundError, UsageError, VerifyError
from slipway.spec.select import Selector

if TYPE_CHECKING:
    from slipway.engine.docker import Engine
    from slipway.records import Records, Verdict
    from slipway.settings import Settings
    from slipway.verify.target import Target


def verify(
    selector: Selector,
    image: str | None,
    checks: Sequence[str],
    force: bool,
    junit: str | None,
    html: str | None,
    json: bool,
    **flags: str | None,
) -> None:
    """Run the contract's checks over each image and file the verdicts. Raises VerifyError unless all passed."""
    from slipway.engine.docker import Engine
    from slipway.files import write_whole
    from slipway.records import Records
    from slipway.verify import contract, page, report
    from slipway.verify.runner import Verifier

    with command(json, **flags) as (settings, console):
        for option, file in (("--junit", junit), ("--html", html)):
            if file and Path(file).is_dir():
                raise UsageError(f"{option} {file} is a folder", fix="name a file in it")
        records = Records(settings.state)
        engine = Engine.connect(settings.environment)
        targets = find_targets(selector, image, settings, records, engine)
        contracts = {kind: contract.load(settings.project, kind) for kind in {target.kind for target in targets}}
        for known in contracts.values():
            known.choose(checks)
        verifier = Verifier(
            project=settings.project, records=records, on_result=lambda result: console.note(report.line(result))
        )
        done: list[tuple[Verdict, bool]] = []
        for target in targets:
            with console.fold(f"verify {target.image}"):
                verdict, run_now = verifier.verify(target, checks, force=force)
            done.append((verdict, run_now))
            if not run_now:
                console.note(
                    f"{verdict.image} has the verdict of {verdict.at}; not run again (--force runs the checks)"
                )
            report.show(console, verdict, contracts[target.kind])
        if junit:
            write_whole(Path(junit), report.junit([verdict for verdict, _ in done]))
        if html:
            held_to = [contracts[target.kind] for target in targets]
            write_whole(Path(html), page.html([*zip([verdict for verdict, _ in done], held_to, strict=True)]))
        console.result([report.document(verdict, run_now=run_now) for verdict, run_now in done])
        _judge([verdict for verdict, _ in done])


def checks(kind: str | None, markdown: bool, json: bool) -> None:
    """Show the register of checks."""
    from dataclasses import asdict

    from slipway.verify import contract, report

    with command(json) as (settings, console):
        kinds = contract.kinds(settings.project) if kind is None else [kind]
        found = [contract.load(settings.project, kind) for kind in kinds]
        console.result([{"kind": one.kind, **asdict(check)} for one in found for check in one.own])
        if markdown:
            console.say(report.register(found).rstrip("\n"))
            return
        for one in found:
            rows = [(check.id, check.severity, check.reason) for check in one.own]
            beside = f", beside those of any {one.extends}" if one.extends else ""
            console.table(("check", "severity", "reason"), rows, title=f"{one.kind}{beside}")


def find_targets(
    selector: Selector, image: str | None, settings: Settings, records: Records, engine: Engine
) -> list[Target]:
    """The images that selectors or a reference name.

    Raises one error that tells of every selected image that is not there.
    """
    from slipway.spec import load
    from slipway.spec.select import select
    from slipway.verify import target

    if image is not None:
        if selector.given or selector.everything:
            raise UsageError("--image stands alone", fix="leave the selectors out")
        if not image.strip():
            raise UsageError("--image names no image", fix="give a reference such as repository:tag")
        return [target.of_reference(image, engine, records)]

    def find(id: str) -> Target | NotFoundError:
        try:
            return target.of_build(records.build_of(id), engine)
        except NotFoundError as error:
            return error

    looked_up = [find(cell.id) for cell in select(load.load(settings.project, settings.own), selector)]
    missing = [error for error in looked_up if isinstance(error, NotFoundError)]
    if len(missing) == 1:
        raise missing[0]
    if missing:
        faults = [Fault(error.message, error.fix) for error in missing]
        raise NotFoundError(f"{len(missing)} of the images are not there; nothing was run", faults=faults)
    return [found for found in looked_up if not isinstance(found, NotFoundError)]


def _judge(verdicts: Sequence[Verdict]) -> None:
    """Raise VerifyError when an image did not pass."""
    from slipway.verify import report

    failed = [verdict for verdict in verdicts if not verdict.passed]
    if failed:
        faults = [Fault(f"{verdict.image}: {report.reproach(verdict)}") for verdict in failed]
        of = f"{len(failed)} of {len(verdicts)} images" if len(verdicts) > 1 else failed[0].image
        raise VerifyError(f"{of} did not pass", faults=faults, fix="mend what the failed checks name, and build again")
