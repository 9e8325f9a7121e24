"""Programs of the supply chain: on PATH, or brought by a package into the environment that Slipway runs in."""

from __future__ import annotations

import sys
from pathlib import Path

from slipway import process


def find(name: str) -> str | None:
    """A program's path, or None. PATH goes first: there a person has put it."""
    beside = Path(sys.executable).with_name(name)
    return process.find(name) or (str(beside) if beside.is_file() else None)
