"""Processors of this host. Each probe runs once per process and never longer than ten seconds."""

from __future__ import annotations

import functools
import json
import os
import subprocess
from typing import List, Optional

from sagemaker_training import cgroup
from sagemaker_training.logs import logger

_PROBE_SECONDS = 10

# neuron-ls reports physical cores on this type, jobs use the logical ones.
_FIXED_NEURON_CORES = {"trn2.48xlarge": 64}


@functools.cache
def num_cpus() -> int:
    """Logical CPUs that this process may use: the smaller of affinity and quota, at least one."""
    try:
        allowed = len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        allowed = os.cpu_count() or 1
    return max(1, min(allowed, cgroup.cpu_limit() or allowed))


@functools.cache
def num_gpus() -> int:
    """GPUs by ``nvidia-smi``; 0 where it is missing or fails."""
    listing = _probe(["nvidia-smi", "--list-gpus"])
    return sum(line.startswith("GPU ") for line in listing.splitlines()) if listing else 0


@functools.cache
def num_neurons(instance_type: str = "") -> int:
    """Neuron cores by ``neuron-ls``; 0 where it is missing or fails."""
    for name, cores in _FIXED_NEURON_CORES.items():
        if name in instance_type:
            return cores
    listing = _probe(["neuron-ls", "-j"])
    if not listing:
        return 0
    try:
        return sum(int(device["nc_count"]) for device in json.loads(listing))
    except (ValueError, TypeError, KeyError) as error:
        logger.warning("neuron-ls gave an answer that cannot be read (%s): counting no Neuron cores", error)
        return 0


def on_path(program: str) -> bool:
    """Whether there is such a program. Much cheaper than to start it and see."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return any(os.access(os.path.join(folder, program), os.X_OK) for folder in folders)


def _probe(command: List[str]) -> Optional[str]:
    if not on_path(command[0]):
        return None
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except OSError as error:
        logger.warning("%s cannot be started (%s): counting no devices", command[0], error)
        return None
    try:
        answer, _ = process.communicate(timeout=_PROBE_SECONDS)
    except subprocess.TimeoutExpired:
        # Not waited for: a driver that hangs may leave the probe beyond even SIGKILL.
        process.kill()
        logger.warning("%s did not answer in %s s: counting no devices", command[0], _PROBE_SECONDS)
        return None
    except BaseException:
        process.kill()
        raise
    if process.returncode:
        logger.warning("%s failed with exit code %s: counting no devices", command[0], process.returncode)
        return None
    return answer.decode("utf-8", "replace")
