"""What user functions report through ``context.metrics``: told by the workers, added up by the supervisor."""

from __future__ import annotations

import json
import logging
import math
import socket
from collections.abc import Iterator
from contextlib import suppress

from sagemaker_inference import metrics_sink
from sagemaker_inference.server import channel

MOST_NAMES = 500
"""Names and units that are kept apart, so that one made anew for each request takes no memory without end."""
_NAME_CHARACTERS = 200

logger = logging.getLogger("sagemaker_inference.server")


def tell_on(link: socket.socket) -> None:
    """Has what this worker's functions report told on its channel."""

    def sink(name: str, value: float, unit: str, model: str) -> None:
        # A sum that is not finite once would be so for ever; the log has the value.
        if math.isfinite(value):
            text = json.dumps([name[:_NAME_CHARACTERS], value, unit[:_NAME_CHARACTERS]])
            # That the supervisor is gone is noticed elsewhere.
            with suppress(OSError):
                link.send(channel.METRIC + text.encode())

    metrics_sink.set_sink(sink)


class Reported:
    """Sums and counts by name and unit, over all workers and their deaths."""

    def __init__(self) -> None:
        self._totals: dict[tuple[str, str], tuple[float, int]] = {}
        self._full = False

    def add(self, text: bytes) -> None:
        """Takes one message of a worker."""
        name, value, unit = json.loads(text)
        if (name, unit) not in self._totals and len(self._totals) >= MOST_NAMES:
            if not self._full:
                self._full = True
                logger.warning(
                    "more than %d metrics are reported: %r and other new ones are in the log alone", MOST_NAMES, name
                )
            return
        total, count = self._totals.get((name, unit), (0.0, 0))
        self._totals[name, unit] = total + value, count + 1

    def render(self) -> bytes:
        """In Prometheus's text format; nothing where nothing was reported."""
        return "".join(f"{line}\n" for line in self._lines()).encode()

    def _lines(self) -> Iterator[str]:
        if not self._totals:
            return
        yield "# HELP slipway_reported What the model's functions reported through context.metrics."
        yield "# TYPE slipway_reported summary"
        for (name, unit), (total, count) in sorted(self._totals.items()):
            labels = f'{{name="{_escaped(name)}",unit="{_escaped(unit)}"}}'
            yield f"slipway_reported_sum{labels} {total:.12g}"
            yield f"slipway_reported_count{labels} {count}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
