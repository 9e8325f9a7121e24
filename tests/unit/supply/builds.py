"""A record of a build, for tests of what is said about it."""

from __future__ import annotations

from typing import Any

from slipway.records import Build

COMMIT = "4a" * 20


def hexed(digit: str) -> str:
    return digit * 64


def build(**changes: Any) -> Build:
    given: dict[str, Any] = {
        "image": "small-training-1.2.0-cpu-py311",
        "framework": "small",
        "version": "1.2.0",
        "scope": "training",
        "processor": "cpu",
        "python": "3.11",
        "repository": "small-training",
        "tag": "1.2.0-cpu-py311-debian12",
        "reference": "small-training:1.2.0-cpu-py311-debian12-dev",
        "config_digest": f"sha256:{hexed('c')}",
        "engine_id": f"sha256:{hexed('e')}",
        "input_hash": hexed("1"),
        "size": 10,
        "revision": COMMIT,
        "created": "2026-11-30T10:00:00+00:00",
        "base": "bootstrapped debian12 (bookworm)",
        "lock_hash": hexed("2"),
        "built_at": "2026-11-30T12:00:30.500+00:00",
        "seconds": 30.5,
        "layers": (f"sha256:{hexed('b')}", f"sha256:{hexed('d')}"),
        "packages": {"numpy": 5, "bash (Debian)": 5},
    }
    return Build(**{**given, **changes})
