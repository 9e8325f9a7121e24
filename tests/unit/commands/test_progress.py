"""What a build shows while it runs: on a terminal, in a pipe, in CI."""

from __future__ import annotations

import io
import re
import time

from slipway.commands.progress import Progress
from slipway.console import Console
from slipway.engine.bake import Step


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def step(text: str = "RUN uv pip install", log: str = "", **facts: float | str | bool) -> Step:
    made = Step("torch-stage", text)
    made._said.extend(log.encode())
    for name, value in facts.items():
        setattr(made, name, value)
    return made


def shown(*steps: Step, err: io.StringIO | None = None, in_ci: bool = False, github: bool = False) -> str:
    err = err or io.StringIO()
    with Progress(Console(out=io.StringIO(), err=err, in_ci=in_ci, github=github)) as progress:
        for one in steps:
            progress.step(one)
    return err.getvalue()


def test_a_terminal_sees_what_runs_with_its_seconds_and_megabytes() -> None:
    running = step("RUN uv pip install", started=time.time() - 3671, megabytes=123.4)
    text = shown(running, err=Terminal())
    drawn = re.search(r"torch-stage +RUN +(\d+) s +123 MB", text)
    assert drawn and 3671 <= int(drawn[1]) < 3800, text


def test_a_step_that_ended_leaves_the_table_and_keeps_a_line() -> None:
    ended = step(started=time.time() - 9)
    err = Terminal()
    with Progress(Console(out=io.StringIO(), err=err)) as progress:
        progress.step(ended)
        ended.seconds, ended.megabytes, ended.done = 8.25, 41.0, True
        progress.step(ended)
        before = len(err.getvalue())
    assert "torch-stage: RUN (8.2 s, 41 MB)" in err.getvalue()
    assert "torch-stage" not in err.getvalue()[before:]


def test_a_pipe_gets_a_line_for_each_step_that_ended() -> None:
    ended = step(log="not shown\n", seconds=61.26, megabytes=905.0, done=True)
    small = step("COPY a b", seconds=0.31, megabytes=0.4, done=True)
    cached = step("ENV a=b", cached=True, done=True)
    failed = step("RUN false", error="exit code: 1", done=True)
    lines = shown(step(started=time.time()), ended, ended, small, cached, failed).splitlines()
    assert lines == [
        "torch-stage: RUN (61.3 s, 905 MB)",
        "torch-stage: COPY (0.3 s)",
        "torch-stage: ENV (cached)",
        "torch-stage: RUN (failed)",
    ]


def test_ci_folds_the_log_of_a_step_that_succeeded() -> None:
    ended = step(log="Collecting torch\nInstalled 20 packages\n", seconds=61.26, megabytes=905.0, done=True)
    title = "torch-stage: RUN (61.3 s, 905 MB)"
    lines = ["Collecting torch", "Installed 20 packages"]
    assert shown(ended, in_ci=True, github=True).splitlines() == [f"::group::{title}", *lines, "::endgroup::"]
    plain = shown(ended, in_ci=True).splitlines()
    assert plain[:-1] == [f"--- {title}", *lines]
    assert shown(step("ENV a=b", cached=True, done=True), in_ci=True) == "torch-stage: ENV (cached)\n"
