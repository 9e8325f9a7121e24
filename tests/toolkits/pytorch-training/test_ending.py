"""The end of an interpreter for which a thread of C waits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from sagemaker_pytorch_container import ending

SOURCE = Path(ending.__file__).parents[1]

# A thread that Python did not start asks for the interpreter's lock, which the script keeps to its end.
SCRIPT = """\
import ctypes, os, sys
sys.path.insert(0, {source!r})
from sagemaker_pytorch_container import ending
said = []
call = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(lambda _: said.append(os.write(1, b"through ")))
held = ctypes.PyDLL(None)  # calls that do not let the lock go
thread = ctypes.c_ulong()
sys.setswitchinterval(600)
assert ending.threads() == 0
held.pthread_create(ctypes.byref(thread), None, call, None)
while ending.threads() == 0:
    pass
assert ending.threads() == 1 and not said
{last}
"""


def run(last: str) -> subprocess.CompletedProcess[str]:
    text = SCRIPT.format(source=str(SOURCE), last=last)
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False)


def test_a_waiting_thread_is_let_through_at_the_end() -> None:
    done = run("ending.register()")
    assert (done.returncode, done.stdout) == (0, "through "), done.stderr


def test_functions_of_the_script_that_run_at_its_end_come_before() -> None:
    done = run(
        "import atexit; ending.register(); atexit.register(lambda: os.write(1, f'{ending.threads()} ahead '.encode()))"
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split()) == ["1", "ahead", "through"]


def test_a_failing_script_keeps_its_exit_code() -> None:
    assert run("ending.register(); sys.exit(7)").returncode == 7


@pytest.mark.parametrize("initialised", [True, False])
def test_threads_that_stay_hold_nothing_up(monkeypatch: pytest.MonkeyPatch, initialised: bool) -> None:
    """Those of autograd on a GPU. The wait is counted, not timed."""
    now = [0.0]
    cuda = type("cuda", (), {"is_initialized": staticmethod(lambda: initialised)})
    monkeypatch.setitem(sys.modules, "torch", type("torch", (), {"cuda": cuda}))
    monkeypatch.setattr(ending, "threads", lambda: 1)
    monkeypatch.setattr(ending.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(ending.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    ending.let_through()
    assert now[0] == pytest.approx(0.05 if initialised else 2.0, abs=0.01)
