"""The first process: owns the port and the connections, watches the workers, and always answers ``/ping``.

It runs no user code and imports no framework, so nothing that a model does can keep it from answering.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

from sagemaker_inference.server import board, channel, children, dispatch, exits, metrics, replies, reported, summary
from sagemaker_inference.server.clients import Client, Clients
from sagemaker_inference.server.pool import Plan, Pool, State, Worker

_TICK = 0.05
"""Seconds between two looks at what the workers are doing, while they do something."""
_SLOW_TICK = 0.5
_DUMP_SECONDS = 0.3
"""For the traceback of a worker that is about to be killed."""

logger = logging.getLogger("sagemaker_inference.server")


class Supervisor:
    """Serves until it is told to stop, or cannot. ``run`` returns the exit status of the process."""

    def __init__(self, plan: Plan, listener: socket.socket) -> None:
        self._plan = plan
        self._settings = plan.settings
        self._listener = listener
        self._epoll = select.epoll()
        self._board = board.Board.create()
        self._reported = reported.Reported()
        self._handlers: dict[int, Callable[[], None]] = {}
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._timer_ids = itertools.count()
        self._setup: dict[int, Callable[[int], None]] = {}
        self._status: int | None = None
        self._reason = ""
        self._draining = False
        self._pool = Pool(plan, self._board, self._watch_worker)
        self._clients = Clients(self._epoll, self._own_paths(), self._on_request)
        self._dispatch = dispatch.Dispatch(self._board, self._pool, self._clients, self._settings)
        self._summary = summary.Summary(self._board)
        self.last_words = ""
        """Why the server ended, for the end of the log."""

    def _own_paths(self) -> dict[bytes, Callable[[], bytes]]:
        own = {b"/ping": self._ping}
        if self._settings.metrics_path:
            own[self._settings.metrics_path.encode()] = self._metrics
        return own

    def _ping(self) -> bytes:
        if self._pool.ready() and not self._draining:
            return replies.response(200, b"", replies.JSON)
        return replies.whole(503, self._not_ready(), kind="NotReady")

    def _metrics(self) -> bytes:
        pool = self._pool
        gauges = metrics.Gauges(
            ready=len(pool.ready()),
            planned=pool.planned,
            deaths=pool.deaths,
            waiting=len(self._dispatch.waiting),
            refused=self._dispatch.refused,
            memory={one.number: metrics.resident(one.pid) for one in pool.workers},
        )
        page = metrics.render(self._board, pool.planned, gauges) + self._reported.render()
        return replies.response(200, page, metrics.CONTENT_TYPE)

    def _not_ready(self) -> str:
        if self._draining:
            return "The server is stopping."
        if self._reason:
            return f"No worker is ready: {self._reason}"
        return "The model is not loaded yet."

    # Life

    def run(self, setup: Sequence[Sequence[str]] = (), on_setup: Callable[[Pool], None] | None = None) -> int:
        """Serves; ``setup``: programs that run side by side, and must all end well before the first worker starts."""
        children.adopt_orphans()
        wake = self._install_signals()
        self._register(self._listener.fileno(), self._on_connection)
        self._register(wake.fileno(), lambda: self._on_signals(wake))
        for command in setup:
            self._run_setup(command, on_setup)
        if not setup:
            self._start_first(on_setup)
        self._arm_tick()
        self._arm_summary()
        try:
            while self._status is None:
                self._turn()
        finally:
            self._guarded(self._sum_up)
            for one in self._pool.workers:
                children.kill_group(one.pid)
            children.kill_descendants()
        return self._status

    def _run_setup(self, command: Sequence[str], then: Callable[[Pool], None] | None) -> None:
        pid = children.start(command[0], command[1:], {**os.environ, "PYTHONUNBUFFERED": "1"})

        def ended(code: int) -> None:
            if code == 0 and not self._setup:
                self._start_first(then)
            elif code and not self._draining:
                self._end(exits.REQUIREMENTS)

        self._setup[pid] = ended

    def _start_first(self, prepare: Callable[[Pool], None] | None) -> None:
        if prepare:
            prepare(self._pool)
        try:
            self._pool.start(0)
        except OSError as error:
            self._end(exits.MODEL, f"A worker cannot be started: {error}.")

    def _end(self, status: int, last_words: str = "") -> None:
        if self._status is None:
            self._status = status
            self.last_words = last_words

    def _turn(self) -> None:
        timeout = max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else -1
        try:
            events = self._epoll.poll(timeout)
        except InterruptedError:
            return
        for descriptor, _ in events:
            handler = self._handlers.get(descriptor)
            self._guarded(handler or partial(self._clients.on_event, descriptor))
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            self._guarded(heapq.heappop(self._timers)[2])
        self._pool.start_due(now)

    def _guarded(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception:
            # Whatever one connection or worker did, the others are served.
            logger.exception("the supervisor failed on an event")

    def _after(self, seconds: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._timer_ids), call))

    def _register(self, descriptor: int, handler: Callable[[], None]) -> None:
        self._handlers[descriptor] = handler
        self._epoll.register(descriptor, select.EPOLLIN)

    def _unregister(self, descriptor: int) -> None:
        if self._handlers.pop(descriptor, None):
            self._epoll.unregister(descriptor)

    # Signals

    def _install_signals(self) -> socket.socket:
        read, write = socket.socketpair()
        read.setblocking(False)
        write.setblocking(False)
        self._write_end = write
        signal.set_wakeup_fd(write.fileno(), warn_on_full_buffer=False)
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGHUP):
            signal.signal(signum, lambda *_: None)
        return read

    def _on_signals(self, wake: socket.socket) -> None:
        received = wake.recv(4096)
        if signal.SIGTERM in received or signal.SIGINT in received:
            self._drain()
        self._reap()

    def _reap(self) -> None:
        # All at once: what is left in the kernel raises no second signal.
        for pid, status in list(children.changed()):
            self._guarded(partial(self._on_child, pid, status))

    def _on_child(self, pid: int, status: int) -> None:
        one = self._pool.by_pid(pid)
        if os.WIFSTOPPED(status):
            if one is not None:
                self._dispatch.take_back(one)
            return
        code = os.waitstatus_to_exitcode(status)
        if pid in self._setup:
            self._setup.pop(pid)(code)
        elif one is not None:
            self._on_death(one, code)

    # Connections

    def _on_connection(self) -> None:
        if not self._clients.accept(self._listener):
            # Descriptors have run out, and the one that waits would be reported again at once.
            self._unregister(self._listener.fileno())
            self._after(0.1, self._listen_again)

    def _listen_again(self) -> None:
        if not self._draining:
            self._register(self._listener.fileno(), self._on_connection)

    def _on_request(self, client: Client) -> None:
        if self._pool.was_ready and (self._pool.ready() or self._pool.expecting()):
            self._dispatch.add(client)
        else:
            self._clients.refuse(client, replies.whole(503, self._not_ready(), close=True, kind="NotReady"))

    # Workers

    def _watch_worker(self, one: Worker) -> None:
        self._register(one.channel.fileno(), lambda: self._on_messages(one))
        limit = self._settings.startup_timeout_seconds
        if limit is not None:
            self._after(limit, lambda: self._on_startup_limit(one, limit))

    def _on_startup_limit(self, one: Worker, limit: float) -> None:
        if one.state is State.LOADING:
            self._kill(one, f"it did not load within {limit:g} s")

    def _on_messages(self, one: Worker) -> None:
        for message in channel.messages(one.channel):
            kind = message[:1]
            if kind == channel.CLOSED:
                self._dispatch.closed(one, channel.number_of(message))
            elif kind == channel.READY:
                self._on_ready(one)
            elif kind == channel.PROCESS:
                one.pid = channel.number_of(message)
            elif kind == channel.FAILED:
                one.failure = message[1:].decode("utf-8", "replace")
            elif kind == channel.METRIC:
                self._reported.add(message[1:])
            elif not kind:
                self._on_end(one)
        self._dispatch.run()

    def _on_end(self, one: Worker) -> None:
        """A worker's channel has ended: the rest is told by its death."""
        self._unregister(one.channel.fileno())
        if not one.pid:
            # Forked, and ended before it could tell its number.
            self._bury(one, -signal.SIGKILL)

    def _on_ready(self, one: Worker) -> None:
        self._reason = ""
        try:
            self._pool.became_ready(one)
        except OSError as error:
            logger.error("no more workers can be started: %s", error)
        if self._draining:
            channel.tell(one.channel, channel.DRAIN)

    def _kill(self, one: Worker, why: str) -> None:
        """Has a worker write what it is doing, then kills it."""
        if one.killed:
            return
        one.killed = why
        logger.error("worker %d is killed: %s; its traceback follows", one.number, why)
        children.signal_process(one.pid, channel.DUMP_SIGNAL)
        self._after(_DUMP_SECONDS, lambda: self._kill_now(one))

    def _kill_now(self, one: Worker) -> None:
        if one.state is not State.GONE:
            children.kill_group(one.pid)

    def _on_death(self, one: Worker, code: int) -> None:
        self._on_messages(one)
        self._unregister(one.channel.fileno())
        self._bury(one, code)

    def _bury(self, one: Worker, code: int) -> None:
        # What it started is of no use without it.
        children.kill_group(one.pid)
        was_loading, one.state = one.state is State.LOADING, State.GONE
        if self._draining:
            self._pool.workers.remove(one)
        else:
            self._after_death(one, code, was_loading)
        self._dispatch.settle(one, one.killed or children.how(code))
        one.channel.close()
        self._end_if_drained()

    def _after_death(self, one: Worker, code: int, was_loading: bool) -> None:
        self._reason = _last_line(one.failure) or f"a worker died ({one.killed or children.how(code)})"
        # With many models a first load is tried once: when memory ran out, the platform makes room before the next.
        if was_loading and not self._pool.was_ready and (one.failure or one.killed or self._settings.multi_model):
            self._pool.workers.remove(one)
            told = one.failure or f"The model was not loaded: the worker died ({one.killed or children.how(code)})."
            self._end(exits.MODEL, told)
            return
        if one.failure:
            sys.stderr.write(one.failure)
        pause = self._pool.died(one, code)
        if self._pool.hopeless():
            self._end(exits.WORKERS, f"Workers died too often; the last: {self._reason}")
        elif pause is None:
            logger.error("worker %d is not started again; the others go on", one.number)
        elif pause > 0 and not self._pool.ready():
            self._dispatch.refuse_all(self._not_ready())

    # The clock

    def _arm_tick(self) -> None:
        self._after(_TICK if self._dispatch.busy() else _SLOW_TICK, self._tick)

    def _tick(self) -> None:
        self._arm_tick()
        now = time.monotonic()
        self._clients.sweep(now)
        for one, slots in self._dispatch.overdue(now):
            if not one.killed:
                one.overdue = slots
                self._kill(one, f"a request ran longer than {self._settings.timeout_seconds:g} s")
        self._dispatch.give_up_waiting(now)
        self._dispatch.run()
        self._dispatch.stop_busy(now)

    def _arm_summary(self) -> None:
        seconds = self._settings.metrics_log_seconds
        if seconds:
            self._after(seconds, self._arm_summary)
            self._sum_up()

    def _sum_up(self) -> None:
        line = self._summary.line(self._pool.planned, self._dispatch.refused, self._pool.deaths)
        if line and self._settings.metrics_log_seconds:
            logger.info(line)

    # The end

    def _drain(self) -> None:
        if self._draining:
            return
        self._draining = True
        logger.info("stopping: running requests have %g s", self._settings.drain_seconds)
        while self._clients.accept(self._listener) and _pending(self._listener):
            pass
        self._unregister(self._listener.fileno())
        self._listener.close()
        self._clients.close()
        self._pool.stop_restarting()
        for pid in self._setup:
            children.kill_group(pid)
        for one in self._pool.workers:
            if one.state is not State.READY:
                children.kill_group(one.pid)
        if not self._pool.was_ready:
            self._end(0)
        self._after(self._settings.drain_seconds, self._on_drain_limit)
        self._dispatch.run()
        self._tell_drain()

    def _tell_drain(self) -> None:
        """No worker may leave while a request waits for one."""
        if self._dispatch.waiting and self._pool.ready():
            self._after(_TICK, self._tell_drain)
            return
        for one in self._pool.ready():
            channel.tell(one.channel, channel.DRAIN)
        self._end_if_drained()

    def _end_if_drained(self) -> None:
        if self._draining and not self._pool.workers:
            self._dispatch.refuse_all(self._not_ready())
            self._end(0)

    def _on_drain_limit(self) -> None:
        logger.error("stopping took longer than %g s: the workers are killed", self._settings.drain_seconds)
        for one in self._pool.workers:
            one.killed = one.killed or "the server was stopped"
            children.kill_group(one.pid)


def _pending(listener: socket.socket) -> bool:
    poll = select.poll()
    poll.register(listener.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2]
