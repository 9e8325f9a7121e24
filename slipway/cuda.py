"""CUDA as it reaches an image: in wheels, whose versions a lock pins, and which want a driver of the host."""

from __future__ import annotations

import re

from slipway.engine import wheels
from slipway.spec.model import Image

RUNTIME = "nvidia-cuda-runtime"

ARCHITECTURES = "io.slipway.cuda.architectures"
"""The label of GPU images that names what their CUDA code was compiled for: `sm_75 sm_80 compute_90`."""

DRIVER = "io.slipway.nvidia-driver.minimum"
"""The label of GPU images that names the oldest driver under which they run."""

# The oldest driver under which any CUDA of a major version runs; NVIDIA, "CUDA Compatibility", minor version
# compatibility. Datacenter GPUs reach further back with the forward compatibility package, which no image holds.
MINIMUM_DRIVERS = {"11": "450.80.02", "12": "525.60.13", "13": "580.65.06"}


def minimum_driver(cuda: str) -> str:
    """The oldest driver for a CUDA version such as `13.0`; empty where it is not known."""
    return MINIMUM_DRIVERS.get(cuda.partition(".")[0], "")


def driver_of(text: str) -> str:
    """The version in what a driver says of itself (/proc/driver/nvidia/version); empty where it says none."""
    found = re.search(r"Kernel Module\s+(?:for \S+\s+)?(\d+(?:\.\d+)+)", text)
    return found[1] if found else ""


def runs_under(driver: str, cuda: str) -> bool:
    """Whether images of a CUDA version such as `13.0` run under a driver as they are.

    Where they do not, NVIDIA's forward compatibility package can be added for data-center GPUs; it must not be used
    under a driver that is new enough, so no image of ours holds it.
    """
    minimum = minimum_driver(cuda)
    return not minimum or _numbers(driver) >= _numbers(minimum)


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def faults(image: Image, *common: str) -> list[str]:
    """Why common parts of locks do not fit the processor of their cell: a build for another one, or another CUDA."""
    held = {name: version for part in common for name, version in wheels.versions(part)}
    runtime = next((version for name, version in held.items() if name.startswith(RUNTIME)), "")
    if image.processor == "cpu":
        brought = sorted(name for name in held if name.startswith(("nvidia-cuda-", "nvidia-cublas")))
        return [f"its lock holds {', '.join(brought)}: the CUDA build of its framework"] if brought else []
    if not runtime:
        return [f"its lock holds no {RUNTIME}: the CPU build of its framework"]
    found = ".".join(runtime.split(".")[:2])
    return [] if found == image.cuda else [f"buildspec/ says CUDA {image.cuda}, its lock holds {found}"]
