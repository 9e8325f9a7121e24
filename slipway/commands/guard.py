"""From an error to an exit code: what every task of tasks.py runs inside."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from slipway import settings as settings_module
from slipway.console import Console
from slipway.errors import DiskError, Interrupted, SlipwayError
from slipway.settings import Settings


@contextlib.contextmanager
def command(json: bool = False, **flags: str | None) -> Iterator[tuple[Settings, Console]]:
    """Read the settings, open the console, and end with the error's own code, without a traceback.

    `flags` are settings given on the command line, by name with `_` for `-`; None means not given.
    """
    from invoke.exceptions import Exit

    console = Console(machine=json)
    try:
        given = {name.replace("_", "-"): value for name, value in flags.items()}
        settings = settings_module.read(given)
        console.in_ci, console.github = settings.in_ci, settings.in_github_actions
        yield settings, console
    except SlipwayError as error:
        console.error(error)
        raise Exit(code=error.exit_code) from None
    except KeyboardInterrupt:
        console.error(Interrupted("stopped"))
        raise Exit(code=Interrupted.exit_code) from None
    except OSError as error:
        import errno

        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        full = DiskError(f"no space left on the disk of {error.filename or 'a temporary folder'}", fix="free space")
        console.error(full)
        raise Exit(code=full.exit_code) from None
