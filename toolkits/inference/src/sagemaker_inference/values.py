"""Text of an environment variable to a value; a ``ValueError`` says what would have been right."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable

MIB = 1024 * 1024

_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")


def flag(text: str) -> bool:
    word = text.lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise ValueError("use true or false")


def integer(low: int, high: int) -> Callable[[str], int]:
    """A parser of whole numbers from low to high, both included."""

    def parse(text: str) -> int:
        # int() also takes "1_0", " 1" and digits of other scripts.
        if re.fullmatch(r"[+-]?[0-9]{1,18}", text) and low <= int(text) <= high:
            return int(text)
        raise ValueError(f"use a whole number from {low} to {high}")

    return parse


def number(low: float, high: float, unit: str) -> Callable[[str], float]:
    """A parser of numbers of a unit, from low to high, both included."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if low <= value <= high:
            return value
        raise ValueError(f"use a number of {unit} from {low:g} to {high:g}")

    return parse


def choice(*words: str) -> Callable[[str], str]:
    """A parser of one of some words, whatever their case and with or without underscores."""
    table = {word.replace("_", "").lower(): word for word in words}

    def parse(text: str) -> str:
        try:
            return table[text.replace("_", "").lower()]
        except KeyError:
            raise ValueError("use " + " or ".join(words)) from None

    return parse


def port_range(text: str) -> tuple[int, int]:
    """``LOW-HIGH``, both ends included."""
    match = re.fullmatch(r"([0-9]{1,5})-([0-9]{1,5})", text)
    if match and 1 <= int(match[1]) <= int(match[2]) <= 65535:
        return int(match[1]), int(match[2])
    raise ValueError("use LOW-HIGH with ports from 1 to 65535, for example 25000-25999")


def log_level(text: str) -> int:
    """A level of the logging module, by number (20) or name (info)."""
    if text.isdecimal() and int(text) <= 100:
        return int(text)
    level = logging.getLevelName(text.upper())
    if isinstance(level, int):
        return level
    raise ValueError("use a number such as 20, or a name such as INFO")


def module_name(text: str) -> str:
    """An entry script's name without its suffix."""
    name = text.removesuffix(".py")
    if not name or name.startswith(("/", ".")) or ".." in name.split("/") or "\0" in name:
        raise ValueError("use the name of a file inside the code folder, for example inference.py")
    return name


def media_type(text: str) -> str:
    if re.fullmatch(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+\s*(;.*)?", text):
        return text
    raise ValueError("use one media type, for example application/json")


def mebibytes(text: str) -> int | None:
    """MiB to bytes; 0 is no limit."""
    return integer(0, 1024 * 1024)(text) * MIB or None


def size_in_bytes(text: str) -> int | None:
    """Bytes; 0 is no limit."""
    return integer(0, 1 << 50)(text) or None


def url_path(text: str) -> str:
    """A path that is not the platform's."""
    taken = ("ping", "invocations", "invocations-bidirectional-stream", "execution-parameters", "models")
    if re.fullmatch(r"(/[A-Za-z0-9._~-]+)+", text) and text.split("/")[1] not in taken:
        return text
    raise ValueError("use a path such as /metrics, which is not one of the platform's")


def folder(text: str) -> str:
    if text.startswith("/"):
        return text.rstrip("/") or "/"
    raise ValueError("use an absolute path")
