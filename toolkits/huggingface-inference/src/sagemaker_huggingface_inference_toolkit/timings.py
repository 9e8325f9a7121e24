"""What each step of a request took, for the log and as a metric."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sagemaker_inference.logging import get_logger

logger = get_logger()

FIRST, STEPS = "preprocess", ("preprocess", "predict", "postprocess")


class Timings:
    """Of one request after the other. Where several are put together, or user functions stand between, none is told."""

    def __init__(self) -> None:
        self._request = 0
        self._spent: dict[str, float] = {}

    @contextmanager
    def step(self, name: str, context: Any) -> Iterator[None]:
        """Measures one of STEPS. The context says which request it belongs to; another one begins anew."""
        if name == FIRST or self._request != id(context):
            self._request, self._spent = id(context), {}
        started = time.perf_counter()
        yield
        self._spent[name] = (time.perf_counter() - started) * 1000

    def tell(self, context: Any) -> None:
        """Logs the steps of a request in milliseconds, and reports their sum as the metric ``Transform Fn``."""
        if set(self._spent) == set(STEPS):
            logger.info("%s", ", ".join(f"{name} {self._spent[name]:.2f} ms" for name in STEPS))
            context.metrics.add_time("Transform Fn", round(sum(self._spent.values()), 2), unit="ms")
        self._spent = {}
