"""A script's arguments, from the command line to hyperparameters and back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.clients import arguments

TYPED = ["--id", "007", "--neg", "-1", "--flag", "--a=b", "--layers", "1", "2", "3", "first", "--lr", "1e-3", "-e", "3"]


def test_an_image_of_ours_gets_the_vector_as_typed_beside_what_accelerate_sends() -> None:
    sent = arguments.encode(arguments.for_ours(TYPED))
    assert json.loads(sent.pop(arguments.VECTOR)) == TYPED
    assert sent == {"id": "7", "neg": "-1", "a": '"b"', "lr": "0.001", "e": "3"}


def test_no_arguments_no_hyperparameters() -> None:
    assert arguments.for_ours([]) == {}
    assert arguments.for_foreign([]) == ({}, [])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("2", 2),
        ("1.0", 1),
        ("007", 7),
        ("1_000", 1000),
        ("True", True),
        ("true", "true"),
        ("bob", "bob"),
        ("nan", "nan"),  # accelerate sends NaN and Infinity, which JSON does not have
        ("1e400", "1e400"),
        ("", ""),
    ],
)
def test_values_are_those_of_accelerate(text: str, value: Any) -> None:
    sent = arguments.accelerates(text)
    assert (sent, type(sent)) == (value, type(value))


def test_a_foreign_image_gets_what_renders_as_typed() -> None:
    values, faults = arguments.for_foreign(
        ["--id", "007", "--neg", "-1", "--also=b=c", "--learning-rate", "1e-3", "-e", "3"]
    )
    assert not faults
    assert values == {"id": "007", "neg": -1, "also": "b=c", "learning-rate": "1e-3", "e": 3}


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["--last", "1", "--switch"], "--switch"),
        (["--switch", "--last", "1"], "--switch"),
        (["--layers", "1", "2"], "--layers"),
        (["word"], "'word'"),
        (["--also", "1", "--also", "2"], "--also"),
        (["--a", "1"], "--a"),
        (["-lr", "1"], "-lr"),
        (["--sagemaker_program", "x"], "--sagemaker_program"),
        (["--", "--x"], "'--x'"),
    ],
)
def test_what_hyperparameters_cannot_express_is_named(argv: list[str], named: str) -> None:
    _, faults = arguments.for_foreign(argv)
    assert [fault.what.split(":")[0] for fault in faults] == [named]
    assert faults[0].fix


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)


@given(st.lists(st.one_of(WORDS, st.sampled_from(["--a", "-b", "--c=d", "--", "-1", "-"])), max_size=8))
def test_every_vector_survives(argv: list[str]) -> None:
    sent = arguments.encode(arguments.for_ours(argv))
    assert json.loads(sent.get(arguments.VECTOR, "[]")) == argv
    assert all("\n" not in value for value in sent.values())


@given(st.one_of(WORDS, st.integers().map(str), st.floats().map(str), st.sampled_from(["1e5", "-0", "00", "1.50"])))
def test_a_foreign_toolkit_renders_every_value_as_typed(text: str) -> None:
    decoded = json.loads(json.dumps(arguments.exact(text)))
    assert str(decoded) == text
