"""From an error to an exit code: what every task of tasks.py runs inside."""

from __future__ import annotations

import contextlib
import errno
import signal
import threading
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
        with _ended_like_ctrl_c():
            yield settings, console
    except SlipwayError as error:
        console.error(error)
        raise Exit(code=error.exit_code) from None
    except KeyboardInterrupt:
        console.error(Interrupted("stopped"))
        raise Exit(code=Interrupted.exit_code) from None
    except OSError as error:
        told = _from_system(error)
        console.error(told)
        raise Exit(code=told.exit_code) from None


def _from_system(error: OSError) -> SlipwayError:
    """What the system refused: a full disk, a folder without write permission and the like."""
    where = error.filename or "a temporary folder"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskError(f"no space left on the disk of {where}", fix="free space")
    return SlipwayError(f"{where}: {error.strerror or error}", fix="see that this user may read and write it")


@contextlib.contextmanager
def _ended_like_ctrl_c() -> Iterator[None]:
    """Let SIGTERM and SIGHUP, which CI systems and closed terminals send, end a command as Ctrl-C does: cleared up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # One that someone ignores (nohup) or handles already stays as it is.
    numbers = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)
