"""What the container may use and what happened to it, from control groups of version 1 and 2."""

from __future__ import annotations

import os
from typing import Dict, List, Optional

_MOUNT = "/sys/fs/cgroup"


def cpu_limit(root: str = "/") -> Optional[int]:
    """CPUs by quota, rounded up; None without a limit."""
    text = _read(root, "", "cpu.max")
    if text:
        quota, _, period = text.partition(" ")
    else:
        quota = _read(root, "cpu", "cpu.cfs_quota_us")
        period = _read(root, "cpu", "cpu.cfs_period_us")
    try:
        limit = -(-int(quota) // int(period))
    except (ValueError, ZeroDivisionError):
        return None
    return limit if limit > 0 else None


def oom_kills(root: str = "/") -> int:
    """Processes that the kernel has killed for memory in this container so far."""
    text = _read(root, "", "memory.events") or _read(root, "memory", "memory.oom_control")
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if key == "oom_kill" and value.strip().isdigit():
            return int(value)
    return 0


def memory_limit(root: str = "/") -> Optional[int]:
    """Bytes; None without a limit."""
    text = _read(root, "", "memory.max") or _read(root, "memory", "memory.limit_in_bytes")
    # Version 1 writes "no limit" as the largest page-aligned number.
    return int(text) if text.isdigit() and int(text) < 1 << 60 else None


def _read(root: str, controller: str, name: str) -> str:
    for folder in _folders(root, controller):
        try:
            with open(os.path.join(folder, name)) as file:
                return file.read().strip()
        except OSError:
            continue
    return ""


def _folders(root: str, controller: str) -> List[str]:
    """Where the files may be: at the own group's path, else at the mount itself (a container's view)."""
    mount = os.path.join(root, _MOUNT.lstrip("/"))
    own = _own_groups(root).get(controller, "/").lstrip("/")
    mounts = [os.path.join(mount, controller)] if controller else [mount, os.path.join(mount, "unified")]
    return [os.path.join(base, own) for base in mounts if own] + mounts


def _own_groups(root: str) -> Dict[str, str]:
    """Controller -> path; the key of version 2 is empty."""
    try:
        with open(os.path.join(root, "proc/self/cgroup")) as file:
            lines = file.read().splitlines()
    except OSError:
        return {}
    table = {}
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for controller in controllers.split(","):
            table[controller] = path
    return table
