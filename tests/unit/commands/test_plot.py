"""Curves of metrics as a picture."""

from __future__ import annotations

import importlib.util
import itertools
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from slipway.commands import plot
from slipway.commands.plot import Curve, Curves
from slipway.errors import InputError


def texts(path: Path) -> list[str]:
    return [element.text or "" for element in ElementTree.parse(path).iter() if element.tag.endswith("text")]


def test_a_panel_a_metric_with_its_bounds(tmp_path: Path) -> None:
    curves = Curves(tmp_path / "new" / "metrics.svg")
    for value in (1.0, 0.25, float("nan"), 0.5):
        curves.add("loss <&>", value)
    curves.add("accuracy", 0.875)
    assert curves.draw() == tmp_path / "new" / "metrics.svg"
    assert texts(curves.path) == ["loss <&>", "1", "0.25", "1", "step 4", "accuracy", "0.875", "0.875", "1", "step 1"]
    drawn = list(ElementTree.parse(curves.path).iter())
    (line,) = (element for element in drawn if element.tag.endswith("polyline"))
    assert line.attrib["points"] == "80.0,36.0 260.0,204.0 620.0,148.0", "x by steps, y by values, NaN left out"
    assert sum(element.tag.endswith("circle") for element in drawn) == 1


def test_values_of_any_size_stay_on_the_picture(tmp_path: Path) -> None:
    curves = Curves(tmp_path / "m.svg")
    for value in (-1.7e308, 1.7e308, 5e-324, float("inf")):
        curves.add("loss", value)
    curves.draw()
    assert 'points="80.0,204.0 350.0,36.0 620.0,120.0"' in curves.path.read_text()


def test_a_long_curve_is_thinned_evenly() -> None:
    curve = Curve()
    for step in range(100_000):
        curve.add(float(step + 1))
    assert plot._MOST <= len(curve.points) < 2 * plot._MOST
    steps = [step for step, _ in curve.points]
    assert {later - earlier for earlier, later in itertools.pairwise(steps)} == {32}
    assert all(step == value for step, value in curve.points)


def test_nothing_to_draw_is_no_file(tmp_path: Path) -> None:
    assert Curves(tmp_path / "m.svg").draw() is None
    assert list(tmp_path.iterdir()) == []


def test_a_png_is_really_drawn(tmp_path: Path) -> None:
    from matplotlib.image import imread

    curves = Curves(tmp_path / "metrics.png")
    for value in (1.0, 0.25, 0.5):
        curves.add("loss", value)
        curves.add("accuracy", 1.0 - value)
    assert curves.draw() == curves.path
    assert curves.path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    pixels = imread(curves.path)[:, :, :3]
    assert pixels.shape == (600, 800, 3)
    # Matplotlib's first colour, which only a curve has: in each metric's half.
    blue = abs(pixels - (0x1F / 255, 0x77 / 255, 0xB4 / 255)).max(axis=2) < 0.02
    assert blue[:300].sum() > 100 and blue[300:].sum() > 100


def test_a_kind_that_nothing_draws_is_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="no such kind of picture"):
        Curves(tmp_path / "m.xyz")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="PNG needs matplotlib") as refused:
        Curves(tmp_path / "m.png")
    assert str(tmp_path / "m.svg") in refused.value.fix
