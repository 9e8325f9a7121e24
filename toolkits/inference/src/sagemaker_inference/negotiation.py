"""Media types of requests and answers by RFC 9110: parameters, weights, wildcards."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextvars import ContextVar
from functools import lru_cache
from typing import NamedTuple

from sagemaker_inference import content_types, errors

#: The type that a codec chose from a list, for the answer's header; see ``FunctionService``.
chosen: ContextVar[str | None] = ContextVar("chosen", default=None)

# Longer headers than the platform lets through are handled but not remembered, so that memory stays bounded.
_REMEMBERED = 1024

_OUTSIDE_QUOTES = {
    ",": re.compile(r'(?:"(?:[^"\\]|\\.)*"|[^",])+'),
    ";": re.compile(r'(?:"(?:[^"\\]|\\.)*"|[^";])+'),
}
_CONCRETE = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+", re.ASCII)
_WEIGHT = re.compile(r"[0-9]{0,3}(?:\.[0-9]{0,9})?", re.ASCII)


class ContentType(NamedTuple):
    """A Content-Type header, read."""

    type: str | None
    """Lower case, without parameters; None where the header is missing."""
    charset: str
    text: bool
    """Whether user functions get the body as str."""


class Accept(NamedTuple):
    """An Accept header, read."""

    value: str
    """What user functions get: the header as sent, or the default."""
    first: str
    """The type of an answer whose maker names none: the first concrete one."""
    exact: bool
    """Whether ``value`` is one concrete type."""


def media_type(header: str) -> tuple[str, dict[str, str]]:
    """The type in lower case, and its parameters with names in lower case."""
    kind, semicolon, rest = header.partition(";")
    parameters: dict[str, str] = {}
    for parameter in _split(rest, ";") if semicolon else ():
        name, _, value = parameter.partition("=")
        value = value.strip()
        if value.startswith('"') and value.endswith('"') and len(value) > 1:
            value = re.sub(r"\\(.)", r"\1", value[1:-1])
        parameters.setdefault(name.strip().lower(), value)
    return kind.strip().lower(), parameters


def content_type(header: bytes | None) -> ContentType:
    """Raises nothing: a type that makes no sense is one that no decoder knows."""
    if header is not None and len(header) > _REMEMBERED:
        return _content_type.__wrapped__(header)
    return _content_type(header)


def accept(header: bytes | None, default: str) -> Accept:
    if header is not None and len(header) > _REMEMBERED:
        return _accept.__wrapped__(header, default)
    return _accept(header, default)


def preferred(header: str) -> list[str]:
    """Types and wildcards without parameters, best first; what has weight 0 is left out."""
    return [kind for kind, weight in _by_weight(header) if weight > 0]


def choose(accept: str | None, supported: Sequence[str], default: str) -> str:
    """The type of supported that the client likes best; default where it has no preference.

    Ties go to what the header names first, then to the default, then to the order of supported.
    Raises NotAcceptableError (406) that names what is supported.
    """
    if accept is not None and len(accept) > _REMEMBERED:
        return _choose.__wrapped__(accept, tuple(supported), default)
    return _choose(accept, tuple(supported), default)


@lru_cache(1024)
def _content_type(header: bytes | None) -> ContentType:
    text = "" if header is None else header.decode("latin-1").strip()
    if not text:
        return ContentType(None, "utf-8", False)
    kind, parameters = media_type(text)
    return ContentType(kind, parameters.get("charset") or "utf-8", kind in content_types.UTF8_TYPES)


@lru_cache(1024)
def _accept(header: bytes | None, default: str) -> Accept:
    text = "" if header is None else header.decode("latin-1").strip()
    if text in ("", content_types.ANY):
        text = default
    concrete = [kind for kind in preferred(text) if _CONCRETE.fullmatch(kind)]
    first = concrete[0] if concrete else media_type(default)[0]
    return Accept(text, first, text == first)


@lru_cache(1024)
def _choose(accept: str | None, supported: tuple[str, ...], default: str) -> str:
    default = media_type(default)[0]
    header = (accept or "").strip() or default
    entries = _by_weight(header)
    best: tuple[float, int, bool, int] | None = None
    for index, kind in enumerate(supported):
        place, weight = _match(kind, entries)
        rank = (-weight, place, kind != default, index)
        if weight > 0 and (best is None or rank < best):
            best = rank
    if best is None:
        raise errors.NotAcceptableError(header, supported)
    return supported[best[3]]


def _match(kind: str, entries: list[tuple[str, float]]) -> tuple[int, float]:
    """Place and weight of the most specific entry that covers a type; weight 0 where none does."""
    names = [name for name, _ in entries]
    for pattern in (kind, kind.partition("/")[0] + "/*", content_types.ANY):
        if pattern in names:
            place = names.index(pattern)
            return place, entries[place][1]
    return len(entries), 0.0


def _by_weight(header: str) -> list[tuple[str, float]]:
    entries = []
    for entry in _split(header, ","):
        kind, parameters = media_type(entry)
        if kind:
            # A bare star is what some old clients send for any type.
            entries.append((content_types.ANY if kind == "*" else kind, _weight(parameters.get("q"))))
    return sorted(entries, key=lambda entry: -entry[1])


def _split(text: str, separator: str) -> list[str]:
    """Parts between separators that stand outside quotes.

    In texts longer than the platform lets through, quotes mean nothing: looking for their ends would take time that
    grows with the square of the length.
    """
    if '"' not in text or len(text) > _REMEMBERED:
        return text.split(separator)
    return _OUTSIDE_QUOTES[separator].findall(text)


def _weight(text: str | None) -> float:
    """0 to 1; what is no number is as if it were not there."""
    if not text or text == "." or not _WEIGHT.fullmatch(text):
        return 1.0
    return min(float(text), 1.0)
