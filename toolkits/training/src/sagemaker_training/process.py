"""Processes of the job: start, relay, stop, exit code, orphans. The only place that does these.

Stop: SIGTERM (SIGINT, SIGHUP) to ``train`` goes to the process group of whatever runs in the foreground.
The group then has a grace period; after that it is killed. While nothing runs, a stop ends the toolkit
itself by raising ``Stopped`` in the main thread. So a launcher that waits in plain Python needs nothing
of its own in order to be stopped.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from sagemaker_training import cgroup, logs, settings
from sagemaker_training.logs import logger
from sagemaker_training.relay import Relay, Sink, Stream, Transform, open_pipe

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

# How long the last lines of helpers (a ``tee`` behind a shell's ``exec >``) are waited for.
_LAST_LINES_SECONDS = 0.1


class Stopped(BaseException):
    """The platform asked the job to stop while no process of the job was running.

    No ``Exception``: a ``try`` around a download must not swallow it.
    """

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum

    def __str__(self) -> str:
        return f"stopped by {signal.Signals(self.signum).name}"


class Outcome(NamedTuple):
    """How a process ended.

    returncode: as in ``subprocess``, negative for a signal. stdout, stderr: the last lines (at most 200 and
    64 kB each) of each stream; where both go to the same place, all of it is in stdout. oom_kills: processes
    that the kernel killed for memory in this container meanwhile. stopped: the signal by which the platform asked
    for the end, if it did. remark: what else the launcher knows of the end.
    """

    argv: Tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str
    oom_kills: int = 0
    stopped: Optional[int] = None
    remark: str = ""


class _State:
    """What the signal handler needs to know."""

    def __init__(self) -> None:
        self.stop: Optional[int] = None
        self.stop_time = 0.0
        self.foreground: Set[int] = set()
        self.busy = 0
        self.services: List[subprocess.Popen[bytes]] = []


_state = _State()


def exit_code(returncode: int) -> int:
    """The exit code of ``train`` for the return code of its script: 128+n for signal n, 1 where it has no room."""
    if returncode < 0:
        return 128 - returncode
    return returncode if returncode <= 255 else 1


def stop_requested() -> Optional[int]:
    """The signal by which the platform asked for the end of the job, if it did."""
    return _state.stop


def check_stop() -> None:
    """Raises Stopped when the job is to end."""
    if _state.stop is not None:
        raise Stopped(_state.stop)


def grace_left() -> Optional[float]:
    """Seconds until the rest is killed; None while nobody asked to stop."""
    if _state.stop is None:
        return None
    return max(0.0, _state.stop_time + settings.stop_grace() - time.monotonic())


def _on_stop(signum: int, frame: Optional[FrameType]) -> None:
    if _state.stop is None:
        _state.stop_time = time.monotonic()
    _state.stop = signum
    for group in list(_state.foreground):  # Another thread may be adding one.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signum)
    if not _state.busy:
        raise Stopped(signum)


def _on_child(signum: int, frame: Optional[FrameType]) -> None:
    """Exists so that the end of a child wakes the poll loop."""


@contextmanager
def stop_handling() -> Iterator[None]:
    """Stop signals follow this module's rules inside; harmless when nested or off the main thread."""
    try:
        if signal.getsignal(signal.SIGTERM) is _on_stop:
            before = {}
        else:
            before = {number: signal.signal(number, _on_stop) for number in STOP_SIGNALS}
    except ValueError:  # Only the main thread may do this.
        before = {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


@contextmanager
def deferred_stop() -> Iterator[None]:
    """A stop is only noted inside: for the last steps of a job, which are short and must be complete."""
    _state.busy += 1
    try:
        yield
    finally:
        _state.busy -= 1


def run(
    argv: Sequence[str],
    cwd: Optional[str] = None,
    env: Optional[Mapping[str, str]] = None,
    transform: Optional[Transform] = None,
    sources: Sequence[Tuple[int, str]] = (),
) -> Outcome:
    """Runs a process in a group of its own to its end, and relays its output meanwhile.

    transform: applied to whole lines (bytes in, bytes out) before they are passed on.
    sources: further descriptors to relay, each with ``"stdout"`` or ``"stderr"``, such as named pipes of single
    ranks; their lines are never mixed with one another.
    Raises OSError when the program cannot be started, Stopped when the job is to end before it is.
    """
    with stop_handling():
        check_stop()
        with _foreground() as wake:
            return _Run(argv, cwd, env, transform, sources, wake).finish()


def spawn(
    argv: Sequence[str], cwd: Optional[str] = None, env: Optional[Mapping[str, str]] = None
) -> subprocess.Popen[bytes]:
    """Starts a process in a group of its own and returns at once. It inherits the streams; stops reach its group."""
    with stop_handling():
        check_stop()
        with deferred_stop():
            process = _popen(argv, cwd, env)
            _state.foreground.add(process.pid)
            if _state.stop is not None:
                _on_stop(_state.stop, None)
    return process


def start_service(
    argv: Sequence[str],
    cwd: Optional[str] = None,
    env: Optional[Mapping[str, str]] = None,
    stdin: Optional[int] = None,
) -> subprocess.Popen[bytes]:
    """Starts a helper that serves the job (sshd, a parameter server): no stop reaches it, and it ends with the job."""
    process = _popen(argv, cwd, env, stdin=stdin)
    _state.services.append(process)
    return process


def end_services() -> None:
    """Kills the helpers that are still there."""
    for process in _state.services:
        _kill_group(process.pid)
        with suppress(subprocess.TimeoutExpired):
            process.wait(1)
    _state.services.clear()


def _popen(
    argv: Sequence[str], cwd: Optional[str], env: Optional[Mapping[str, str]], **streams: Optional[int]
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(list(argv), cwd=cwd, env=env, start_new_session=True, **streams)  # type: ignore[call-overload,no-any-return]


@contextmanager
def _foreground() -> Iterator[Optional[int]]:
    """Signals end the wait of the poll loop inside. Gives the descriptor to watch, None off the main thread."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    wake: Optional[int] = reader
    try:
        old_fd = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        old_handler = signal.signal(signal.SIGCHLD, _on_child)
    except ValueError:
        wake = None
    _state.busy += 1
    try:
        yield wake
    finally:
        _state.busy -= 1
        if wake is not None:
            signal.set_wakeup_fd(old_fd)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL if old_handler is None else old_handler)
        os.close(reader)
        os.close(writer)


class _Run:
    """One process from start to end."""

    def __init__(
        self,
        argv: Sequence[str],
        cwd: Optional[str],
        env: Optional[Mapping[str, str]],
        transform: Optional[Transform],
        sources: Sequence[Tuple[int, str]],
        wake: Optional[int],
    ) -> None:
        self._argv = tuple(argv)
        self._wake = wake
        self._told = self._killed = False
        self._oom_before = cgroup.oom_kills()
        self._relay = Relay()
        self._sinks = _sinks()
        self._streams: List[Tuple[str, Stream]] = []
        if wake is not None:
            self._relay.watch(wake)
        self._start(cwd, env, transform)
        for fd, name in sources:
            self._streams.append((name, self._relay.add(fd, self._sinks[name], awaited=False)))

    def _start(self, cwd: Optional[str], env: Optional[Mapping[str, str]], transform: Optional[Transform]) -> None:
        # One pipe for both streams where both end in the same place: then their order is exact.
        one = self._sinks["stdout"] is self._sinks["stderr"]
        readers, writers = [], {}
        for name in ("stdout",) if one else ("stdout", "stderr"):
            reader, writers[name] = open_pipe()
            readers.append(reader)
            self._streams.append((name, self._relay.add(reader, self._sinks[name], transform)))
        try:
            self._process = _popen(
                self._argv, cwd, env, stdout=writers["stdout"], stderr=writers["stdout" if one else "stderr"]
            )
        except BaseException:
            for reader in readers:
                os.close(reader)
            raise
        finally:
            for writer in writers.values():
                os.close(writer)
        _state.foreground.add(self._process.pid)
        if _state.stop is not None:  # It came while the process was being made.
            _kill_group(self._process.pid, _state.stop)

    def finish(self) -> Outcome:
        """Relays until the process has ended and its last lines are out."""
        pid = self._process.pid
        try:
            while self._process.poll() is None:
                self._relay.pump(self._patience())
                self._clear_wake()
                _reap_orphans()
                self._end_grace()
            self._relay.drain(_LAST_LINES_SECONDS)
        finally:
            # What the script leaves behind would lose its container with the end of ``train`` anyway.
            _kill_group(pid)
            _state.foreground.discard(pid)
            self._process.wait()
        logs.midline = self._sinks["stderr"].midline
        self._report_lost_log()
        return Outcome(
            argv=self._argv,
            returncode=self._process.returncode,
            stdout=self._tail("stdout"),
            stderr=self._tail("stderr"),
            oom_kills=cgroup.oom_kills() - self._oom_before,
            stopped=_state.stop,
        )

    def _tail(self, name: str) -> str:
        return "".join(stream.tail.text() for label, stream in self._streams if label == name)

    def _end_grace(self) -> None:
        if not self._told and _state.stop is not None:
            self._told = True
            name = signal.Signals(_state.stop).name
            logger.info("%s is passed on; the process group has %g s to end", name, settings.stop_grace())
        if not self._killed and grace_left() == 0.0:
            self._killed = True
            logger.error("no end within %g s of the stop: killing the process group", settings.stop_grace())
            _kill_group(self._process.pid)

    def _patience(self) -> Optional[float]:
        """Seconds to wait for bytes or a signal."""
        left = None if self._killed else grace_left()
        if self._wake is None:
            return 0.05 if left is None else min(0.05, left)
        return left

    def _clear_wake(self) -> None:
        if self._wake is not None:
            with suppress(BlockingIOError):
                os.read(self._wake, 4096)

    def _report_lost_log(self) -> None:
        for name, sink in self._sinks.items():
            if sink.error is not None:
                logger.error("lines on %s are lost, it cannot be written: %s", name, sink.error)


def _sinks() -> Dict[str, Sink]:
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):
            stream.flush()
    out = Sink(1)
    try:
        same = _identity(1) == _identity(2)
    except OSError:
        same = False
    return {"stdout": out, "stderr": out if same else Sink(2)}


def _identity(fd: int) -> Tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


def _kill_group(group: int, signum: int = signal.SIGKILL) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signum)


def _reap_orphans() -> None:
    """As process 1, collects what the script's descendants left: the kernel makes us their parent.

    Children that code in this process started (its own session, or in a table of ours) are left to those who wait
    for them.
    """
    if os.getpid() != 1:
        return
    known = _state.foreground | {process.pid for process in _state.services}
    session = os.getsid(0)
    for pid in _children():
        with suppress(ProcessLookupError, ChildProcessError):
            if pid not in known and os.getsid(pid) != session:
                os.waitpid(pid, os.WNOHANG)


def _children() -> List[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return []
