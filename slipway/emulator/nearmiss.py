"""Why a metric definition found nothing: the log line that it nearly matched, and what kept it from matching."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Callable, Sequence

from slipway.emulator import patterns
from slipway.emulator.metrics import MetricDefinition

_LONGEST_LINE = 500
_NUMBER = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
_VALUE = rf"(?:{_NUMBER}|[nN]a[nN]|[-+]?[iI]nf(?:inity)?)"


def word(definition: MetricDefinition) -> str:
    """The word by which a line that should have matched is known: the regex's longest, else the metric's own."""
    words = re.findall(r"[A-Za-z][A-Za-z0-9_]+", patterns.literal(definition.regex))
    own = re.split(r"[^A-Za-z0-9_]+", definition.name)[-1]
    return max(words, key=len, default=str(own))


def likely(known_by: str, line: str) -> bool:
    """Whether a number follows the word closely."""
    after = line[line.find(known_by) + len(known_by) :][:40]
    return bool(re.match(rf"\W*(?:[\w.]+\()?[\"']?{_VALUE}", after))


def explain(
    definition: MetricDefinition, lines: Sequence[str], search: Callable[[str], object | None]
) -> tuple[str, str]:
    """What kept the regex from matching, and the nearest of the lines (empty: none is near)."""
    known_by = word(definition)
    numbered = [_around(known_by, line) for line in lines if re.search(r"[0-9]|\b(?:nan|inf)", line, re.IGNORECASE)]
    held = [line for line in numbered if known_by.lower() in line.lower()]
    changes = _changes(known_by)
    for count in (1, 2, 3):
        for line, chosen in itertools.product(held, itertools.combinations(changes, count)):
            changed = line
            causes = [cause for cause, change in chosen if changed != (changed := change(changed))]
            if len(causes) == count and search(changed):
                named = " and ".join(cause.format(prefix=_prefix(known_by, line)) for cause in causes)
                return f"it matched no line: {named}", line
    if held:
        return f"it matched no line; the nearest one that holds {known_by!r} is shown", held[0]
    near = difflib.get_close_matches(patterns.literal(definition.regex) or definition.name, numbered, n=1, cutoff=0.3)
    return f"it matched no line, and none that was kept holds {known_by!r} with a number", near[0] if near else ""


def _around(known_by: str, line: str) -> str:
    """The part of a very long line (a progress bar is one, up to its end) that has the word."""
    if len(line) <= _LONGEST_LINE:
        return line
    begin = max(line.lower().find(known_by.lower()) - _LONGEST_LINE // 2, 0)
    return line[begin : begin + _LONGEST_LINE]


def _prefix(known_by: str, line: str) -> str:
    found = re.search(rf"([\w./-]+){re.escape(known_by)}", line)
    return found[1] if found else ""


def _changes(known_by: str) -> list[tuple[str, Callable[[str], str]]]:
    """What is often printed otherwise than a regex expects, and how the line would have been as expected."""

    def replacing(pattern: str, by: str | Callable[[re.Match[str]], str]) -> Callable[[str], str]:
        return lambda line: re.sub(pattern, by, line)

    word_itself = re.escape(known_by)
    swap = str.maketrans("\"'", "'\"")
    return [
        ("the name is printed with the prefix {prefix!r}", replacing(rf"[\w./-]+({word_itself})", r"\1")),
        ("the number is printed in quotes", replacing(rf"([\"'])({_VALUE})\1", r"\2")),
        (
            "the number is printed as numpy or torch shows it",
            replacing(rf"\b[A-Za-z_][\w.]*\(({_VALUE})[^()]*\)", r"\1"),
        ),
        (
            "double quotes stand where single ones are expected, or the other way round",
            lambda line: line.translate(swap),
        ),
        ("the number is no plain decimal one (its sign, exponent, nan or inf)", replacing(_VALUE, "1.0")),
        ("the name is printed in other letters", replacing(rf"(?i){word_itself}", lambda found: known_by)),
        ("a carriage return ends the line", lambda line: line.rstrip("\r")),
        ("carriage returns of a progress bar stand in the line", lambda line: line.rpartition("\r")[2]),
        ("colour codes stand in the line", replacing(r"\x1b\[[0-9;]*m", "")),
        ("blanks stand otherwise around the separator", replacing(r"\s*([:=])\s*", r"\1 ")),
        ("blanks stand around the separator", replacing(r"\s*([:=])\s*", r"\1")),
        ("the separator is = and not :", replacing(r"\s*=\s*", ": ")),
        ("the separator is : and not =", replacing(r":\s*", "=")),
        ("something stands before the name", replacing(rf"^.*?((?<=\s)[\"']?{word_itself}|{word_itself})", r"\1")),
    ]
