"""Waits until the other hosts can be found: their names may lag behind the start of the job."""

from __future__ import annotations

import os
import time
from typing import List, Sequence

from sagemaker_training import errors, params, settings
from sagemaker_training.logs import logger

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 30.0


def wait_for_names(hosts: Sequence[str]) -> None:
    """Returns when all names resolve. Raises ClientError that names those that do not in time.

    A single host has nobody to wait for, and Studio's local mode has no names.
    """
    if len(hosts) < 2 or os.environ.get(params.STUDIO_LOCAL_MODE_ENV, "").lower() == "true":
        return
    limit = settings.dns_timeout()
    deadline = time.monotonic() + limit
    pause = _FIRST_PAUSE
    missing = _unresolved(hosts)
    while missing:
        left = deadline - time.monotonic()
        if left <= 0:
            raise errors.ClientError(
                f"No address for {', '.join(missing)} within {limit:g} s: the host did not start, or is not on the "
                f"job's network ({settings.DNS_TIMEOUT} changes the limit)."
            )
        logger.info("waiting for the address of %s", ", ".join(missing))
        time.sleep(min(pause, left))
        pause = min(2 * pause, _LONGEST_PAUSE)
        missing = _unresolved(missing)


def _unresolved(hosts: Sequence[str]) -> List[str]:
    import socket

    missing = []
    for host in hosts:
        try:
            socket.getaddrinfo(host, None)
        except OSError:
            missing.append(host)
    return missing
