"""CUDA in locks: no build for another processor, no other CUDA than the names say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slipway import base, cuda, plan, render
from slipway.errors import SpecError
from slipway.spec import load

from .conftest import SPEC, image_of, lock_all


def test_a_cells_lock_must_hold_its_own_build(project: Path) -> None:
    cpu = image_of(project)
    gpu = replace(cpu, processor="gpu", cuda="13.0")
    assert cuda.faults(cpu, "small==1.0\n") == []
    assert cuda.faults(cpu, "nvidia-cublas==13.1\n") == [
        "its lock holds nvidia-cublas: the CUDA build of its framework"
    ]
    assert cuda.faults(gpu, "small==1.0\n") == ["its lock holds no nvidia-cuda-runtime: the CPU build of its framework"]
    assert cuda.faults(gpu, "nvidia-cuda-runtime==13.0.96\n") == []
    assert cuda.faults(gpu, "nvidia-cuda-runtime-cu12==12.9.79\n") == ["buildspec/ says CUDA 13.0, its lock holds 12.9"]


def test_such_a_cell_is_not_planned(project: Path) -> None:
    gpu = SPEC.replace(
        "cpu:\n        architectures: [amd64, arm64]", 'gpu: {cuda: "13.0", cuda-architectures: [sm_80]}'
    ).split("excluded:")[0]
    (project / "buildspec" / "small.yml").write_text(gpu)
    lock_all(project)
    images = [image for image in load.load(project).buildable if image.processor == "gpu"]
    with pytest.raises(SpecError, match="locks and processors do not fit") as caught:
        plan.plan(images, load.read_sources(project), {"debian12": base.of("debian12")})
    assert "holds no nvidia-cuda-runtime" in str(caught.value)


def test_the_label_names_the_oldest_driver(project: Path) -> None:
    facts = {"revision": "", "created": "", "base": base.of("debian12")}
    gpu = replace(image_of(project), processor="gpu", cuda="12.6")
    assert render.labels(gpu, **facts)[cuda.DRIVER] == "525.60.13"  # type: ignore[arg-type]
    assert cuda.DRIVER not in render.labels(image_of(project), **facts)  # type: ignore[arg-type]
    assert cuda.minimum_driver("99.1") == ""


# What the kernel modules of two drivers say of themselves.
CLOSED = """\
NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023
GCC version:  gcc version 10.2.1 20210110 (Debian 10.2.1-6)
"""
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs-builder)\n"


@pytest.mark.parametrize(("text", "driver"), [(CLOSED, "535.129.03"), (OPEN, "580.95.05"), ("none\n", "")])
def test_a_driver_says_its_version(text: str, driver: str) -> None:
    assert cuda.driver_of(text) == driver


@pytest.mark.parametrize(
    ("driver", "version", "runs"),
    [
        ("535.129.03", "12.6", True),
        ("535.129.03", "13.0", False),
        ("580.65.06", "13.0", True),
        ("580.65.05", "13.0", False),
        ("1000.1", "13.0", True),  # numbers, not letters
        ("525.60.13", "12", True),
        ("470.82.01", "12.2", False),
        ("470.82.01", "11.8", True),
        ("470.82.01", "99.0", True),  # nothing is known against it
    ],
)
def test_which_cuda_runs_under_a_driver(driver: str, version: str, runs: bool) -> None:
    assert cuda.runs_under(driver, version) is runs
