"""Memory: what the container has, what its models take, and whether one more fits."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress

from sagemaker_inference import cgroup

# Version 1 of control groups writes "no limit" as the largest page-aligned number.
_UNLIMITED = 1 << 60


def free(root: str = "/") -> int | None:
    """Bytes that can still be used: below the container's limit, and on the host; None where nothing tells.

    What the limit counts is the working set: file cache that nobody used lately is given up before anything fails.
    """
    values = [value for value in (_free_in_group(root), _meminfo(root).get("MemAvailable")) if value is not None]
    return min(values) if values else None


def oom_kills(root: str = "/") -> int | None:
    """Processes of this container that the kernel killed for memory so far; None where nothing tells."""
    text = cgroup.read("", "memory.events", root) or cgroup.read("memory", "memory.oom_control", root)
    return _table(text).get("oom_kill")


def size_on_disk(folder: str) -> int:
    """Bytes of all files below a folder."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.stat(os.path.join(place, name)).st_size
    return total


def used(pids: Iterable[int], root: str = "/") -> int:
    """Bytes that processes take together: each page that several of them share is counted once."""
    total = 0
    for pid in pids:
        with suppress(OSError), open(os.path.join(root, "proc", str(pid), "smaps_rollup")) as file:
            total += _table(file.read().replace(":", "")).get("Pss", 0) * 1024
    return total


def family(pid: int, root: str = "/") -> Iterator[int]:
    """A process and its descendants."""
    yield pid
    folder = os.path.join(root, "proc", str(pid), "task")
    with suppress(OSError):
        for thread in os.listdir(folder):
            with suppress(OSError), open(os.path.join(folder, thread, "children")) as file:
                for child in file.read().split():
                    yield from family(int(child), root)


def prefer_for_killing(pids: Iterable[int], score: int, root: str = "/") -> None:
    """Says how readily the kernel should kill processes when memory runs out (0 to 1000)."""
    for pid in pids:
        with suppress(OSError), open(os.path.join(root, "proc", str(pid), "oom_score_adj"), "w") as file:
            file.write(str(score))


def _free_in_group(root: str) -> int | None:
    limit = _number(cgroup.read("", "memory.max", root))
    if limit is not None:
        usage, idle = _number(cgroup.read("", "memory.current", root)), "inactive_file"
        stat = _table(cgroup.read("", "memory.stat", root))
    else:
        stat = _table(cgroup.read("memory", "memory.stat", root))
        limit, idle = stat.get("hierarchical_memory_limit"), "total_inactive_file"
        usage = _number(cgroup.read("memory", "memory.usage_in_bytes", root))
    if limit is None or limit >= _UNLIMITED or usage is None:
        return None
    return max(0, limit - max(0, usage - stat.get(idle, 0)))


def _meminfo(root: str) -> dict[str, int]:
    with suppress(OSError), open(os.path.join(root, "proc/meminfo")) as file:
        return {name: kib * 1024 for name, kib in _table(file.read().replace(":", "")).items()}
    return {}


def _table(text: str) -> dict[str, int]:
    """Lines of a word and a number."""
    rows = (line.split() for line in text.splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdigit()}


def _number(text: str) -> int | None:
    return int(text) if text.isdigit() else None
