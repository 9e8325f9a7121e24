"""The line of the log that sums up what was served."""

from __future__ import annotations

import pytest
from sagemaker_inference.server import board, metrics
from sagemaker_inference.server.summary import Summary, quantile


@pytest.fixture
def shared():
    return board.Board.create()


def test_a_line_tells_of_the_time_since_the_one_before(shared):
    workers = [metrics.Recorder(shared, number) for number in range(2)]
    summary = Summary(shared)
    assert summary.line(2, 0, 0) == ""
    for status in (200, 404, 500):
        workers[0].answered(status, 0.002)
    workers[1].answered(200, 0.010)
    assert summary.line(2, 0, 0) == (
        "served: requests=4 client-errors=1 server-errors=1 worker-deaths=0"
        " latency-mean-ms=4.000 latency-p50-ms=2.000 latency-p99-ms=9.800"
    )
    assert summary.line(2, 0, 0) == ""
    workers[1].answered(200, 60.0)
    assert summary.line(2, 3, 1) == (
        "served: requests=4 client-errors=0 server-errors=3 worker-deaths=1"
        " latency-mean-ms=60000.000 latency-p50-ms=30000.000 latency-p99-ms=30000.000"
    )
    assert summary.line(2, 4, 1).startswith("served: requests=1 client-errors=0 server-errors=1 ")


@pytest.mark.parametrize(
    ("counts", "share", "seconds"),
    [
        ({}, 0.5, 0.0),
        ({0: 4}, 0.5, 0.0005),
        ({1: 1, 3: 1}, 0.5, 0.0025),
        ({1: 99, 13: 1}, 0.99, 0.0025),
        ({14: 1}, 0.5, 30),
    ],
)
def test_a_share_of_the_requests_is_placed_between_the_bounds(counts, share, seconds):
    assert quantile([counts.get(cell, 0) for cell in range(len(metrics.BOUNDS) + 1)], share) == pytest.approx(seconds)
