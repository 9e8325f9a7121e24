"""Ctrl-C and its like: held back while something is made or removed, and never waited past."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals that mean: stop and clear away. Those that Python does not handle end the process as ever."""

LONGEST_WAIT = 1.0
"""Seconds that the main thread waits for anything at a time. A Ctrl-C that comes right before a wait, or to another
thread, does not end it: Python runs the handler when the wait is over, and a silent job would keep it for ever."""


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C (and the like, where handled) back for a block, so that nothing is made that nobody knows of."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []
    former = {number: signal.getsignal(number) for number in INTERRUPTS}
    handled = {number: handler for number, handler in former.items() if callable(handler)}
    for number in handled:
        signal.signal(number, lambda number, frame: held.append(number))
    try:
        yield
    finally:
        for number, handler in handled.items():
            signal.signal(number, handler)
        if held:
            handled[signal.Signals(held[0])](held[0], None)
