"""Metric definitions applied to a job's log, line by line, as SageMaker applies them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class MetricDefinition:
    name: str
    regex: str


class MetricValue(NamedTuple):
    """One value that was read from a line."""

    name: str
    value: float
    line: str


@dataclass(frozen=True)
class MetricSummary:
    """What one definition found. `last` is the final metric; None where nothing matched."""

    name: str
    count: int
    last: float | None
    min: float | None
    max: float | None


@dataclass(frozen=True)
class MetricProblem:
    """Something wrong with one definition, seen against the log. `kind`: never-matched, not-a-number, cut-short."""

    name: str
    kind: str
    what: str
    line: str = ""


class _Series:
    def __init__(self, definition: MetricDefinition) -> None:
        self.name = definition.name
        self.search = re.compile(definition.regex, re.ASCII).search
        self.count = 0
        self.last: float | None = None
        self.min: float | None = None
        self.max: float | None = None


class Meter:
    def __init__(
        self, definitions: Sequence[MetricDefinition], on_value: Callable[[MetricValue], None] | None = None
    ) -> None:
        self._series = [_Series(definition) for definition in definitions]
        self._on_value = on_value

    def feed(self, text: str) -> None:
        """Look at a block of whole lines."""
        for line in text.split("\n"):
            for series in self._series:
                found = series.search(line)
                if found is None:
                    continue
                value = float(found[1])
                series.count += 1
                series.last = value
                series.min = value if series.min is None else min(series.min, value)
                series.max = value if series.max is None else max(series.max, value)
                if self._on_value is not None:
                    self._on_value(MetricValue(series.name, value, line))

    def summaries(self) -> tuple[MetricSummary, ...]:
        return tuple(MetricSummary(s.name, s.count, s.last, s.min, s.max) for s in self._series)

    def problems(self) -> tuple[MetricProblem, ...]:
        return ()
