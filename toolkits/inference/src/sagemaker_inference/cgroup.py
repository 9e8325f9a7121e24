"""Files of this container's control groups, of version 1 and 2."""

from __future__ import annotations

import os
from contextlib import suppress

_MOUNT = "/sys/fs/cgroup"


def cpu_quota(root: str = "/") -> int | None:
    """CPUs by quota, rounded up; None without one."""
    text = read("", "cpu.max", root)
    if text:
        quota, _, period = text.partition(" ")
    else:
        quota, period = read("cpu", "cpu.cfs_quota_us", root), read("cpu", "cpu.cfs_period_us", root)
    try:
        limit = -(-int(quota) // int(period))
    except (ValueError, ZeroDivisionError):
        return None
    return limit if limit > 0 else None


def read(controller: str, name: str, root: str = "/") -> str:
    """A file's text: at the own group's path, else at the mount itself, which is a container's view; empty: none.

    controller: empty for version 2.
    """
    mount = os.path.join(root, _MOUNT.lstrip("/"))
    bases = [os.path.join(mount, controller)] if controller else [mount, os.path.join(mount, "unified")]
    own = _own_groups(root).get(controller, "").lstrip("/")
    for base in [*(os.path.join(base, own) for base in bases if own), *bases]:
        with suppress(OSError), open(os.path.join(base, name)) as file:
            return file.read().strip()
    return ""


def _own_groups(root: str) -> dict[str, str]:
    """Controller -> path; the key of version 2 is empty."""
    table = {}
    with suppress(OSError), open(os.path.join(root, "proc/self/cgroup")) as file:
        for line in file:
            controllers, _, path = line.strip().partition(":")[2].partition(":")
            table.update(dict.fromkeys(controllers.split(","), path))
    return table
