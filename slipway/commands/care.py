"""Commands that look after the workshop rather than an image: exit codes, doctor, clean."""

from __future__ import annotations

from slipway import errors
from slipway.commands.guard import command


def exit_codes(json: bool) -> None:
    with command(json) as (_, console):
        rows = errors.exit_codes()
        console.table(("code", "error", "meaning"), rows)
        console.result([{"code": code, "error": name, "meaning": meaning} for code, name, meaning in rows])


def doctor(json: bool) -> None:
    with command(json) as (settings, console):
        from dataclasses import asdict

        from invoke.exceptions import Exit

        from slipway import doctor as examination
        from slipway.release import checkup

        findings = [*examination.examine(settings), *checkup.examine(settings)]
        for finding in findings:
            told = finding.told.replace("\n", "\n" + " " * 24)
            console.say(f"{finding.status:7} {finding.check:15} {told}")
            if finding.fix:
                console.say(f"{'':24}next: {finding.fix}")
        code = examination.exit_code(findings)
        console.result({"ok": code == 0, "checks": [asdict(finding) for finding in findings]})
        if code:
            raise Exit(code=code)


def clean(cache: bool, everything: bool, dry_run: bool, json: bool) -> None:
    with command(json) as (settings, console):
        from slipway import clean as cleaning
        from slipway.engine.docker import Engine

        found = cleaning.of_state(settings) if everything else []
        trouble: errors.EngineError | None = None
        try:
            found = cleaning.of_engine(Engine.connect(settings.environment), settings, cache=cache) + found
        except errors.EngineError as error:
            trouble = error
        rows = []
        for leftover in found:
            stays = "" if dry_run else leftover.remove()
            outcome = "would go" if dry_run else f"stays: {stays}" if stays else "gone"
            megabytes = None if leftover.size is None else round(leftover.size / 1e6, 1)
            rows.append((leftover.kind, leftover.name, megabytes, outcome))
        console.table(("kind", "name", "MB", "outcome"), rows)
        total = sum(size or 0 for _, _, size, outcome in rows if not outcome.startswith("stays"))
        console.say(f"{total:.0f} MB at most (images share layers)" if rows else "nothing to clear away")
        names = ("kind", "name", "megabytes", "outcome")
        console.result({"dry_run": dry_run, "cleared": [dict(zip(names, row, strict=True)) for row in rows]})
        if trouble is not None:
            raise trouble
