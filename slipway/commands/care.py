"""Commands that look after the workshop rather than an image: exit codes, doctor, clean."""

from __future__ import annotations

from slipway import errors
from slipway.commands.guard import command


def exit_codes(json: bool) -> None:
    with command(json) as (_, console):
        rows = errors.exit_codes()
        console.table(("code", "error", "meaning"), rows)
        console.result([{"code": code, "error": name, "meaning": meaning} for code, name, meaning in rows])
