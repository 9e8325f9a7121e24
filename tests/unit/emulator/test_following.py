"""Following a job: what comes while it ends."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any, cast

import pytest

from slipway.emulator.following import Follower, Hearing, Host
from slipway.emulator.job import TrainingJob
from slipway.emulator.meter import Meter
from slipway.engine.docker import Container, Exit


class Ended:
    """A container that has ended well."""

    def wait(self) -> Exit:
        return Exit(0, False)


class PressingAtTheEnd(Follower):
    """A follower whose user presses Ctrl-C when the last host's end is known, and not yet acted on."""

    def _step(self, logs: Any) -> None:
        super()._step(logs)
        if all(host.exit is not None for host in self.hosts):
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize(("kind", "stopped_by"), [(Follower, ""), (PressingAtTheEnd, "Ctrl-C")])
def test_a_ctrl_c_while_the_last_host_ends_is_not_lost(tmp_path: Path, kind: type[Follower], stopped_by: str) -> None:
    job = TrainingJob(image="any")
    host = Host("algo-1", cast(Any, None), cast(Container, Ended()), iter(()), tmp_path / "algo-1.log")
    follower = kind(job, [host], Hearing(Meter((), None)), 60.0)
    follower.follow()
    assert follower.stopped_by == stopped_by
