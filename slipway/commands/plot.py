"""The curves of a job's metrics as a picture: SVG by itself, other kinds where matplotlib is installed."""

from __future__ import annotations

import importlib.util
import math
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

from slipway.errors import InputError
from slipway.files import write_whole

_OTHER = (".png", ".pdf", ".jpg", ".jpeg", ".webp")
_MOST = 2000
"""Points of a curve that are kept: more than a picture can show."""
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 640, 240, 80, 20, 36, 36


class Curve:
    """The values of one metric by their steps; every other one is dropped when there are too many to draw."""

    def __init__(self) -> None:
        self.points: list[tuple[int, float]] = []
        self._step = 0
        self._stride = 1

    def add(self, value: float) -> None:
        self._step += 1
        if self._step % self._stride or not math.isfinite(value):
            return
        self.points.append((self._step, value))
        if len(self.points) >= 2 * _MOST:
            self._stride *= 2
            self.points = [point for point in self.points if point[0] % self._stride == 0]


@dataclass
class Curves:
    """What is to be drawn into `path`. Raises InputError when nothing here draws that kind of file."""

    path: Path
    _curves: dict[str, Curve] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kind = self.path.suffix.lower()
        if kind != ".svg" and kind not in _OTHER:
            raise InputError(f"--plot {self.path}: no such kind of picture", fix="name a .svg, .png or .pdf file")
        if kind != ".svg" and importlib.util.find_spec("matplotlib") is None:
            what = f"--plot {self.path}: {kind[1:].upper()} needs matplotlib, which is not installed here"
            raise InputError(what, fix=f"pip install matplotlib, or --plot {self.path.with_suffix('.svg')}")
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def add(self, name: str, value: float) -> None:
        self._curves.setdefault(name, Curve()).add(value)

    def draw(self) -> Path | None:
        """Write the picture; None when there is nothing to draw."""
        curves = {name: curve.points for name, curve in self._curves.items() if curve.points}
        if not curves:
            return None
        if self.path.suffix.lower() == ".svg":
            write_whole(self.path, svg(curves))
        else:
            _with_matplotlib(curves, self.path)
        return self.path


def svg(curves: dict[str, list[tuple[int, float]]]) -> str:
    """One panel a metric, below each other."""
    panels = [_panel(name, points, number * _HEIGHT) for number, (name, points) in enumerate(curves.items())]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{len(panels) * _HEIGHT}" '
    return f'{head}font-family="sans-serif" font-size="12">\n<rect width="100%" height="100%" fill="white"/>\n' + (
        "".join(panels) + "</svg>\n"
    )


def _panel(name: str, points: list[tuple[int, float]], offset: int) -> str:
    steps, values = [step for step, _ in points], [value for _, value in points]
    low, high = min(values), max(values)
    middle = [
        f"{_across(step, steps[0], steps[-1], _LEFT, _WIDTH - _RIGHT):.1f},"
        f"{offset + _across(value, low, high, _HEIGHT - _BOTTOM, _TOP):.1f}"
        for step, value in points
    ]
    bottom, top = offset + _HEIGHT - _BOTTOM, offset + _TOP
    drawn = f'<polyline points="{" ".join(middle)}" fill="none" stroke="#1f77b4" stroke-width="1.5"/>'
    if len(points) == 1:
        x, y = middle[0].split(",")
        drawn = f'<circle cx="{x}" cy="{y}" r="3" fill="#1f77b4"/>'
    return "\n".join(
        [
            f'<text x="{_LEFT}" y="{top - 12}" font-weight="bold">{escape(name)}</text>',
            f'<path d="M{_LEFT} {top}V{bottom}H{_WIDTH - _RIGHT}" fill="none" stroke="#888"/>',
            f'<text x="{_LEFT - 6}" y="{top + 4}" text-anchor="end">{high:.4g}</text>',
            f'<text x="{_LEFT - 6}" y="{bottom + 4}" text-anchor="end">{low:.4g}</text>',
            f'<text x="{_LEFT}" y="{bottom + 16}">{steps[0]}</text>',
            f'<text x="{_WIDTH - _RIGHT}" y="{bottom + 16}" text-anchor="end">step {steps[-1]}</text>',
            drawn,
            "",
        ]
    )


def _across(value: float, low: float, high: float, begin: float, end: float) -> float:
    """Where a value lies on the picture; in the middle where all values are one."""
    part = 0.5 if high == low else (value / 2 - low / 2) / (high / 2 - low / 2)  # halves: a difference may overflow
    return begin + part * (end - begin)


def _with_matplotlib(curves: dict[str, list[tuple[int, float]]], path: Path) -> None:
    from matplotlib.figure import Figure  # type: ignore[import-not-found, unused-ignore]

    figure = Figure(figsize=(8, 3 * len(curves)), layout="constrained")
    for axes, (name, points) in zip(figure.subplots(len(curves), squeeze=False)[:, 0], curves.items(), strict=True):
        axes.plot([step for step, _ in points], [value for _, value in points])
        axes.set(title=name, xlabel="step")
    figure.savefig(path)
