"""Values on the command line and in variables."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sagemaker_training import mapping, settings

TABLE = [
    ("int", "10", "10", "10"),
    ("float", "0.001", "0.001", "0.001"),
    ("exponent", "1e-3", "0.001", "0.001"),
    ("true", "true", "True", "true"),
    ("false", "false", "False", "false"),
    ("null", "null", "", ""),
    ("empty", "", "", ""),
    ("words", "hello world", "hello world", "hello world"),
    ("list", '[1,"a",true]', "[1, 'a', True]", '[1,"a",true]'),
    ("dict", '{"b":1,"a":[1,2],"c":null}', "a=[1, 2],b=1,c=None", '{"a":[1,2],"b":1,"c":null}'),
    ("nan", "NaN", "nan", "NaN"),
    ("negative", "-1", "-1", "-1"),
    ("accent", "é", "é", "é"),
    ("accent_json", '["é"]', "['é']", '["\\u00e9"]'),
    ("quote", "it's", "it's", "it's"),
    ("command", "$(id)", "$(id)", "$(id)"),
    ("backslash", "a\\b", "a\\b", "a\\b"),
    ("json_text", json.dumps('{"a": 1}'), '{"a": 1}', '{"a": 1}'),
    ("newline", json.dumps("a\nb"), "a\nb", "a\nb"),
]

PRINTER = """
import json, os, sys
print(json.dumps([sys.argv[1:], dict(os.environ)]))
"""


@pytest.mark.parametrize("kind", ["script", "package", "shell"])
def test_command_line_table(job, kind):
    """One job for the whole table: each value is one argument, for every kind of entry point."""
    values = {name: raw for name, raw, _, _ in TABLE}
    if kind == "shell":
        job.code("show.py", PRINTER)
        job.code("train.sh", '#!/bin/sh\nexec python3 show.py "$@"\n')
        job.hyperparameters({"sagemaker_program": "train.sh", **values})
    else:
        job.script(PRINTER, **values)
    if kind == "package":
        job.code("setup.py", "from setuptools import setup\nsetup(name='x', version='1', py_modules=['train'])\n")
        job.env["SLIPWAY_INSTALLER"] = "uv"  # Replaced by a program that does nothing: no index is needed here.
        fake = job.base / "bin/uv"
        fake.parent.mkdir()
        fake.write_text("#!/bin/sh\n")
        fake.chmod(0o755)
        job.env["PATH"] = f"{fake.parent}:{job.env['PATH']}"
    done = job.run()
    assert done.code == 0, done.err
    argv, environ = json.loads(done.out)
    expected = {f"--{name}": argument for name, _, argument, _ in TABLE}
    assert argv == [token for option in sorted(expected) for token in (option, expected[option])]
    assert {name: environ[f"SM_HP_{name.upper()}"] for name, *_ in TABLE} == {name: text for name, _, _, text in TABLE}


def test_options_keep_their_key_and_are_sorted_by_code_point():
    values = {"b": 1, "batch-size": 2, "B": 3, "dot.key": 4, "é": 5}
    assert mapping.to_cmd_args(values) == ["-B", "3", "-b", "1", "--batch-size", "2", "--dot.key", "4", "-é", "5"]


def test_json_arguments_are_opt_in(job):
    job.script("import sys; print(sys.argv[1:])", x='[1,{"a":true}]')
    assert job.run().out == "['-x', \"[1, {'a': True}]\"]\n"
    job.env["SLIPWAY_JSON_ARGUMENTS"] = "true"
    assert job.run().out == "['-x', '[1,{\"a\":true}]']\n"


def test_switch_with_a_wrong_value_is_an_error(job):
    job.env["SLIPWAY_JSON_ARGUMENTS"] = "perhaps"
    job.script("print(1)")
    done = job.run()
    assert done.code == 1
    assert "SLIPWAY_JSON_ARGUMENTS='perhaps'" in done.failure


def test_all_wrong_switches_are_named_before_anything_runs(job):
    wrong = {"STOP_GRACE": "long", "INSTALLER": "conda", "DNS_TIMEOUT": "-1", "HOST_TIMEOUT": "soon"}
    job.env.update({f"SLIPWAY_{name}": value for name, value in wrong.items()})
    job.script("print('must not run')")
    done = job.run()
    assert (done.code, done.out) == (1, "")
    for name, value in wrong.items():
        assert f"SLIPWAY_{name}={value!r}" in done.failure


@pytest.mark.parametrize("limit, seconds", [("stop_grace", 110), ("dns_timeout", 900), ("host_timeout", 300)])
def test_limits_that_nobody_changed(monkeypatch, limit, seconds):
    monkeypatch.delenv(f"SLIPWAY_{limit.upper()}", raising=False)
    assert getattr(settings, limit)() == seconds


def test_argument_vector_replaces_the_options(job):
    argv = ["--flag", "a b", "", "--flag", "pos"]
    job.script(
        "import json, os, sys; print(json.dumps([sys.argv[1:], json.loads(os.environ['SM_USER_ARGS'])]))",
        epochs="3",
        sagemaker_slipway_argv=json.dumps(argv),
    )
    assert json.loads(job.run().out) == [argv, argv]


@pytest.mark.parametrize("value", ['"--flag"', "[1]", "{}"])
def test_argument_vector_that_is_no_list_of_strings(job, value):
    job.script("print(1)", sagemaker_slipway_argv=value)
    done = job.run()
    assert done.code == 1
    assert "sagemaker_slipway_argv must be a JSON list of strings" in done.failure


@given(
    st.dictionaries(
        st.text(min_size=1),
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.integers()),
    )
)
def test_every_key_gives_exactly_two_arguments(values):
    arguments = mapping.to_cmd_args(values)
    assert len(arguments) == 2 * len(values)
    assert arguments[::2] == ["-" * min(2, len(key)) + key for key in sorted(values)]
    assert all(isinstance(argument, str) for argument in arguments)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_encoded_values_are_json_of_themselves(value):
    text = mapping.encode(value)
    if value is None:
        assert text == ""
    elif isinstance(value, str):
        assert text == value
    else:
        assert json.loads(text) == value
        assert text.isascii()


def test_bytes_are_latin_1():
    assert mapping.encode(b"\xe9") == "é"


def test_split_by_criteria():
    split = mapping.split_by_criteria({"a": 1, "p_b": 2, "c": 3}, keys=["a"], prefix="p_")
    assert split.included == {"a": 1, "p_b": 2}
    assert split.excluded == {"c": 3}
