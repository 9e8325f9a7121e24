"""Metrics that user functions report through their context: to the log, and to whoever else asked for them."""

from __future__ import annotations

import logging
from collections.abc import Callable

_log = logging.getLogger(__name__)

#: (name, value, unit, model)
Sink = Callable[[str, float, str, str], None]


_sink: Sink | None = None


def set_sink(sink: Sink | None) -> None:
    """Where metrics of this process go from now on, besides the log."""
    global _sink
    _sink = sink


class Metrics:
    """``context.metrics``, with the names of Multi Model Server; idx and dimensions are taken and not used."""

    __slots__ = ("_model",)

    def __init__(self, model: str) -> None:
        self._model = model

    def add_metric(
        self, name: str, value: float, unit: str = "unit", idx: object = None, dimensions: object = None
    ) -> None:
        metric = str(name), float(value), str(unit), self._model
        _log.info("metric %s=%g %s model=%s", *metric)
        if _sink is not None:
            _sink(*metric)

    def add_counter(self, name: str, value: float, idx: object = None, dimensions: object = None) -> None:
        self.add_metric(name, value, "count")

    def add_time(
        self, name: str, value: float, idx: object = None, unit: str = "ms", dimensions: object = None
    ) -> None:
        self.add_metric(name, value, unit)

    def add_size(
        self, name: str, value: float, idx: object = None, unit: str = "MB", dimensions: object = None
    ) -> None:
        self.add_metric(name, value, unit)

    def add_percent(self, name: str, value: float, idx: object = None, dimensions: object = None) -> None:
        self.add_metric(name, value, "percent")

    def add_error(self, name: str, value: float, dimensions: object = None) -> None:
        self.add_metric(name, value, "count")
