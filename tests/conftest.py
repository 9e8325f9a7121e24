"""For all tests."""

from __future__ import annotations

import signal

# A shell starts what it runs in the background with Ctrl-C ignored, `nohup` ignores the end of a terminal, and children
# inherit both: the programs that tests stop that way would not hear it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
