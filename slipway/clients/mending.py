"""A configuration with what is wrong in a way that leaves no doubt put right."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slipway.clients import accelerate


def mend(path: Path, data: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The file's text without the faults that have one remedy only, and what was done.

    A key that is unknown takes the name that it nearly has, if that is free, else it goes. `NO` that YAML read as false
    and values in other letters are written as they should be. Whatever else is wrong stays for its owner to decide.
    """
    mended: dict[str, Any] = {}
    done = []
    for name, value in data.items():
        known = name if name in accelerate.BY_NAME or name in accelerate.FORMER else _meant(str(name), data)
        if not known:
            done.append(f"{name} removed")
            continue
        if known != name:
            done.append(f"{name} renamed to {known}")
        right = _right(known, value)
        if right != value:
            done.append(f"{known}: {value!r} written as {right!r}")
        mended[known] = right
    return accelerate.dump(mended, path.suffix), done


def _meant(name: str, data: Mapping[str, Any]) -> str:
    free = [key.name for key in accelerate.KEYS if key.name not in data]
    close = difflib.get_close_matches(name, free, n=1, cutoff=0.8)
    return close[0] if close else ""


def _right(name: str, value: Any) -> Any:
    key = accelerate.BY_NAME.get(name)
    if key is None:
        return "NO" if value is False else value  # dynamo_backend
    if value is False:
        return next((choice for choice in key.choices if choice.lower() == "no"), value)
    if isinstance(value, str):
        text = value.strip()
        return next((choice for choice in key.choices if choice.lower() == text.lower()), text)
    return value
