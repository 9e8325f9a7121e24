"""Rounds, ratios and intervals: how a benchmark says whether a figure holds.

Contestants run in turn within a round, so that what else the machine does hits all of them alike. A figure is the
median of the rounds' ratios (or differences); it holds only when the whole 90 % interval of that median lies within its
bound.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

ROUNDS = 7


@dataclass(frozen=True)
class Figure:
    """A measured figure with its 90 % interval, and the bound that it must keep to."""

    name: str
    median: float
    low: float
    high: float
    bound: float

    @property
    def holds(self) -> bool:
        return self.high <= self.bound

    def __str__(self) -> str:
        word = "holds" if self.holds else "DOES NOT HOLD"
        return f"{self.name}: {self.median:.3f} [{self.low:.3f}, {self.high:.3f}], bound {self.bound:g}: {word}"


def measure(contestants: Mapping[str, Callable[[], float]], rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Run every contestant once a round, in an order that turns; returns each one's values in order of rounds."""
    if rounds < ROUNDS:
        raise ValueError(f"a figure needs at least {ROUNDS} rounds, not {rounds}")
    names = list(contestants)
    values: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        turn = number % len(names)
        for name in (*names[turn:], *names[:turn]):
            values[name].append(contestants[name]())
    return values


def plain(name: str, values: Sequence[float], bound: float) -> Figure:
    """The median of the values themselves."""
    return _figure(name, values, bound)


def ratio(name: str, ours: Sequence[float], floor: Sequence[float], bound: float) -> Figure:
    """The median of ours/floor by round."""
    return _figure(name, [mine / theirs for mine, theirs in zip(ours, floor, strict=True)], bound)


def difference(name: str, ours: Sequence[float], floor: Sequence[float], bound: float) -> Figure:
    """The median of ours - floor by round."""
    return _figure(name, [mine - theirs for mine, theirs in zip(ours, floor, strict=True)], bound)


def _figure(name: str, values: Sequence[float], bound: float) -> Figure:
    chance = random.Random(0)
    medians = sorted(statistics.median(chance.choices(values, k=len(values))) for _ in range(2000))
    return Figure(name, statistics.median(values), medians[100], medians[1899], bound)
