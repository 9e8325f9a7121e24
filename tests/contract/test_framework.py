"""That the framework computes: some of the smoke steps on the CPU, in one container, held to their limits."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from slipway.verify.probing import Report

LIMITS: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[1] / "smoke" / "test_steps.py"))


def judge(tried: Report, *steps: str) -> None:
    """Hold what the steps measured to their limits. Nothing is asked of an image without a framework."""
    if not tried.start.get("framework") and tried.code == 0:
        return
    for step in steps:
        observed = tried.observed(step)
        assert not observed.error, f"{step}: {observed.error}"
        limits = LIMITS["test_" + step.replace(".", "_")]
        given = {"numbers": dict(observed.numbers), "device": "cpu"}
        names = limits.__code__.co_varnames[: limits.__code__.co_argcount]
        limits(**{name: given[name] for name in names})


def test_framework_numerics(tried: Report) -> None:
    judge(tried, "numerics.precision", "numerics.convolution")


def test_framework_training(tried: Report) -> None:
    judge(tried, "training.step", "training.checkpoint")


def test_framework_loader(tried: Report) -> None:
    judge(tried, "training.loader")


def test_framework_serving(tried: Report) -> None:
    judge(tried, "serving.equal")
