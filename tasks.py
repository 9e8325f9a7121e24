"""The front door: `invoke --list`. Each task names a command's options and hands them on; no logic lives here."""

from __future__ import annotations

from invoke.context import Context
from invoke.tasks import task


@task(help={"json": "print one JSON document"})
def exit_codes(c: Context, json: bool = False) -> None:
    """Show what each exit code means."""
    from slipway.commands import care

    care.exit_codes(json)
