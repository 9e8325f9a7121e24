"""How many workers this container can run, and what each may use."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress

from sagemaker_inference import cgroup, memory
from sagemaker_inference.server import board

_DEVICE = re.compile(r"nvidia\d+")
_KEPT_FREE = 0.1
"""Of the free memory, for what requests need."""
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_THREADS = "OMP_NUM_THREADS"


def cpus(root: str = "/") -> int:
    """CPUs that this container may use: the smaller of affinity and quota, at least one."""
    allowed = len(os.sched_getaffinity(0))
    return max(1, min(allowed, cgroup.cpu_quota(root) or allowed))


def gpus(environ: Mapping[str, str], root: str = "/") -> int:
    """GPUs that processes of this container see, without asking a driver for it."""
    visible = environ.get(_VISIBLE)
    if visible is not None:
        names = [name.strip() for name in visible.split(",")]
        # CUDA ends the list at the first name that is none.
        valid = names[: names.index("-1")] if "-1" in names else names
        return len([name for name in valid if name])
    with suppress(OSError):
        return len([name for name in os.listdir(os.path.join(root, "dev")) if _DEVICE.fullmatch(name)])
    return 0


def by_hardware(environ: Mapping[str, str]) -> int:
    """Workers by default, before anything is known of the model."""
    return min(gpus(environ) or cpus(), board.WORKERS - 1)


def by_memory(wanted: int, first_worker: int) -> tuple[int, int]:
    """(workers that fit, bytes of the first one), when one is loaded."""
    size = memory.used(memory.family(first_worker))
    free = memory.free()
    if free is None or size <= 0:
        return wanted, size
    return max(1, min(wanted, 1 + int(free * (1 - _KEPT_FREE)) // size)), size


def variables(environ: Mapping[str, str], workers: int) -> dict[str, str]:
    """What a worker's environment has beside the container's own."""
    added = {"PYTHONUNBUFFERED": "1"}
    if not environ.get(_THREADS):
        # Else every worker would start a thread for each CPU, and all of them would wait for each other.
        added[_THREADS] = str(max(1, cpus() // workers))
    return added
