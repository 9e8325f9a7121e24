"""Other programs: argument lists, whole groups ended, the last lines in the failure."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from slipway import process
from slipway.errors import ProgramError

from .conftest import ROOT

# Starts a grandchild that would live for ten minutes, says both ids, and waits.
PARENT = """\
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(os.getpid(), child.pid, flush=True)
{more}
time.sleep(600)
"""


def python(code: str, *more: str) -> list[str]:
    return [sys.executable, "-c", code, *more]


def gone(pid: int) -> bool:
    """Whether a process has ended, or does so soon: it was killed, and the kernel takes a moment."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], 10)[0])
    finally:
        os.close(handle)


def test_words_reach_the_program_as_they_are() -> None:
    words = ["$HOME", "a b", "; ls", "`id`", "*"]
    done = process.run(python("import sys; print(sys.argv[1:])", *words))
    assert done.stdout == f"{words}\n"
    assert (done.code, done.argv[-1]) == (0, "*")


def test_what_is_printed_is_read_as_utf_8_whatever_the_locale() -> None:
    inner = "import sys; sys.stdout.buffer.write(bytes([0xC3, 0xBC, 0xFF]))"
    script = (
        f"import sys; from slipway import process; print(ascii(process.run([sys.executable, '-c', {inner!r}]).stdout))"
    )
    plain = {**os.environ, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=plain, capture_output=True, text=True, check=True
    )
    assert done.stdout == ascii("ü\ufffd") + "\n"


def test_environment_folder_and_input_are_handed_over(tmp_path: Path) -> None:
    code = "import os, sys; print(os.environ['SAID'], os.environ['PATH'] != '', os.getcwd(), sys.stdin.read())"
    done = process.run(python(code), env={"SAID": "x"}, cwd=tmp_path, stdin="given")
    assert done.stdout == f"x True {tmp_path} given\n"


def test_a_failure_ends_with_the_last_lines() -> None:
    code = "import sys; [print('line', n, file=sys.stderr) for n in range(100)]; sys.exit(3)"
    with pytest.raises(ProgramError) as caught:
        process.run(python(code), fix="mend it")
    assert "ended with exit code 3; its last lines:" in caught.value.message
    assert "line 99" in caught.value.message
    assert "line 59" not in caught.value.message
    assert caught.value.fix == "mend it"
    assert process.run(python(code), check=False).code == 3


def test_a_failure_that_said_nothing_on_standard_error_shows_standard_output() -> None:
    with pytest.raises(ProgramError, match="    out"):
        process.run(python("import sys; print('out'); sys.exit(1)"))


def test_a_killed_program_names_the_signal() -> None:
    with pytest.raises(ProgramError, match="was ended by signal 9"):
        process.run(python("import os; os.kill(os.getpid(), 9)"))


def test_a_missing_program_is_told_with_what_to_do() -> None:
    with pytest.raises(ProgramError, match="cannot run no-such-program") as caught:
        process.run(["no-such-program"])
    assert caught.value.fix == "install no-such-program"
    assert process.find("no-such-program") is None


def test_a_file_that_is_no_program_is_told(tmp_path: Path) -> None:
    (tmp_path / "p").write_bytes(b"\x00\x01")
    (tmp_path / "p").chmod(0o755)
    with pytest.raises(ProgramError, match="Exec format error"):
        process.run([tmp_path / "p"])


def test_a_time_limit_ends_the_whole_group(tmp_path: Path) -> None:
    more = "open(sys.argv[1], 'w').write(f'{os.getpid()} {child.pid}')"
    with pytest.raises(ProgramError, match="did not end within 2 s"):
        process.run(python(PARENT.format(more=more), str(tmp_path / "ids")), timeout=2)
    assert all(gone(int(pid)) for pid in (tmp_path / "ids").read_text().split())


def test_lines_come_one_by_one_from_both_streams() -> None:
    lines: list[str] = []
    code = "import sys; print('a\\rb', flush=True); print('c', file=sys.stderr); sys.exit(2)"
    assert process.stream(python(code), lines.append, check=False) == 2
    assert lines == ["a", "b", "c"]
    with pytest.raises(ProgramError, match="exit code 2; its last lines:\n    a\n    b\n    c"):
        process.stream(python(code), lines.append)


@pytest.mark.parametrize("more", ["", "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf')"])
def test_an_error_while_reading_ends_the_whole_group(more: str) -> None:
    ids: list[int] = []

    def on_line(line: str) -> None:
        if line != "deaf":
            ids.extend(map(int, line.split()))
        if (line == "deaf") == bool(more):
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        process.stream(python(PARENT.format(more=f"{more}; sys.stdout.flush()" if more else "")), on_line, grace=0.5)
    assert len(ids) == 2
    assert all(gone(pid) for pid in ids)


def test_a_second_ctrl_c_does_not_leave_the_program_behind() -> None:
    # The program ignores SIGTERM, so that the first Ctrl-C waits for the grace to pass.
    deaf = "signal.signal(signal.SIGTERM, lambda *_: print('asked', flush=True)); print('deaf', flush=True)"
    script = (
        "import sys\n"
        "from slipway import process\n"
        "process.stream(sys.argv[1:], lambda line: print(line, flush=True), grace=600)\n"
    )
    inner = python(f"import signal\n{PARENT.format(more=deaf)}\ntime.sleep(600)")
    outer = subprocess.Popen(
        [sys.executable, "-c", script, *inner], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert outer.stdout is not None
    ids = [int(pid) for pid in outer.stdout.readline().split()]
    assert outer.stdout.readline() == "deaf\n"
    outer.send_signal(signal.SIGINT)
    outer.send_signal(signal.SIGINT)
    for _ in range(100):  # two that come at once are one: ask until it hears the second
        outer.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            outer.wait(0.2)
            break
    assert outer.poll() is not None
    assert all(gone(pid) for pid in ids)


def test_a_detached_program_writes_its_log(tmp_path: Path) -> None:
    pid = process.detach(python("print('said')"), cwd=tmp_path, log=tmp_path / "log")
    assert pid > 0
    for _ in range(500):
        if (tmp_path / "log").read_text() == "said\n":
            break
        os.sched_yield()
        signal.sigtimedwait([], 0.02)
    assert (tmp_path / "log").read_text() == "said\n"
    with pytest.raises(ProgramError, match="cannot run no-such-program"):
        process.detach(["no-such-program"], cwd=tmp_path, log=tmp_path / "log")
