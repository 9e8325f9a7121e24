"""Metric definitions applied to a job's log as SageMaker applies them, fast enough for a job that does nothing but log.

Each definition is searched for in each line; its first group is the value. A block of lines is first searched for a
text that every match must hold, which costs next to nothing, and only lines that hold it meet the regex.
"""

from __future__ import annotations

import contextlib
import re
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timezone
from types import FrameType

from slipway.emulator import nearmiss, patterns
from slipway.emulator.metrics import FinalMetric, MetricDefinition, MetricProblem, MetricSummary, MetricValue

PATIENCE = 1.0
"""Seconds of computing that one definition may spend on one line."""

_CANDIDATES = 5
_TICKS = 4
_TOUCHING = frozenset("0123456789.eE+-")
_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")


class _TooSlow(Exception):
    """Raised into a search that has run out of patience."""


class _Series:
    """One definition, and what it has found so far."""

    def __init__(self, definition: MetricDefinition) -> None:
        self.definition = definition
        self._search = re.compile(definition.regex, re.ASCII).search
        self.literal = patterns.literal(definition.regex)
        self.word = nearmiss.word(definition)
        self.count = 0
        self.last: float | None = None
        self.seen: datetime | None = None  # when the last value came
        self.min: float | None = None
        self.max: float | None = None
        self.line = ""  # the one being searched
        self.turn = 0  # odd while a search runs
        self.candidates: list[str] = []
        self.given_up = False
        self.problems: dict[str, MetricProblem] = {}

    def search(self, line: str) -> re.Match[str] | None:
        self.line = line
        self.turn += 1
        found = self._search(line)
        self.turn += 1
        return found

    def give_up(self) -> None:
        """After a search that was cut."""
        self.given_up = True
        self.turn += 1
        self.note("too-slow", f"its regex took more than {PATIENCE:g} s for one line and was given up", self.line)

    def look(self, line: str) -> float | None:
        """The value on a line, if there is one."""
        found = self.search(line)
        if found is None:
            return None
        text = found[1]
        try:
            value = float(text)
        except (TypeError, ValueError):
            self.note("not-a-number", f"it captured {text!r}, which is no number", line)
            return None
        start, end = found.span(1)
        if line[end : end + 1] in _TOUCHING or line[start - 1 : start] in _TOUCHING:
            self._note_part(line, start, end, value)
        self.count += 1
        self.last = value
        if value == value:  # not NaN, which is neither least nor greatest
            self.min = value if self.min is None or value < self.min else self.min
            self.max = value if self.max is None or value > self.max else self.max
        return value

    def note(self, kind: str, what: str, line: str) -> None:
        """Keep the first problem of a kind: those that follow have the same cause."""
        if kind not in self.problems:
            self.problems[kind] = MetricProblem(self.definition.name, kind, what, line)

    def _note_part(self, line: str, start: int, end: int, value: float) -> None:
        """Note a capture that is a part of a number only."""
        captured = line[start:end]
        while start > 0 and line[start - 1] in "0123456789.":
            start -= 1
        # A sign belongs to the number unless it joins it to something: `-0.5`, but not `epoch-5` or `3-5`.
        if line[start - 1 : start] in ("-", "+") and not re.match(r"[\w.)]", line[start - 2 : start - 1]):
            start -= 1
        whole = _NUMBER.match(line, start)
        if whole is not None and whole.end() >= end and float(whole[0]) != value:
            self.note("cut-short", f"it captured {captured} of {whole[0]}", line)


class Meter:
    """Reads the values of metrics from a log that arrives in blocks of whole lines."""

    def __init__(
        self, definitions: Sequence[MetricDefinition], on_value: Callable[[MetricValue], None] | None = None
    ) -> None:
        self._series = [_Series(definition) for definition in definitions]
        self._on_value = on_value
        self._first = self._latest = ""

    def feed(self, block: str) -> None:
        """Look at a block of whole lines."""
        self._first = self._first or block
        self._latest = block
        with _patience(self._series):
            for series in self._series:
                if not series.given_up:
                    self._search(series, block)

    def summaries(self) -> tuple[MetricSummary, ...]:
        return tuple(MetricSummary(s.definition.name, s.count, s.last, s.min, s.max) for s in self._series)

    def finals(self) -> tuple[FinalMetric, ...]:
        """FinalMetricDataList: of each metric that has a value the last one."""
        return tuple(
            FinalMetric(MetricName=s.definition.name, Value=s.last, Timestamp=s.seen)
            for s in self._series
            if s.last is not None and s.seen is not None
        )

    def problems(self) -> tuple[MetricProblem, ...]:
        """What is wrong with the definitions, as far as this log shows it."""
        for series in self._series:
            if series.count == 0 and not series.problems:
                lines = [*series.candidates, *self._first.split("\n")[:50], *self._latest.split("\n")[-50:]]
                self._explain(series, lines)
        return tuple(problem for series in self._series for problem in series.problems.values())

    def _explain(self, series: _Series, lines: Sequence[str]) -> None:
        try:
            with _patience([series]):
                series.note("never-matched", *nearmiss.explain(series.definition, lines, series.search))
        except _TooSlow:
            series.give_up()

    def _search(self, series: _Series, block: str) -> None:
        before = series.count
        try:
            for line in _lines_with(series.literal, block):
                value = series.look(line)
                if value is not None and self._on_value is not None:
                    self._on_value(MetricValue(series.definition.name, value, line))
        except _TooSlow:
            series.give_up()
        if series.count > before:
            series.seen = datetime.now(timezone.utc)
        if series.count == 0 and len(series.candidates) < _CANDIDATES:
            found = (line for line in _lines_with(series.word, block) if nearmiss.likely(series.word, line))
            series.candidates += [line for line, _ in zip(found, range(_CANDIDATES), strict=False)]


def _lines_with(text: str, block: str) -> Iterator[str]:
    """The lines of a block that hold a text."""
    if not text:
        yield from block.removesuffix("\n").split("\n")
        return
    at = block.find(text)
    while at >= 0:
        end = block.find("\n", at)
        if end < 0:
            end = len(block)
        yield block[block.rfind("\n", 0, at) + 1 : end]
        at = block.find(text, end)


@contextlib.contextmanager
def _patience(series: Sequence[_Series]) -> Iterator[None]:
    """Raise _TooSlow into a search that does not end.

    Python's `re` can be stopped by nothing but a signal, and signals reach the main thread only: elsewhere a search
    runs to its end. The clock counts computing time, so that a machine under load cuts nothing short.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ticks, turns = 0, [each.turn for each in series]

    def tick(number: int, frame: FrameType | None) -> None:
        nonlocal ticks, turns
        before, turns = turns, [each.turn for each in series]
        ticks = ticks + 1 if turns == before and any(turn % 2 for turn in turns) else 0
        if ticks == _TICKS:
            raise _TooSlow

    former = signal.signal(signal.SIGVTALRM, tick)
    signal.setitimer(signal.ITIMER_VIRTUAL, PATIENCE / _TICKS, PATIENCE / _TICKS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, former)
