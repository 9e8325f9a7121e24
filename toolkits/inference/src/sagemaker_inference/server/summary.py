"""Requests, errors and latency as a line of the log, for whoever reads metrics from logs by a regex.

The definitions in ``metrics.tsv`` of this package match it. A line tells of the time since the one before; a time
without requests has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sagemaker_inference.server import board, metrics


class _Counts(NamedTuple):
    """What has been counted up to a moment."""

    classes: tuple[int, ...]
    """Answers with 2xx to 5xx."""
    seconds: float
    buckets: tuple[int, ...]
    refused: int
    deaths: int


class Summary:
    """Makes the lines of one server."""

    def __init__(self, shared: board.Board) -> None:
        self._board = shared
        self._before = _Counts((0,) * 4, 0.0, (0,) * (len(metrics.BOUNDS) + 1), 0, 0)

    def line(self, workers: int, refused: int, deaths: int) -> str:
        """What came since the last call; empty when nothing did. workers: places on the board that have been used.

        refused: requests for which there was no place; deaths: of workers, each with the request that it had. Both are
        counted from the start on.
        """
        now, before = _Counts(*metrics.totals(self._board, workers), refused, deaths), self._before
        self._before = now
        answered = [here - there for here, there in zip(now.classes, before.classes, strict=True)]
        buckets = [here - there for here, there in zip(now.buckets, before.buckets, strict=True)]
        requests, newly_refused, died = sum(answered), now.refused - before.refused, now.deaths - before.deaths
        if not (requests or newly_refused or died):
            return ""
        mean = (now.seconds - before.seconds) / requests if requests else 0.0
        times = {"mean": mean, "p50": quantile(buckets, 0.5), "p99": quantile(buckets, 0.99)}
        told = [
            f"requests={requests + newly_refused}",
            f"client-errors={answered[2]}",
            f"server-errors={answered[3] + newly_refused}",
            f"worker-deaths={died}",
            *(f"latency-{name}-ms={1000 * seconds:.3f}" for name, seconds in times.items()),
        ]
        return "served: " + " ".join(told)


def quantile(buckets: Sequence[int], share: float) -> float:
    """Seconds below which that share of the requests took, as near as the histogram's bounds tell; 0 for none."""
    wanted, below = share * sum(buckets), 0
    low = 0.0
    for count, bound in zip(buckets, metrics.BOUNDS, strict=False):
        if count and below + count >= wanted:
            return low + (bound - low) * (wanted - below) / count
        below += count
        low = bound
    return low if below < sum(buckets) else 0.0
