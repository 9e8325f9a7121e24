"""A script's arguments as hyperparameters.

SageMaker hands a job hyperparameters, from which a toolkit makes options again: `--key value`, sorted, each with one
value. Much of a command line is lost on that way, so our toolkits prefer the argument vector itself, as JSON in a
hyperparameter of its own, and the ordinary ones are there for SM_HPS and for whoever reads the job's description.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slipway.errors import Fault

VECTOR = "sagemaker_slipway_argv"
"""The reserved hyperparameter: a JSON list of strings, exactly the script's arguments."""

LONGEST_VALUE = 2500
_NEGATIVE = re.compile(r"-(\d|\.\d)")


@dataclass(frozen=True)
class Option:
    """One option of the command line: `name` with its dashes, and its values as typed."""

    name: str
    values: tuple[str, ...]

    @property
    def key(self) -> str:
        """The hyperparameter from which a toolkit makes this option again; empty where none can."""
        word = self.name.lstrip("-")
        dashes = len(self.name) - len(word)
        return word if word and dashes == (1 if len(word) == 1 else 2) else ""

    @property
    def destination(self) -> str:
        """The key under which accelerate sends it: argparse's name of the variable."""
        return self.name.lstrip("-").replace("-", "_")


def options(argv: Sequence[str]) -> tuple[list[Option], list[str]]:
    """A command line's options and its positional values.

    What begins with a dash and is no negative number is an option; it takes the words up to the next one. `--a=b` has
    the value b. After `--` all words are positional.
    """
    found: list[Option] = []
    positional: list[str] = []
    words = list(argv)
    while words:
        word = words.pop(0)
        if word == "--":
            return found, positional + words
        if not _is_option(word):
            positional.append(word)
            continue
        name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        values = [value] if equals else []
        while not equals and words and not _is_option(words[0]):
            values.append(words.pop(0))
        found.append(Option(name, tuple(values)))
    return found, positional


def for_ours(argv: Sequence[str]) -> dict[str, Any]:
    """Hyperparameters for an image of ours: the vector, and beside it those that accelerate would have sent."""
    found, _ = options(argv)
    ordinary = {
        option.destination: accelerates(option.values[0])
        for option in found
        if len(option.values) == 1 and option.destination and not option.destination.startswith("sagemaker_")
    }
    return {**ordinary, **({VECTOR: list(argv)} if argv else {})}


def for_foreign(argv: Sequence[str]) -> tuple[dict[str, Any], list[Fault]]:
    """Hyperparameters from which any toolkit makes the same options again, with a fault for each that it cannot.

    Their order is lost, since toolkits sort them; `--a=b` arrives as `--a b`.
    """
    found, positional = options(argv)
    values: dict[str, Any] = {}
    faults = [_cannot(repr(word), "it belongs to no option", "give it a name") for word in positional]
    for option in found:
        reason, fix = _objection(option, values)
        if reason:
            faults.append(_cannot(option.name, reason, fix))
        else:
            values[option.key] = exact(option.values[0])
    return values, faults


def accelerates(text: str) -> Any:
    """A value as accelerate sends it: what reads as a number is one, whole ones without a fraction.

    Except for what JSON has no number for (nan, inf), which stays text.
    """
    if text in ("True", "False"):
        return text == "True"
    try:
        number = float(text)
    except ValueError:
        return text
    if not math.isfinite(number):
        return text
    return int(number) if number // 1 == number else number


def exact(text: str) -> Any:
    """A value that a toolkit renders as exactly this text: typed where that is so, else the text itself."""
    if text in ("True", "False"):
        return text == "True"
    if re.fullmatch(r"-?(0|[1-9]\d*)(\.\d+)?", text):
        number = json.loads(text)
        return number if str(number) == text else text
    return text


def encode(values: Mapping[str, Any]) -> dict[str, str]:
    """Hyperparameters as SDK v2 sends them: each value as JSON, text too."""
    return {key: json.dumps(value, ensure_ascii=False) for key, value in values.items()}


def _is_option(word: str) -> bool:
    return len(word) > 1 and word.startswith("-") and not _NEGATIVE.match(word)


def _objection(option: Option, before: Mapping[str, Any]) -> tuple[str, str]:
    """Why no hyperparameter expresses an option, and what to do; empty when one does."""
    if not option.values:
        return "a switch without a value", f"let the script read {option.name} True"
    if len(option.values) > 1:
        return f"{len(option.values)} values", "give them as one, separated by commas"
    if not option.key:
        word = option.name.lstrip("-")
        dashes = "one dash" if len(word) == 1 else "two dashes"
        return (
            f"toolkits write {dashes} before it",
            f"rename it, or let the script take {'-' if len(word) == 1 else '--'}{word}",
        )
    if option.key in before:
        return "it is given twice", "give the values as one"
    if option.key.startswith("sagemaker_"):
        return "names that begin with sagemaker_ are kept for toolkits", "rename it"
    return "", ""


def _cannot(shown: str, reason: str, fix: str) -> Fault:
    return Fault(f"{shown}: {reason}, which hyperparameters cannot express to an image that is not ours", fix)
