"""Runs a script on every host of a run whose end is the end of the first host's script.

For launchers without a program of their own that would see to it: parameter servers, and strategies whose hosts find
each other. What runs beside the scripts (servers) is needed until the first host is through, and a host that fails or
vanishes would leave the others waiting.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Callable, Sequence, TypeVar

from sagemaker_training import errors, masking, process, settings
from sagemaker_training.logs import logger
from sagemaker_training.mpi_link import Link

Result = TypeVar("Result")

_CAUSE_LENGTH = 400
_NEWS_SECONDS = 3.0


def run_together(hosts: Sequence[str], current: str, script: Callable[[], Result]) -> Result:
    """Runs this host's script and, on every host but the first, waits for the end of the first host's.

    hosts: all hosts of the run, the first one leads. Returns what the script returns. Raises what it raises;
    ExecuteUserScriptError that names the host where another host failed or was lost.
    """
    if len(hosts) < 2:
        return script()
    link = Link(hosts, current)
    link.on_loss(_end_script)
    link.start()
    try:
        result = _run(link, script)
        if current != hosts[0]:
            _wait_for_leader(link, hosts[0])
    except errors.ClientError as error:
        code = getattr(error, "return_code", None) or 1
        link.leave(process.exit_code(code), masking.text(str(error).split("\n", 1)[0])[:_CAUSE_LENGTH])
        raise
    except process.Stopped as stop:
        link.leave(128 + stop.signum)
        raise
    link.leave(0)
    return result


def _run(link: Link, script: Callable[[], Result]) -> Result:
    """The script. Where another host was lost, that is why it ended, whatever else it says."""
    try:
        result = script()
    except errors.ExecuteUserScriptError as error:
        lost = link.wait(0 if "Traceback" in error.output else _NEWS_SECONDS)
        if lost is None:
            raise
        raise errors.ExecuteUserScriptError(error.cmd, 1, lost) from None
    except process.Stopped:
        _raise_lost(link)
        raise
    _raise_lost(link)
    return result


def _wait_for_leader(link: Link, leader: str) -> None:
    patience = settings.dns_timeout()
    try:
        heard = link.wait_for_end(None, patience)
    except process.Stopped:
        _raise_lost(link)
        raise
    _raise_lost(link)
    if not heard:
        logger.warning("%s never reported: this host does not wait for its end", leader)
    elif link.end is not None and link.end.code and not link.end.stopped:
        text = f"The run ended on {leader} with exit code {link.end.code}: {link.end.cause}"
        raise errors.ExecuteUserScriptError(sys.argv, link.end.code, text)


def _raise_lost(link: Link) -> None:
    if link.lost is not None:
        raise errors.ExecuteUserScriptError(sys.argv, 1, link.lost)


def _end_script() -> None:
    """Ends this host's script as the platform would: with SIGTERM and its grace."""
    os.kill(os.getpid(), signal.SIGTERM)
