"""`.ci/run` around a stand-in of ./run: the exit code, and what is stopped at the end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "run"
# Notes its calls; `engine-start` starts one where the file `bare` says that none runs.
RUN = """\
#!/usr/bin/env bash
echo "$*" >>calls
case "$1" in
    engine-start) if [ -e bare ]; then mkdir -p .slipway/engine; echo "1 2" >.slipway/engine/started; fi ;;
    engine-stop) rm .slipway/engine/started ;;
    check)
        if [ -e waiting ]; then
            trap 'echo interrupted >>calls; exit 130' INT
            echo >waiting
            while :; do sleep 0.05; done
        fi
        mkdir -p .slipway/registry; if [ -e pushes ]; then echo new >.slipway/registry/running.json; fi
        exit "$(cat code)" ;;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / ".ci").mkdir()
    shutil.copy(SCRIPT, tmp_path / ".ci" / "run")
    (tmp_path / "run").write_text(RUN)
    (tmp_path / "run").chmod(0o755)
    (tmp_path / "code").write_text("0")
    return tmp_path


def ci(checkout: Path, *arguments: str) -> tuple[int, list[str]]:
    # From elsewhere: it works in the checkout that it stands in.
    done = subprocess.run(["bash", checkout / ".ci" / "run", *arguments], cwd="/", check=False, timeout=60)
    return done.returncode, (checkout / "calls").read_text().splitlines()


def test_where_an_engine_runs_nothing_is_stopped(checkout: Path) -> None:
    assert ci(checkout) == (0, ["engine-start", "check"])


def test_the_engine_that_it_started_is_stopped(checkout: Path) -> None:
    (checkout / "bare").touch()
    assert ci(checkout) == (0, ["engine-start", "check", "engine-stop"])


def test_an_engine_started_before_from_this_checkout_stays(checkout: Path) -> None:
    (checkout / ".slipway" / "engine").mkdir(parents=True)
    (checkout / ".slipway" / "engine" / "started").write_text("1 2\n")
    assert ci(checkout) == (0, ["engine-start", "check"])


def test_a_failed_check_keeps_its_code_and_stops_the_engine(checkout: Path) -> None:
    (checkout / "bare").touch()
    (checkout / "code").write_text("7")
    assert ci(checkout) == (7, ["engine-start", "check", "engine-stop"])


def test_a_registry_that_the_tests_left_is_stopped(checkout: Path) -> None:
    (checkout / "pushes").touch()
    assert ci(checkout) == (0, ["engine-start", "check", "registry --stop"])


def test_arguments_reach_check(checkout: Path) -> None:
    assert ci(checkout, "--all")[1] == ["engine-start", "check --all"]


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_the_check_and_the_engine(checkout: Path, sent: signal.Signals, code: int) -> None:
    (checkout / "bare").touch()
    os.mkfifo(checkout / "waiting")
    child = subprocess.Popen(["env", "--default-signal=INT,TERM", "bash", checkout / ".ci" / "run"], cwd="/")
    (checkout / "waiting").read_text()
    child.send_signal(sent)
    assert child.wait(timeout=60) == code
    assert (checkout / "calls").read_text().splitlines() == ["engine-start", "check", "interrupted", "engine-stop"]
