"""The link between the hosts of an MPI run: signs of life both ways, and the result of the first host for the others.

The first host runs mpirun, so only it knows how the run ended. The others stay until it says so.

Rules: docs/contract/mpi.md, rows mpi-end-*.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple, Optional, Sequence

from sagemaker_training.peers import Watch

PORT = 7779


class End(NamedTuple):
    """How the run ended on the first host. stopped: the platform asked for it."""

    code: int
    cause: str
    stopped: bool


class Link(Watch):
    """The watch of one host over the others of an MPI run."""

    def __init__(self, hosts: Sequence[str], current: str) -> None:
        super().__init__(hosts, current, PORT)
        self.end: Optional[End] = None

    def wait_for_end(self, seconds: Optional[float], patience: float) -> bool:
        """Waits for the end of the run, or the loss of a host; at most for a time. Returns whether there was either.

        patience: seconds after which a first host that never reported counts as lost.
        """
        now = time.monotonic()
        deadline = None if seconds is None else now + seconds
        late: Optional[float] = now + patience
        while self.end is None and self.lost is None:
            now = time.monotonic()
            if not self.absent():
                late = None
            elif late is not None and now >= late:
                return False
            limits = [limit - now for limit in (deadline, late) if limit is not None]
            if limits and min(limits) <= 0:
                return False
            # In slices only until the first host has reported: that is no news to wait for.
            self._news.wait(min([*limits, 1.0]) if late is not None else min(limits) if limits else None)
        return True

    def _hear_goodbye(self, peer: Any, message: Any) -> None:
        if self._leads:
            super()._hear_goodbye(peer, message)
            return
        peer.left = True
        self.end = End(int(message["end"]), str(message.get("cause") or ""), bool(message.get("stopped")))
        self._news.set()
