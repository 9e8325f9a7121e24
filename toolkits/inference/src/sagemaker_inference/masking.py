"""Secrets out of everything that the toolkit itself writes: by key, by shape, by value.

What a model prints is never touched.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

MASK = "******"

# The SDK masks values under these names too.
_SECRET_KEY = re.compile(r"SECRET|PASSWORD|KEY|TOKEN|PRIVATE|CREDS|CREDENTIALS", re.IGNORECASE)

_SHAPES: tuple[tuple[re.Pattern[str], str], ...] = (
    # scheme://user:password@host and scheme://token@host
    (re.compile(r"(?<=://)[^/\s@'\"]+(?=@)"), MASK),
    # AWS access key ids
    (re.compile(r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"), MASK),
    # AWS session tokens
    (re.compile(r"\b(?:IQoJ|FwoG|FQoG)[A-Za-z0-9/+=]{60,}"), MASK),
    # tokens of code hosts and model hubs
    (re.compile(r"\b(?:gh[pousr]_|github_pat_|glpat-|hf_|sk-|xox[abp]-)[A-Za-z0-9_-]{16,}"), MASK),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{16,}"), r"\1 " + MASK),
    # JSON web tokens, which CodeArtifact and others hand out
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.?[A-Za-z0-9_.-]*"), MASK),
    # name=value and "name": "value" with a name from the key list
    (
        re.compile(
            r"(?i)((?:secret|password|token|creds|credentials|private[_-]?key|access[_-]?key|api[_-]?key)"
            r"[\w-]{0,64}['\"]?\s*[=:]\s*['\"]?)(?!\s)[^\s'\"&,;]{4,}"
        ),
        r"\1" + MASK,
    ),
)

# Shorter values are words that occur by chance; replacing them would spoil the text.
_SHORTEST_VALUE = 8

_values: list[str] = []


def is_secret(key: str) -> bool:
    """Whether a value goes under a name that says it is secret."""
    return bool(_SECRET_KEY.search(key))


def text(line: str) -> str:
    """A text with known secret values and everything that looks like a secret masked."""
    for value in _values:
        line = line.replace(value, MASK)
    for shape, replacement in _SHAPES:
        line = shape.sub(replacement, line)
    return line


def learn(pairs: Mapping[str, str]) -> None:
    """Remembers the values of secret keys, so that ``text`` finds them wherever they turn up."""
    remember(value for key, value in pairs.items() if is_secret(key))


def remember(values: Iterable[str]) -> None:
    """Remembers secret values."""
    for value in values:
        # A path is where a secret lies, not the secret; it belongs into error messages.
        if len(value) >= _SHORTEST_VALUE and not os.path.isabs(value) and value not in _values:
            _values.append(value)
    _values.sort(key=len, reverse=True)
