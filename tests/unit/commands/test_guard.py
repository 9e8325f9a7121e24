"""Every command ends with its error's own code and one clear word, never with a traceback."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from invoke.exceptions import Exit

from slipway import settings
from slipway.commands.guard import command
from slipway.errors import BuildError, SlipwayError

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def ended(error: BaseException, *, json: bool = False) -> int:
    with pytest.raises(Exit) as caught, command(json):
        raise error
    assert isinstance(caught.value.code, int)
    return caught.value.code


def test_an_error_gives_its_code_and_its_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(BuildError("it broke", fix="mend it")) == 6
    assert capsys.readouterr() == ("", "error: it broke\n  next: mend it\n")


def test_ctrl_c_gives_130(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(KeyboardInterrupt()) == 130
    assert "error: stopped" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("number", "code", "told"),
    [
        (errno.ENOSPC, 7, "no space left on the disk of /x/y"),
        (errno.EDQUOT, 7, "no space left on the disk of /x/y"),
        (errno.EACCES, 1, "/x/y: Permission denied\n  next: see that this user may read and write it"),
        (errno.EROFS, 1, "/x/y: Read-only file system"),
    ],
)
def test_what_the_system_refuses_is_told(capsys: pytest.CaptureFixture[str], number: int, code: int, told: str) -> None:
    assert ended(OSError(number, os.strerror(number), "/x/y")) == code
    assert told in capsys.readouterr().err


def test_machines_get_the_error_as_their_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(SlipwayError("it broke"), json=True) == 1
    assert json.loads(capsys.readouterr().out)["error"]["message"] == "it broke"


def test_our_own_mistakes_keep_their_traceback() -> None:
    with pytest.raises(ZeroDivisionError), command():
        raise ZeroDivisionError


def test_settings_that_are_wrong_end_the_command_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLIPWAY_BASS", "x")
    with pytest.raises(Exit) as caught, command():
        pass
    assert caught.value.code == 3
    assert "SLIPWAY_BASS" in capsys.readouterr().err


def test_flags_are_settings() -> None:
    with command(False, min_free_mb="7", base=None) as (found, _):
        assert found.values["min-free-mb"] == settings.Value("7", "flag --min-free-mb")
        assert found.values["base"].source == "default"


SCRIPT = """\
from slipway.commands.guard import command
from invoke.exceptions import Exit
import sys, time
try:
    with command():
        try:
            print("ready", flush=True)
            time.sleep(600)
        finally:
            print("cleared", flush=True)
except Exit as end:
    sys.exit(end.code)
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_ends_a_command_that_clears_up(name: str) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    child.send_signal(getattr(signal, name))
    out, err = child.communicate(timeout=30)
    assert (child.returncode, out) == (130, "cleared\n")
    assert err == "error: stopped\n"


def test_a_signal_that_is_ignored_stays_so() -> None:
    """`nohup invoke build` goes on when its terminal closes."""
    child = subprocess.Popen(
        ["nohup", sys.executable, "-c", SCRIPT.replace("time.sleep(600)", "sys.stdin.readline()")],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    child.send_signal(signal.SIGHUP)
    child.communicate("\n", timeout=30)
    assert child.returncode == 0


def test_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with command():
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before
