"""How fast the metric reader is: short lines a second with one definition, and with the 40 that SageMaker takes.

python tests/bench/metrics.py [--lines N]

Lines come as from a job on the engine: in blocks of whole lines, bytes that are decoded first. Every tenth line has
each metric. Beside it, as what the job's own values cost: logs of which every line has one.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import figures

from slipway.emulator.meter import Meter
from slipway.emulator.metrics import MOST, MetricDefinition

BLOCK = 1 << 16
PLAIN = "step {0:6d} of 100000, 12.5 examples/s"
VALUE = "step {0:6d} loss={1:.4f} accuracy=0.9"
NAMES = [f"metric_{number}" for number in range(MOST)]
MANY = "step {0:6d} " + " ".join(f"{name}={{1:.4f}}" for name in NAMES[:3])


def blocks(lines: list[str]) -> list[bytes]:
    """A log as blocks of whole lines."""
    made, block = [], bytearray()
    for line in lines:
        block += line.encode() + b"\n"
        if len(block) >= BLOCK:
            made.append(bytes(block))
            block.clear()
    return [*made, bytes(block)]


def log(count: int, valued: str, every: int) -> list[bytes]:
    return blocks([(PLAIN if at % every else valued).format(at, 1 / (at + 1)) for at in range(count)])


def reading(definitions: list[MetricDefinition], text: list[bytes], count: int, values: int) -> Callable[[], float]:
    """Seconds for a million lines."""

    def run() -> float:
        meter = Meter(definitions)
        started = time.perf_counter()
        for block in text:
            meter.feed(block.decode("utf-8", "replace"))
        seconds = time.perf_counter() - started
        assert meter.summaries()[0].count == values, "it read something else than there is"
        return seconds / count * 1e6

    return run


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lines", type=int, default=500_000)
    count = parser.parse_args().lines
    one = [MetricDefinition("loss", r"loss=([-+0-9.e]+)")]
    forty = [MetricDefinition(name, rf"\b{name}=([-+0-9.e]+)") for name in NAMES]
    contestants = {
        "one": reading(one, log(count, VALUE, 10), count, -(-count // 10)),
        "one, every line": reading(one, log(count, VALUE, 1), count, count),
        "forty": reading(forty, log(count, MANY, 10), count, -(-count // 10)),
    }
    for run in contestants.values():
        run()
    values = figures.measure(contestants)
    bounds = {"one": 500_000, "forty": 100_000}
    found = [
        figures.plain(f"s for a million lines, {name} ({bound:,} lines/s)", values[name], 1e6 / bound)
        for name, bound in bounds.items()
    ]
    for figure in found:
        print(figure)
    print(f"every line with a value: {1e6 / sorted(values['one, every line'])[figures.ROUNDS // 2]:,.0f} lines/s")
    return 0 if all(figure.holds for figure in found) else 1


if __name__ == "__main__":
    sys.exit(main())
