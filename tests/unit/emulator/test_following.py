"""Following a job: what comes while it ends."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from slipway.emulator.following import SPOT, Follower, Hearing, Host
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


class Signalled(Ended):
    """A container that only writes down what it is sent."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def signal(self, name: str) -> None:
        self.sent.append(name)


class Silent(Signalled):
    """A container that prints a line, and then nothing until it is told to stop."""

    def __init__(self) -> None:
        super().__init__()
        self.stopped = threading.Event()

    def signal(self, name: str) -> None:
        super().signal(name)
        self.stopped.set()

    def output(self) -> Iterator[tuple[str, bytes]]:
        yield "stdout", b"ready\n"
        self.stopped.wait(0.2)  # the main thread has seen the line by now, and waits for the next one
        # To this thread: the main one's wait does not end by it, no more than by one that comes right before the wait.
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        self.stopped.wait(60.0)


def test_a_ctrl_c_that_does_not_end_the_wait_is_heard_all_the_same(tmp_path: Path) -> None:
    container = Silent()
    host = Host("algo-1", cast(Any, None), cast(Container, container), container.output(), tmp_path / "algo-1.log")
    follower = Follower(TrainingJob(image="any"), [host], Hearing(Meter((), None)), 30.0)
    follower.follow()
    assert (follower.stopped_by, container.sent) == ("Ctrl-C", ["SIGTERM"])


def test_a_ctrl_c_in_a_spot_interruption_ends_the_job_and_the_second_one_kills(tmp_path: Path) -> None:
    container = Signalled()
    host = Host("algo-1", cast(Any, None), cast(Container, container), iter(()), tmp_path / "algo-1.log")
    follower = Follower(TrainingJob(image="any"), [host], Hearing(Meter((), None)), 60.0, 1.0)
    follower._out_of_time()
    assert (follower.stopped_by, container.sent) == (SPOT, ["SIGTERM"])
    follower._interrupted()
    assert (follower.stopped_by, container.sent) == ("Ctrl-C", ["SIGTERM"])
    follower._interrupted()
    assert (follower.stopped_by, container.sent) == ("Ctrl-C", ["SIGTERM", "SIGKILL"])


def test_a_ctrl_c_at_the_end_of_a_spot_interruption_starts_nothing_again(tmp_path: Path) -> None:
    host = Host("algo-1", cast(Any, None), cast(Container, Ended()), iter(()), tmp_path / "algo-1.log")
    follower = PressingAtTheEnd(TrainingJob(image="any"), [host], Hearing(Meter((), None)), 60.0, stopped_by=SPOT)
    follower.follow()
    assert follower.stopped_by == "Ctrl-C"


@pytest.mark.parametrize(("kind", "stopped_by"), [(Follower, ""), (PressingAtTheEnd, "Ctrl-C")])
def test_a_ctrl_c_while_the_last_host_ends_is_not_lost(tmp_path: Path, kind: type[Follower], stopped_by: str) -> None:
    job = TrainingJob(image="any")
    host = Host("algo-1", cast(Any, None), cast(Container, Ended()), iter(()), tmp_path / "algo-1.log")
    follower = kind(job, [host], Hearing(Meter((), None)), 60.0)
    follower.follow()
    assert follower.stopped_by == stopped_by
