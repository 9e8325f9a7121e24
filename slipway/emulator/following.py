"""Following a running job: its log and metrics as they come, and its end."""

from __future__ import annotations

import contextlib
import math
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import IO, NamedTuple

from slipway.emulator.job import LogLine, TrainingJob
from slipway.emulator.layout import HostFolders
from slipway.emulator.meter import Meter
from slipway.engine.docker import Container, Exit
from slipway.engine.interrupts import INTERRUPTS, LONGEST_WAIT, uninterrupted
from slipway.files import naming_full_disk

SPOT = "spot interruption"

_SILENCE = 5.0
"""Seconds between the end of a container's output and its own, from which on a user hears of it."""


@dataclass
class Host:
    """One container of the job: its output from the start, and how it ended."""

    name: str
    folders: HostFolders
    container: Container
    output: Iterator[tuple[str, bytes]]
    log: Path
    exit: Exit | None = None
    problem: str = ""


@dataclass(frozen=True)
class Hearing:
    """Who hears of a job's log: what reads its metrics, and whom the caller named."""

    meter: Meter
    on_line: Callable[[LogLine], None] | None = None
    stop_when: Callable[[LogLine], bool] | None = None


class _Event(NamedTuple):
    """What a host's reader saw: a block of log lines, the container's end, or an error. No host: Ctrl-C."""

    host: Host | None = None
    stream: str = ""
    block: bytes = b""
    exit: Exit | None = None
    error: BaseException | None = None


@dataclass
class Follower:
    """Follows the hosts of a job to their end, and stops them when something says so.

    `stopped_by` then says what did: empty, `time limit`, `caller`, `Ctrl-C`, `spot interruption`, or `failure` of
    another host. `time_limit` and `interrupt_after` are seconds from `follow` on.
    """

    job: TrainingJob
    hosts: list[Host]
    hear: Hearing
    time_limit: float
    interrupt_after: float = math.inf
    stopped_by: str = ""
    first_failed: str = ""
    _deadline: float = 0.0
    _events: queue.SimpleQueue[_Event] = field(default_factory=queue.SimpleQueue)
    # A job that prints faster than its lines are looked at waits for room instead of filling the memory.
    _room: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(64))
    _over: threading.Event = field(default_factory=threading.Event)

    def follow(self) -> None:
        self._deadline = time.monotonic() + min(self.time_limit, self.interrupt_after)
        try:
            with naming_full_disk(self.hosts[0].log), contextlib.ExitStack() as stack:
                stack.enter_context(self._hearing_signals())
                # To those of the instances before: the service has a stream of its own for each.
                logs = {host.name: stack.enter_context(host.log.open("ab")) for host in self.hosts}
                for host in self.hosts:
                    threading.Thread(target=self._read, args=(host,), daemon=True).start()
                while any(host.exit is None for host in self.hosts):
                    self._step(logs)
            self._hear_the_last()
        finally:
            self._over.set()

    @contextlib.contextmanager
    def _hearing_signals(self) -> Iterator[None]:
        """Take Ctrl-C (and SIGTERM, where it is handled) as an event among others: an exception could lose another."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def hear(number: int, frame: FrameType | None) -> None:
            self._events.put(_Event())  # of all queues, only the simple one may be used in here

        former = {number: signal.getsignal(number) for number in INTERRUPTS}
        handled = {number: handler for number, handler in former.items() if callable(handler)}
        for number in handled:
            signal.signal(number, hear)
        try:
            yield
        finally:
            for number, handler in handled.items():
                signal.signal(number, handler)

    def _hear_the_last(self) -> None:
        """A Ctrl-C that came while the last host ended is no less one."""
        with contextlib.suppress(queue.Empty):
            while self._events.get_nowait().host is not None:
                pass
            if self.stopped_by in ("", SPOT):
                self.stopped_by = "Ctrl-C"

    def _interrupted(self) -> None:
        """The first Ctrl-C stops the job as SageMaker would, the second one does not wait for it."""
        if self.stopped_by == SPOT:  # it has its SIGTERM, and will not start again
            self.stopped_by = "Ctrl-C"
        elif self.stopped_by:
            self._signal("SIGKILL")
        self._stop("Ctrl-C")

    def _step(self, logs: Mapping[str, IO[bytes]]) -> None:
        left = max(self._deadline - time.monotonic(), 0.0)
        try:
            event = self._events.get(timeout=min(left, LONGEST_WAIT))
        except queue.Empty:
            if left <= LONGEST_WAIT:
                self._out_of_time()
            return
        if event.host is None:
            self._interrupted()
            return
        self._room.release()
        if event.error is not None:
            raise event.error
        if event.exit is None:
            logs[event.host.name].write(event.block)
            self._look_at(event.host, event)
            return
        event.host.exit = event.exit
        if event.exit.code != 0:
            self.first_failed = self.first_failed or event.host.name
            # One failed host fails the job, and the others end with it.
            self._stop("failure")

    def _look_at(self, host: Host, event: _Event) -> None:
        text = event.block.decode("utf-8", "replace")
        self.hear.meter.feed(text)
        on_line, stop_when = self.hear.on_line, self.hear.stop_when
        if on_line is None and stop_when is None:
            return
        for content in text.removesuffix("\n").split("\n"):
            line = LogLine(host.name, event.stream, content)
            if on_line is not None:
                on_line(line)
            if stop_when is not None and not self.stopped_by and stop_when(line):
                self._stop("caller")

    def _out_of_time(self) -> None:
        if self.stopped_by:
            self._signal("SIGKILL")
            self._deadline = time.monotonic() + self.job.stop_grace
        else:
            self._stop(SPOT if self.interrupt_after < self.time_limit else "time limit")

    def _stop(self, reason: str) -> None:
        """SIGTERM to the first process of every host; SIGKILL follows when the grace has passed."""
        if not self.stopped_by:
            self.stopped_by = reason
            self._deadline = time.monotonic() + self.job.stop_grace
            self._signal("SIGTERM")

    def _signal(self, name: str) -> None:
        with uninterrupted():
            for host in self.hosts:
                if host.exit is None:
                    host.container.signal(name)

    def _read(self, host: Host) -> None:
        try:
            for stream, block in host.output:
                self._put(_Event(host, stream, block))
            silent = time.monotonic()
            ended = host.container.wait()
            if time.monotonic() - silent > _SILENCE:
                host.problem = "its output ended before it did: it closed it, or the engine was cut off meanwhile"
            self._put(_Event(host, exit=ended))
        except BaseException as error:
            self._put(_Event(host, error=error))

    def _put(self, event: _Event) -> None:
        """Hand an event over, unless nobody follows any more."""
        while not self._over.is_set():
            if self._room.acquire(timeout=1.0):
                self._events.put(event)
                return
