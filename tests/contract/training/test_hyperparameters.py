"""Hyperparameters: what a job is told, as arguments and as variables."""

from __future__ import annotations

import json
from typing import Any

from slipway.verify.jobs import Finished

# By the rules of the reference toolkit: Python's text of a value, dictionaries as sorted key=value.
ARGUMENTS = {
    "batch-size": "64",
    "digits": "0123",
    "empty": "",
    "epochs": "10",
    "k": "5",
    "layers": "[64, 'relu', True]",
    "lr": "0.001",
    "name": "two words",
    "negative": "-1",
    "nothing": "",
    "optimizer": "betas=[0.9, 0.999],eps=None,name=adam",
    "quotes": """it's "quoted" $HOME `id` \\ back""",
    "unicode": "Zürich ✓",
}
BOOLEANS = {"amp": False, "shuffle": True}


def following(job: Finished, name: str) -> str | None:
    """The argument after a hyperparameter's option."""
    arguments = [*job.report["arguments"], None]
    return arguments[arguments.index(option(name)) + 1] if option(name) in arguments else None


def option(name: str) -> str:
    return ("-" if len(name) == 1 else "--") + name


def test_hyperparameters_arguments(job: Finished, hyperparameters: dict[str, Any]) -> None:
    assert ARGUMENTS.keys() | BOOLEANS.keys() == hyperparameters.keys(), "the check does not know what the job was told"
    wrong = [
        f"{option(name)} is followed by {following(job, name)!r}, not by {value!r}"
        for name, value in ARGUMENTS.items()
        if following(job, name) != value
    ]
    assert not wrong, "\n".join(wrong)
    found, wanted = job.report["arguments"][::2], [option(name) for name in sorted(hyperparameters)]
    assert found == wanted, f"the options are {' '.join(found)}, not {' '.join(wanted)}"


def test_hyperparameters_booleans(job: Finished) -> None:
    decoded = json.loads(job.report["variables"]["SM_HPS"])
    wrong = [
        f"{name}={value}: {option(name)} {following(job, name)!r}, {json.dumps(decoded.get(name))} in SM_HPS"
        for name, value in BOOLEANS.items()
        if following(job, name) != str(value) or decoded.get(name) is not value
    ]
    assert not wrong, "\n".join(wrong)


def test_hyperparameters_variables(job: Finished, hyperparameters: dict[str, Any]) -> None:
    variables = job.report["variables"]
    found = json.loads(variables["SM_HPS"])
    others = {name: value for name, value in hyperparameters.items() if name not in BOOLEANS}
    assert {name: found.get(name) for name in others} == others, f"SM_HPS is {variables['SM_HPS']}"
    assert found.keys() == hyperparameters.keys(), f"SM_HPS has other keys: {', '.join(found)}"
    wrong = [
        f"SM_HP_{name.upper()} is {variables.get('SM_HP_' + name.upper())!r}, not {text(value)!r}"
        for name, value in hyperparameters.items()
        if variables.get("SM_HP_" + name.upper()) != text(value)
    ]
    assert not wrong, "\n".join(wrong)


def text(value: Any) -> str:
    """A value as a variable: strings as they are, nothing as nothing, the rest as compact JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def test_hyperparameters_encodings(job: Finished, raw_job: Finished) -> None:
    assert raw_job.report, raw_job.ending()
    encoded, raw = (json.loads(one.report["variables"]["SM_HPS"]) for one in (job, raw_job))
    differing = [name for name in encoded if encoded[name] != raw.get(name)]
    shown = "\n".join(f"{name}: {encoded[name]!r} with quotes, {raw.get(name)!r} without" for name in differing)
    assert not differing, shown
    assert job.report["arguments"] == raw_job.report["arguments"], (
        f"the arguments differ: {raw_job.report['arguments']}"
    )
