"""Secrets out of everything that the toolkit itself writes: by key, by shape, by value.

The script's own output is never touched.
"""

from __future__ import annotations

import os
import re
from typing import Any, Iterable, List, Mapping, Sequence, Tuple

MASK = "******"

# The key list is the SDK's own (it masks the same names in its drivers).
_SECRET_KEY = re.compile(r"SECRET|PASSWORD|KEY|TOKEN|PRIVATE|CREDS|CREDENTIALS", re.IGNORECASE)

_SHAPES: Tuple[Tuple[re.Pattern[str], str], ...] = (
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
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL), MASK),
    # name=value and "name": "value" with a name from the key list
    (
        re.compile(
            r"(?i)((?:secret|password|token|creds|credentials|private[_-]?key|access[_-]?key|api[_-]?key)"
            r"[\w-]{0,64}['\"]?\s*[=:]\s*['\"]?)(?!\s)[^\s'\"&,;]{4,}"
        ),
        r"\1" + MASK,
    ),
)

# Forty characters of base64 on their own are an AWS secret key, unless they are a digest or a word.
_FORTY = re.compile(r"(?<![A-Za-z0-9/+=_-])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=_-])")
_MIXED = tuple(re.compile(pattern) for pattern in ("[A-Z]", "[a-z]", "[0-9]"))

# Shorter values are words that occur by chance; replacing them would spoil the text.
_SHORTEST_VALUE = 8

_values: List[str] = []


def is_secret(key: object) -> bool:
    """Whether a value goes under a name that says it is secret."""
    return bool(_SECRET_KEY.search(str(key)))


def mapping(value: Any, key: object = "") -> Any:
    """A copy of nested data with the values of secret keys masked, and strings masked by shape."""
    if isinstance(value, Mapping):
        return {name: mapping(item, name) for name, item in value.items()}
    if value not in (None, "", True, False) and is_secret(key):
        return MASK
    if isinstance(value, (list, tuple)):
        return [mapping(item) for item in value]
    return text(value) if isinstance(value, str) else value


def arguments(argv: Sequence[str]) -> List[str]:
    """A copy of a command line with the values of secret options masked."""
    masked: List[str] = []
    hide_next = False
    for argument in argv:
        option, equals, _ = argument.partition("=")
        if hide_next:
            masked.append(MASK)
        elif argument.startswith("-") and equals and is_secret(option):
            masked.append(f"{option}={MASK}")
        else:
            masked.append(text(argument))
        hide_next = argument.startswith("-") and not equals and is_secret(option) and not hide_next
    return masked


def text(line: str) -> str:
    """A text with known secret values and everything that looks like a secret masked."""
    for value in _values:
        if value in line:
            line = line.replace(value, MASK)
    for shape, replacement in _SHAPES:
        line = shape.sub(replacement, line)
    return _FORTY.sub(_secret_key, line)


def _secret_key(match: re.Match[str]) -> str:
    return MASK if all(kind.search(match[0]) for kind in _MIXED) else match[0]


def learn(pairs: Mapping[str, Any]) -> None:
    """Remembers the values of secret keys, so that ``text`` finds them wherever they turn up."""
    remember(value for key, value in pairs.items() if is_secret(key))


def remember(values: Iterable[Any]) -> None:
    """Remembers secret values."""
    for value in values:
        secret = str(value)
        # A path is where a secret lies, not the secret; it belongs into error messages.
        if len(secret) >= _SHORTEST_VALUE and not os.path.isabs(secret) and secret not in _values:
            _values.append(secret)
    _values.sort(key=len, reverse=True)
