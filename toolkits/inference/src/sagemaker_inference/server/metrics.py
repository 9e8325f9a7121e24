"""Metrics in Prometheus's text format: counted by each worker on the board, added up by the supervisor when asked.

So a scrape needs no worker, and what a worker counted is still there when it is dead.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from sagemaker_inference.server import board

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Seconds: upper bounds of the histogram."""

# Cells from board.METRICS on.
_CLASSES = 0  # answers with 1xx, 2xx, … 5xx
_SECONDS = 5
_LOAD = 6
_BUCKETS = 7


class Recorder:
    """What one worker counts."""

    def __init__(self, shared: board.Board, worker: int) -> None:
        first = board.worker_cell(worker) + board.METRICS
        self._words = shared.words
        self._times = shared.times
        self._classes = first + _CLASSES
        self._seconds = first + _SECONDS
        self._load = first + _LOAD
        self._buckets = first + _BUCKETS

    def loaded(self, seconds: float) -> None:
        self._times[self._load] = seconds

    def answered(self, status: int, seconds: float) -> None:
        """One invocation, from the call of the functions to the last byte."""
        self._words[self._classes + min(status, 599) // 100 - 1] += 1
        self._times[self._seconds] += seconds
        self._words[self._buckets + bisect_left(BOUNDS, seconds)] += 1


class Gauges(NamedTuple):
    """What the supervisor knows by itself."""

    ready: int
    planned: int
    deaths: int
    waiting: int
    refused: int
    memory: Mapping[int, int]
    """Worker -> bytes."""


def render(shared: board.Board, workers: int, gauges: Gauges) -> bytes:
    """The whole text. workers: how many places on the board have been used."""
    firsts = [board.worker_cell(number) + board.METRICS for number in range(workers)]
    lines = [
        *_family("requests_total", "counter", "Invocations answered, by class of status.", _classes(shared, firsts)),
        *_histogram(shared, firsts),
        *_family("model_load_seconds", "gauge", "Time that the last load took.", _loads(shared, firsts)),
        *_family("workers_ready", "gauge", "Workers that serve.", [("", gauges.ready)]),
        *_family("workers_planned", "gauge", "Workers that there should be.", [("", gauges.planned)]),
        *_family("worker_deaths_total", "counter", "Workers that died.", [("", gauges.deaths)]),
        *_family("queue_length", "gauge", "Requests that wait for a worker.", [("", gauges.waiting)]),
        *_family("queue_refused_total", "counter", "Requests refused since too many waited.", [("", gauges.refused)]),
        *_family(
            "worker_memory_bytes",
            "gauge",
            "Resident memory of a worker, what it shares with others included.",
            [(f'{{worker="{number}"}}', size) for number, size in sorted(gauges.memory.items())],
        ),
    ]
    return ("\n".join(lines) + "\n").encode()


def totals(shared: board.Board, workers: int) -> tuple[tuple[int, ...], float, tuple[int, ...]]:
    """Answers by class from 2xx on, the seconds that all took, and the histogram's cells, not added up."""
    firsts = [board.worker_cell(number) + board.METRICS for number in range(workers)]
    classes = tuple(count for _, count in _classes(shared, firsts))
    cells = range(_BUCKETS, _BUCKETS + len(BOUNDS) + 1)
    buckets = tuple(sum(shared.words[first + cell] for first in firsts) for cell in cells)
    return classes, sum(shared.times[first + _SECONDS] for first in firsts), buckets


def resident(pid: int) -> int:
    """Bytes of a process in memory; 0 when it is gone. Unlike its exact share, this takes no time to find out."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _family(name: str, kind: str, meaning: str, samples: Iterable[tuple[str, float]]) -> Iterator[str]:
    yield f"# HELP slipway_{name} {meaning}"
    yield f"# TYPE slipway_{name} {kind}"
    for labels, value in samples:
        yield f"slipway_{name}{labels} {value:g}" if isinstance(value, float) else f"slipway_{name}{labels} {value}"


def _classes(shared: board.Board, firsts: list[int]) -> Iterator[tuple[str, int]]:
    for index in range(1, 5):
        yield f'{{code="{index + 1}xx"}}', sum(shared.words[first + _CLASSES + index] for first in firsts)


def _loads(shared: board.Board, firsts: list[int]) -> Iterator[tuple[str, float]]:
    for number, first in enumerate(firsts):
        yield f'{{worker="{number}"}}', shared.times[first + _LOAD]


def _histogram(shared: board.Board, firsts: list[int]) -> Iterator[str]:
    name = "slipway_request_seconds"
    yield f"# HELP {name} Time from the call of the model's functions to the end of the answer."
    yield f"# TYPE {name} histogram"
    total = 0
    for index, bound in enumerate((*BOUNDS, "+Inf")):
        total += sum(shared.words[first + _BUCKETS + index] for first in firsts)
        yield f'{name}_bucket{{le="{bound}"}} {total}'
    yield f"{name}_sum {sum(shared.times[first + _SECONDS] for first in firsts):.6f}"
    yield f"{name}_count {total}"
