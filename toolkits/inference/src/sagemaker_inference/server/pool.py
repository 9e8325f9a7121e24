"""The worker processes: started, watched, restarted a bounded number of times."""

from __future__ import annotations

import enum
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sagemaker_inference.server import board, capacity, channel, children, sockets
from sagemaker_inference.server.clients import Client
from sagemaker_inference.service import Place
from sagemaker_inference.settings import Settings

_BACK_OFF = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""Seconds before the first restart in a row, the second, and so on."""

_TEMPLATE = board.WORKERS - 1

logger = logging.getLogger("sagemaker_inference.server")


class State(enum.Enum):
    LOADING = 1
    READY = 2
    TEMPLATE = 3
    """Loaded, to be forked; it serves nothing itself."""
    GONE = 4


@dataclass(eq=False)
class Worker:
    """One worker process. number: its place on the board and among the GPUs; pid: 0 until a forked one has told it."""

    number: int
    pid: int
    channel: socket.socket
    started: float
    state: State = State.LOADING
    clients: dict[int, Client] = field(default_factory=dict)
    """By slot: the connections that it has."""
    passed: set[int] = field(default_factory=set)
    """Slots on their way to it, when last looked at."""
    taken: set[int] = field(default_factory=set)
    """Slots that were taken back from it, until it has seen that."""
    failure: str = ""
    """The traceback with which it ended."""
    killed: str = ""
    """Why we killed it."""
    overdue: set[int] = field(default_factory=set)
    """Slots whose requests ran too long, when it was killed for that."""
    stopped_call: float = 0.0
    """The call during which it was stopped, to take connections back."""
    stopped_at: float = 0.0


@dataclass(frozen=True)
class Plan:
    """What every worker of a server is started with."""

    settings: Settings
    model_name: str
    model_dir: str
    handler_service: str


class Pool:
    """All workers. ``on_message`` gets what they tell; the owner calls ``died`` for each that has ended."""

    def __init__(self, plan: Plan, shared: board.Board, watch: Callable[[Worker], None]) -> None:
        self._plan = plan
        self._board = shared
        self._watch = watch
        self.workers: list[Worker] = []
        self.interpreter = ""
        self.environ: Mapping[str, str] = os.environ
        self.planned = plan.settings.workers or capacity.by_hardware(os.environ)
        self.was_ready = False
        self.deaths = 0
        self._deaths: dict[int, int] = {}
        """By worker: in a row, without an answered request in between."""
        self._template: Worker | None = None
        self._wanted: list[int] = []
        """Workers to be forked when the template is loaded."""
        self._due: list[tuple[float, int]] = []
        shared.words[board.PLANNED] = self.planned

    def ready(self) -> list[Worker]:
        return [one for one in self.workers if one.state is State.READY]

    def by_pid(self, pid: int) -> Worker | None:
        return next((one for one in self.workers if one.pid == pid), None)

    def loading(self) -> bool:
        return any(one.state is State.LOADING for one in self.workers)

    def start(self, number: int) -> None:
        """Starts a worker. Raises OSError."""
        if not self._plan.settings.preload:
            self._spawn(number)
        elif self._template is None:
            self._wanted.append(number)
            self._template = self._spawn(_TEMPLATE)
        elif self._template.state is State.TEMPLATE:
            self._fork(number, self._template)
        else:
            self._wanted.append(number)

    def _spawn(self, number: int) -> Worker:
        plan = self._plan
        template = number == _TEMPLATE
        gpus = capacity.gpus(self.environ)
        place = Place(
            model_dir=plan.model_dir,
            model_name=plan.model_name,
            worker=0 if template else number,
            gpu_id=number % gpus if gpus else None,
            batch_size=plan.settings.batch_size,
        )
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._board.clear_worker(number)
        with theirs:
            pid = children.start(
                self.interpreter,
                channel.arguments(place, plan.handler_service, template),
                {**self.environ, **capacity.variables(self.environ, self.planned)},
                (self._board.descriptor, theirs.fileno()),
            )
        logger.info("worker %d: loading, process %d", place.worker, pid)
        return self._add(number, pid, ours)

    def _fork(self, number: int, template: Worker) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._board.clear_worker(number)
        with theirs:
            sockets.send_descriptor(template.channel, channel.with_number(channel.FORK, number), theirs.fileno())
        self._add(number, 0, ours)

    def _add(self, number: int, pid: int, link: socket.socket) -> Worker:
        one = Worker(number, pid, link, time.monotonic())
        self.workers.append(one)
        self._watch(one)
        return one

    def became_ready(self, one: Worker) -> None:
        if one is self._template:
            one.state = State.TEMPLATE
            logger.info(
                "the model is loaded after %.2f s, and is forked for each worker", time.monotonic() - one.started
            )
            wanted, self._wanted = self._wanted, []
            for number in wanted:
                self._fork(number, one)
            return
        one.state = State.READY
        logger.info("worker %d: ready after %.2f s", one.number, time.monotonic() - one.started)
        if self.was_ready:
            return
        self.was_ready = True
        settings = self._plan.settings
        if settings.workers is None:
            self.planned, size = capacity.by_memory(self.planned, one.pid)
            logger.info("a worker takes %d MB: %d workers", size >> 20, self.planned)
            self._board.words[board.PLANNED] = self.planned
        for number in range(1, self.planned):
            self.start(number)

    def died(self, one: Worker, code: int) -> float | None:
        """Plans a restart: the seconds until then, or None when it died too often in a row."""
        self.workers.remove(one)
        self.deaths += 1
        numbers = [one.number]
        if one is self._template:
            # A new one is started with the next worker.
            self._template = None
            numbers, self._wanted = self._wanted, []
        before = 0 if self._has_answered(one) else self._deaths.get(one.number, 0)
        deaths = self._deaths[one.number] = before + 1
        how = one.killed or children.how(code)
        if code == -signal.SIGKILL and not one.killed:
            logger.error("signal 9 is often the kernel's, when memory runs out: give more, or run fewer workers")
        if deaths > self._plan.settings.max_restarts:
            logger.error("worker %d died (%s), the last of %d deaths in a row", one.number, how, deaths)
            return None
        pause = _BACK_OFF[min(deaths, len(_BACK_OFF)) - 1]
        logger.error("worker %d died (%s); it is restarted in %g s", one.number, how, pause)
        self._due += [(time.monotonic() + pause, number) for number in numbers]
        return pause

    def _has_answered(self, one: Worker) -> bool:
        return self._board.words[board.worker_cell(one.number) + board.ANSWERED] > 0

    def start_due(self, now: float) -> None:
        """Starts the workers whose pause is over."""
        for due in [due for due in self._due if due[0] <= now]:
            self._due.remove(due)
            try:
                self.start(due[1])
            except OSError as error:
                logger.error("worker %d cannot be started: %s", due[1], error)
                self._due.append((now + _BACK_OFF[1], due[1]))

    def expecting(self) -> bool:
        """Whether a worker will be ready soon, without a pause."""
        return self.loading() or any(due <= time.monotonic() for due, _ in self._due)

    def hopeless(self) -> bool:
        """Whether no worker is there or will be."""
        return not self._due and all(one.state is State.TEMPLATE for one in self.workers)

    def stop_restarting(self) -> None:
        self._due.clear()
