"""A job that was run so that checks may look at it: its result, and everything that it printed and left."""

from __future__ import annotations

import json
import tarfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from slipway.emulator.job import LogLine, TrainingJob, TrainingResult
from slipway.emulator.metrics import MetricValue
from slipway.emulator.training import run_training
from slipway.engine.docker import Engine

READY = "ready to be stopped"
"""The line at which a job is stopped as StopTrainingJob does."""

REPORT = "probe.json"
"""The file in which the probe script leaves what it saw: a file, because the log is itself under test."""


@dataclass(frozen=True)
class Finished:
    """A job that has ended."""

    result: TrainingResult
    lines: tuple[LogLine, ...]
    values: tuple[MetricValue, ...]

    @cached_property
    def log(self) -> bytes:
        """What the first host printed, byte for byte."""
        return self.result.hosts[0].log.read_bytes()

    @cached_property
    def report(self) -> dict[str, Any]:
        """What the script saw; empty when it did not come to write it."""
        found = members(self.result.output).get(REPORT)
        report: dict[str, Any] = json.loads(found) if found else {}
        return report

    @cached_property
    def model(self) -> dict[str, bytes]:
        """The files of model.tar.gz."""
        return members(self.result.model)

    def ending(self) -> str:
        """How it ended, and the last lines of its log: what a reader of a failed check wants to see."""
        tail = self.log.decode("utf-8", "replace").splitlines()[-15:]
        how = f"{self.result.status}, exit code {self.result.exit_code}"
        why = f"failure reason: {self.result.failure_reason or 'none'}"
        return "\n".join([how, why, "the end of its log:", *(line[:300] for line in tail)])


def run(job: TrainingJob, engine: Engine, output: Path) -> Finished:
    """Run a job; it is stopped at the line READY if it prints that."""
    lines: list[LogLine] = []
    values: list[MetricValue] = []
    result = run_training(
        job,
        engine,
        output,
        on_line=lines.append,
        on_metric=values.append,
        stop_when=lambda line: line.text == READY,
    )
    return Finished(result, tuple(lines), tuple(values))


def members(archive: Path | None) -> dict[str, bytes]:
    """The files of a tar.gz by name; empty for none."""
    if archive is None:
        return {}
    found = {}
    with tarfile.open(archive) as tar:
        for member in tar:
            content = tar.extractfile(member)
            if content is not None:
                found[member.name] = content.read()
    return found
