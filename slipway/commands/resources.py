"""What a job's options say of its machines, as text: groups of instances, limits, sizes, warm pools."""

from __future__ import annotations

import re
from collections.abc import Sequence

from slipway.emulator.cluster import InstanceGroup
from slipway.engine.docker import Ulimit
from slipway.errors import Fault, InputError, nearest

_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_LIMITS = (
    *("core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice", "nofile", "nproc"),
    *("rss", "rtprio", "rttime", "sigpending", "stack"),
)


def instance_groups(text: str) -> tuple[InstanceGroup, ...]:
    """`NAME=TYPE:COUNT,NAME=TYPE:COUNT`. Raises InputError with every fault."""
    groups: list[InstanceGroup] = []
    faults: list[Fault] = []
    for item in text.split(",") if text else []:
        found = re.fullmatch(r"\s*([^=]+)=([^:=]+):([0-9]+)\s*", item)
        if found is None:
            faults.append(Fault(f"--instance-groups: {item.strip()!r} is no group", "write NAME=ml.c5.xlarge:2"))
        else:
            groups.append(InstanceGroup(found[1].strip(), found[2].strip(), int(found[3])))
    if faults:
        raise InputError("--instance-groups has faults", faults=faults)
    return tuple(groups)


def size(text: str) -> int:
    """Bytes of `512m`, `2g` and the like, as docker reads them. Raises InputError."""
    found = re.fullmatch(r"([0-9]+)([bkmg]?)", text.lower())
    if found is None or int(found[1]) == 0:
        raise InputError(f"--shm-size {text!r} is no size", fix="write a whole number and k, m or g: 512m")
    return int(found[1]) * _UNITS[found[2]]


def ulimits(given: Sequence[str]) -> tuple[Ulimit, ...]:
    """`NAME=SOFT:HARD`, or `NAME=BOTH`. Raises InputError with every fault."""
    limits: list[Ulimit] = []
    faults: list[Fault] = []
    for item in given:
        found = re.fullmatch(r"([a-z]+)=(-1|[0-9]+)(?::(-1|[0-9]+))?", item)
        if found is None:
            faults.append(Fault(f"--ulimit {item!r} is no limit", "write NAME=SOFT:HARD, as nofile=1024:65536"))
        elif found[1] not in _LIMITS:
            faults.append(Fault(f"--ulimit {item}: no limit is called {found[1]!r}", nearest(found[1], _LIMITS)))
        elif any(limit.name == found[1] for limit in limits):
            faults.append(Fault(f"--ulimit {found[1]} is given twice", "keep one"))
        else:
            limits.append(Ulimit(found[1], int(found[2]), int(found[3] or found[2])))
    if faults:
        raise InputError("--ulimit has faults", faults=faults)
    return tuple(limits)


def pool(name: str) -> str:
    """A warm pool's name, which is a folder's too. Raises InputError."""
    if name and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9-]{0,62}", name):
        raise InputError(f"--warm-pool {name!r} is no name", fix="1 to 63 letters, digits and dashes")
    return name
