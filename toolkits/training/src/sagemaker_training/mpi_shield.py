"""Starts mpirun so that a stop of the job does not reach it: it would kill its ranks a second later.

The ranks get the stop from the toolkit on their own host, and have the platform's grace to save their work; mpirun
ends when they have. Notes the process id in a file. Stands alone: it is started without the interpreter's packages.
"""

import os
import signal
import sys

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main() -> None:
    # Blocked, not ignored: mpirun sets handlers of its own, and takes the block off in its children.
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    with open(sys.argv[1], "w") as file:
        file.write(str(os.getpid()))
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
