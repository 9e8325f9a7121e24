"""Metric definitions, and what they found in a job's log."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, TypedDict

from slipway import tables
from slipway.emulator import patterns
from slipway.errors import Fault

MOST = 40
LONGEST_NAME = 255

_FORM = tables.Form("metric_name", "metric_regex", free=True)


@dataclass(frozen=True)
class MetricDefinition:
    """A name, and the regex whose first group is the value on a line where it is found."""

    name: str
    regex: str


@dataclass(frozen=True)
class Metrics:
    """The definitions of a file, and where accelerate would read it differently."""

    definitions: tuple[MetricDefinition, ...]
    warnings: tuple[Fault, ...]


class MetricValue(NamedTuple):
    """One value that was read from a line."""

    name: str
    value: float
    line: str


@dataclass(frozen=True)
class MetricSummary:
    """What one definition found. `last` is the final metric; None where nothing was found."""

    name: str
    count: int
    last: float | None
    min: float | None
    max: float | None


class FinalMetric(TypedDict):
    """One of FinalMetricDataList, named as the service's MetricData is: a metric's last value, and when it was seen."""

    MetricName: str
    Value: float
    Timestamp: datetime


@dataclass(frozen=True)
class MetricProblem:
    """Something wrong with one definition, seen on a log. `line`: where, or the nearest line to a match.

    `kind`: `never-matched`; `not-a-number`: what it captured is none; `cut-short`: it captured a part of a number;
    `too-slow`: it was given up on.
    """

    name: str
    kind: str
    what: str
    line: str = ""

    def __str__(self) -> str:
        return f"metric {self.name}: {self.what}" + (f" (line: {self.line.strip()[:200]})" if self.line else "")


def read(path: Path) -> Metrics:
    """Read a metrics file (`metric_name<TAB>metric_regex`). Raises InputError with every fault.

    Limits: the service model's MetricDefinitions.
    """
    table = tables.read(path, _FORM)
    table.refuse_repeats("metric_name")
    for row in table.rows:
        name = row.values["metric_name"]
        if len(name) > LONGEST_NAME:
            table.fault(row.line, f"the metric's name has {len(name)} characters", f"{LONGEST_NAME} at most")
        for objection in patterns.objections(row.values["metric_regex"]):
            table.fault(row.line, f"metric {name[:40]}: {objection.what}", objection.fix)
    if len(table.rows) > MOST:
        table.fault(table.rows[MOST].line, f"{len(table.rows)} metrics", f"SageMaker takes {MOST} at most")
    if not table.rows and not table.faults:
        table.warn(None, "the file defines no metric")
    table.close()
    definitions = (MetricDefinition(row.values["metric_name"], row.values["metric_regex"]) for row in table.rows)
    return Metrics(tuple(definitions), tuple(table.warnings))
