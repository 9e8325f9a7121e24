"""Hyperparameters from the command line and from JSON files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.emulator.hyperparameters import parse
from slipway.errors import InputError


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", {}),
        ("epochs=2", {"epochs": 2}),
        ("epochs=2, lr=0.1 ,flag=true", {"epochs": 2, "lr": 0.1, "flag": True}),
        ("name=bob,id=007,none=None,nan=NaN", {"name": "bob", "id": "007", "none": "None", "nan": "NaN"}),
        ('id="007"', {"id": "007"}),
        ('layers=[1,2,{"a":"b,c"}],x=1', {"layers": [1, 2, {"a": "b,c"}], "x": 1}),
        ('text="a,b=c"', {"text": "a,b=c"}),
        ("url=s3://b/k?x=y", {"url": "s3://b/k?x=y"}),
        ("a=", {"a": ""}),
        ("a=,b=1", {"a": "", "b": 1}),
        ("two=a b", {"two": "a b"}),
        ('{"a": 1, "b": "x"}', {"a": 1, "b": "x"}),
    ],
)
def test_pairs(text: str, values: dict[str, Any]) -> None:
    assert parse(text) == values


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("epochs", "'epochs' is no KEY=VALUE"),
        ("a=1,b", "'b' is no KEY=VALUE"),
        ("=1", "'=1' is no KEY=VALUE"),
        ("a=1,a=2", "'a' is given twice"),
        ("a=[1,2", "begins like JSON but is none"),
        ("a=[1]x", "no comma before 'x'"),
        ("a=[NaN]", "NaN is no JSON number"),
        ('{"a": 1, "a": 2}', "'a' is given twice"),
        ('{"a": NaN}', "NaN is no JSON number"),
        ('{"a": }', "not valid JSON"),
    ],
)
def test_faults(text: str, what: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(text)
    assert what in str(caught.value)


def test_a_json_file(tmp_path: Path) -> None:
    path = tmp_path / "values.json"
    path.write_text('{"a": [1, "é"]}', encoding="utf-8")
    assert parse(str(path)) == {"a": [1, "é"]}
    path.write_text('{\n"a": 1,\n}')
    with pytest.raises(InputError, match=r"values\.json:3: not valid JSON"):
        parse(str(path))
    path.write_text("[1]")
    with pytest.raises(InputError, match="not a JSON object"):
        parse(str(path))
    with pytest.raises(InputError, match=r"cannot be read from .*gone\.json"):
        parse(str(tmp_path / "gone.json"))


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
keys = st.from_regex(r"[a-z][a-z0-9_.-]{0,8}", fullmatch=True)


@given(st.dictionaries(keys, values, max_size=4))
def test_json_values_arrive_as_they_are(given_values: dict[str, Any]) -> None:
    assert parse(",".join(f"{key}={json.dumps(value)}" for key, value in given_values.items())) == given_values
