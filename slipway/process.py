"""The one place that runs other programs.

Programs get an argument list, never a shell string. Each runs in a process group of its own, so that Ctrl-C and time
limits end it whole. Secrets go by file or environment: an argument list can be read by every user of the machine.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from slipway.errors import ProgramError

TAIL_LINES = 40
Result = TypeVar("Result")


@dataclass(frozen=True)
class Completed:
    """A program that ended: its exit code (negative: killed by that signal) and what it printed."""

    argv: tuple[str, ...]
    code: int
    stdout: str
    stderr: str


def find(program: str) -> str | None:
    """Full path of a program on PATH, or None."""
    return shutil.which(program)


def run(
    argv: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
    timeout: float | None = None,
    check: bool = True,
    fix: str = "",
) -> Completed:
    """Run a program to its end and keep what it printed.

    `env` is added to this process's environment. `timeout` is in seconds. With `check`, an exit code other than 0
    raises ProgramError, whose text ends with the last lines of the program's output; `fix` is its next step.
    """
    child = _start(argv, cwd=cwd, env=env, merge=False, stdin=stdin is not None, fix=fix)
    try:
        stdout, stderr = _attended(child, lambda: child.communicate(stdin, timeout=timeout))
    except subprocess.TimeoutExpired:
        raise ProgramError(f"{Path(str(argv[0])).name} did not end within {timeout:g} s", fix=fix) from None
    done = Completed(tuple(str(part) for part in argv), child.returncode, stdout, stderr)
    if check and done.code != 0:
        raise failure(done.argv, done.code, (done.stderr or done.stdout).splitlines(), fix=fix)
    return done


def stream(
    argv: Sequence[str | Path],
    on_line: Callable[[str], None],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    check: bool = True,
    fix: str = "",
    grace: float = 10.0,
) -> int:
    """Run a program and hand each line that it prints (both streams) to `on_line` as it comes. Returns the exit code.

    On Ctrl-C or an error in `on_line` the program's whole group gets SIGTERM, after `grace` seconds SIGKILL.
    """
    child = _start(argv, cwd=cwd, env=env, merge=True, stdin=False, fix=fix)
    tail: deque[str] = deque(maxlen=TAIL_LINES)

    def read() -> int:
        assert child.stdout is not None
        for line in child.stdout:
            text = line.rstrip("\n")
            tail.append(text)
            on_line(text)
        return child.wait()

    code = _attended(child, read, grace=grace)
    if check and code != 0:
        raise failure(tuple(str(part) for part in argv), code, list(tail), fix=fix)
    return code


def failure(argv: tuple[str, ...], code: int, lines: Sequence[str], *, fix: str = "") -> ProgramError:
    ending = "\n".join(f"    {line}" for line in lines[-TAIL_LINES:] if line.strip())
    how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return ProgramError(f"{Path(argv[0]).name} {how}" + (f"; its last lines:\n{ending}" if ending else ""), fix=fix)


def detach(argv: Sequence[str | Path], *, cwd: Path, log: Path, fix: str = "") -> int:
    """Start a program that outlives this one; its output goes to `log`. Returns its pid."""
    words = [str(part) for part in argv]
    try:
        with log.open("ab") as output:
            child = subprocess.Popen(
                words, cwd=cwd, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
    except OSError as error:
        raise ProgramError(f"cannot run {words[0]}: {error.strerror}", fix=fix or f"install {words[0]}") from error
    # Reaps it, should it end first: a dead child that nobody waited for still looks alive.
    threading.Thread(target=child.wait, daemon=True).start()
    return child.pid


def _start(
    argv: Sequence[str | Path],
    *,
    cwd: Path | None,
    env: Mapping[str, str] | None,
    merge: bool,
    stdin: bool,
    fix: str,
) -> subprocess.Popen[str]:
    words = [str(part) for part in argv]
    try:
        return subprocess.Popen(
            words,
            cwd=cwd,
            env={**os.environ, **env} if env else None,
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merge else subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise ProgramError(f"cannot run {words[0]}: {error.strerror}", fix=fix or f"install {words[0]}") from error


def _attended(child: subprocess.Popen[str], work: Callable[[], Result], *, grace: float = 10.0) -> Result:
    """Do what waits for a child. If that does not come to its end, the child's process group does.

    The nesting is for the impatient: a second Ctrl-C may come at any moment of the first one's handling.
    """
    ended = False
    try:
        try:
            result = work()
        except BaseException:
            _ask_to_end(child, grace)
            raise
        ended = True
        return result
    finally:
        if not ended:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def _ask_to_end(child: subprocess.Popen[str], grace: float) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGTERM)
    # Its pipes must be drained, or a child that is still printing never gets to see the signal.
    if child.stdout is not None and not child.stdout.closed:
        threading.Thread(target=_drain, args=(child,), daemon=True).start()
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(timeout=grace)


def _drain(child: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ValueError, OSError):
        assert child.stdout is not None
        for _ in child.stdout:
            pass
