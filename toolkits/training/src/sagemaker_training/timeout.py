"""A time limit for a block of code, by SIGALRM. Main thread only."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from types import FrameType
from typing import Iterator, Optional


class TimeoutError(Exception):
    """The block took longer than its limit."""


@contextmanager
def timeout(seconds: float = 0, minutes: float = 0, hours: float = 0) -> Iterator[None]:
    """Raises TimeoutError inside the block when the sum of the three is over. Zero is no limit."""
    limit = seconds + 60 * minutes + 3600 * hours

    def _over(signum: int, frame: Optional[FrameType]) -> None:
        raise TimeoutError(f"timed out after {limit:g} seconds")

    before = signal.signal(signal.SIGALRM, _over)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
