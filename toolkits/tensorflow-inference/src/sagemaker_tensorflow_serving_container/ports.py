"""Ports for what listens on loopback beside the server: a pair, gRPC and REST, for each instance.

Rule tf-port-1. The pairs begin at the low end of SAGEMAKER_SAFE_PORT_RANGE. A pair is held by an abstract Unix socket
for the life of its process, so that two models that load at once never choose the same one; the kernel lets go of it.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from dataclasses import dataclass

GRPC = 9000
REST = 8501

# Without a range: as many instances as one machine may have.
_PAIRS = 64
# A multi-model endpoint leaves a tenth of its range to others.
_SHARE = 0.9


class PortError(ValueError):
    """The range holds too few ports."""


@dataclass(frozen=True)
class Pair:
    grpc: int
    rest: int


def pair(port_range: tuple[int, int] | None, index: int) -> Pair:
    """The ports of an instance: from the range, else 9000 and 8501 upwards. Raises PortError."""
    if not port_range:
        return Pair(GRPC + 2 * index, REST + 2 * index)
    low, high = port_range
    if low + 2 * index + 1 > high:
        raise PortError(
            f"SAGEMAKER_SAFE_PORT_RANGE={low}-{high}: instance {index + 1} needs the ports {low + 2 * index} and "
            f"{low + 2 * index + 1}. Give two ports for each of SAGEMAKER_TFS_INSTANCE_COUNT instances."
        )
    return Pair(low + 2 * index, low + 2 * index + 1)


def count(port_range: tuple[int, int] | None) -> int:
    """How many pairs there are, at least one. Raises PortError for a range of one port."""
    if not port_range:
        return _PAIRS
    pair(port_range, 0)
    return (port_range[1] - port_range[0] + 1) // 2


def of_models(port_range: tuple[int, int] | None) -> list[Pair]:
    """The pairs of a multi-model endpoint: two ports a model from nine tenths of the range."""
    if not port_range:
        return [pair(None, index) for index in range(_PAIRS)]
    low, high = port_range
    return [pair(port_range, index) for index in range(int(_SHARE * (high - low)) // 2)]


class Held:
    """A pair of ports that no other model's process takes meanwhile."""

    def __init__(self, ports: Pair, lock: socket.socket) -> None:
        self.ports = ports
        self._lock = lock

    def release(self) -> None:
        self._lock.close()


def hold_first(pairs: Iterable[Pair]) -> Held:
    """The first pair that is held by nobody and that nothing listens on. Raises PortError."""
    for candidate in pairs:
        lock = _lock(candidate)
        if lock is None:
            continue
        if _free(candidate.grpc) and _free(candidate.rest):
            return Held(candidate, lock)
        lock.close()
    raise PortError("All ports of SAGEMAKER_SAFE_PORT_RANGE are in use: each loaded model takes two of them.")


def _lock(ports: Pair) -> socket.socket | None:
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        lock.bind(f"\0slipway-tensorflow-{ports.rest}")
    except OSError:
        lock.close()
        return None
    return lock


def _free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
