"""For all tests."""

from __future__ import annotations

import signal

# A shell starts what it runs in the background with Ctrl-C ignored, and children inherit that: the programs that tests
# stop by Ctrl-C would not hear it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
