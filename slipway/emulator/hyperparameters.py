"""Hyperparameters as a user gives them: `epochs=2,lr=0.1,layers=[1,2]`, or a JSON file."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from slipway.errors import Fault, InputError

_FIX = "write KEY=VALUE,KEY=VALUE or give a JSON file; a value with a comma goes in quotes or brackets"


def parse(given: str) -> dict[str, Any]:
    """Hyperparameters from the text of the option: a JSON file's path, a JSON object, or pairs.

    A value that is JSON is taken as such (`2`, `0.1`, `true`, `[1, 2]`, `"007"`), any other text as a string. Raises
    InputError with every fault.
    """
    text = given.strip()
    if text.startswith("{"):
        return _object(text, "--hyperparameters")
    if text.endswith(".json") and "=" not in text:
        try:
            return _object(Path(text).read_text(encoding="utf-8-sig"), text)
        except (OSError, UnicodeDecodeError) as error:
            said = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise InputError(f"the hyperparameters cannot be read from {text}: {said}", fix="check the name") from None
    return _pairs(text)


def _object(text: str, name: str) -> dict[str, Any]:
    faults: list[Fault] = []

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in pairs]
        faults.extend(
            Fault(f"{key!r} is given twice", "keep one", name) for key in sorted(set(keys)) if keys.count(key) > 1
        )
        return dict(pairs)

    try:
        data = json.loads(text, object_pairs_hook=unique, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        fault = Fault(f"not valid JSON: {error.msg}", "", name, error.lineno)
        raise InputError("the hyperparameters cannot be read", faults=[fault]) from None
    except ValueError as error:
        raise InputError("the hyperparameters cannot be read", faults=[Fault(str(error), "", name)]) from None
    if not isinstance(data, dict):
        faults.append(Fault("not a JSON object", 'write {"epochs": 2, …}', name))
    if faults:
        raise InputError("the hyperparameters have faults", faults=faults)
    return dict(data)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON number; put it in quotes")


def _pairs(text: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    faults = []
    at = 0
    while at < len(text):
        found = re.compile(r"\s*([^=,\s]+)\s*=\s*").match(text, at)
        if found is None:
            part = text[at:].split(",", 1)[0]
            faults.append(Fault(f"{part.strip()!r} is no KEY=VALUE", _FIX))
            at += len(part) + 1
            continue
        value, at = _value(text, found.end())
        if found[1] in values:
            faults.append(Fault(f"{found[1]!r} is given twice", "keep one"))
        values[found[1]] = value
    if faults:
        raise InputError("--hyperparameters has faults", faults=faults)
    return values


def _value(text: str, at: int) -> tuple[Any, int]:
    """The value that begins at a place, and where the next pair begins."""
    if text[at : at + 1] in ("[", "{", '"'):
        try:
            value, end = json.JSONDecoder(parse_constant=_refuse).raw_decode(text, at)
        except ValueError as error:
            fault = Fault(f"{text[at:]!r} begins like JSON but is none: {error}", _FIX)
            raise InputError("--hyperparameters has faults", faults=[fault]) from None
        rest = re.compile(r"\s*(,|$)").match(text, end)
        if rest is None:
            raise InputError("--hyperparameters has faults", faults=[Fault(f"no comma before {text[end:]!r}", _FIX)])
        return value, rest.end()
    end = text.find(",", at)
    end = len(text) if end < 0 else end
    plain = text[at:end].strip()
    try:
        return json.loads(plain, parse_constant=_refuse), end + 1
    except ValueError:
        return plain, end + 1
