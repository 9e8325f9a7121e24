"""What Java and Python share, and the literal that every match holds."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.emulator import patterns


@pytest.mark.parametrize(
    "pattern",
    [
        "'accuracy': ([0-9.]+)",
        r"loss=([-+]?[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)",
        r"\{'loss': ([0-9.]+)\}",
        r"(?i)Loss: (\d+\.\d+)",
        r"(?<=acc )([0-9.]+)",
        r"(?!x)([^\]\[]{2,3})\s*?$",
        r"ll (?:a|b) ([\d.]+)\tq",
        r"#quality_metric: host=\S+, train mse <loss>=(\S+)",
        r"eval[_\-]loss\x20(\S+)",
    ],
)
def test_what_both_read_alike_is_taken(pattern: str) -> None:
    assert patterns.objections(pattern) == []


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        ("loss: [0-9.]+", "no group"),
        ("(loss): ([0-9.]+)", "2 groups"),
        ("loss: ([0-9.]+", "does not compile: missing ), unterminated subpattern at character 7"),
        ("loss: ([0-9.+)", "does not compile"),
        ("*([0-9])", "does not compile: nothing to repeat"),
        ("x" * 498 + "(.)", "501 characters"),
        ("(?P<value>[0-9.]+)", "named group"),
        ("(?<value>[0-9.]+)", "named group"),
        ("(?#a comment)([0-9])", "comment"),
        ("(?x)([0-9])", "flags"),
        ("(?a:x)([0-9])", "flags"),
        ("(?>a+)([0-9])", "atomic"),
        ("a++([0-9])", "possessive"),
        ("a{2}+([0-9])", "possessive"),
        ("{'loss': ([0-9.]+)}", "brace"),
        ("a{,3}([0-9])", "{,3}"),
        (r"[[:digit:]]([0-9])", "reads [ and && in a set"),
        (r"[a-z&&[^b]]([0-9])", "reads [ and && in a set"),
        (r"[]x]([0-9])", "begins with ]"),
        (r"[\b]([0-9])", "backspace"),
        (r"\p{Digit}([0-9])", "Python does not have"),
        (r"\Qa\E([0-9])", "Python does not have"),
        (r"\0([0-9])", "octal"),
        (r"\N{DIGIT ONE}([0-9])", "differently"),
        (r"\v([0-9])", "one character in Python"),
    ],
)
def test_what_one_of_them_lacks_is_named_with_a_fix(pattern: str, what: str) -> None:
    found = patterns.objections(pattern)
    assert [objection for objection in found if what in objection.what], found
    assert all(objection.fix for objection in found)


@pytest.mark.parametrize(
    ("pattern", "literal"),
    [
        ("'accuracy': ([0-9.]+)", "'accuracy': "),
        (r"\[loss\]=([0-9.]+) after", "[loss]="),
        (r"a\tb([0-9])", "a\tb"),
        ("lo?ss ([0-9])", "ss "),
        ("loss{0,2}=([0-9])", "los"),
        ("lo+ss=([0-9])", "ss="),
        ("(?:eval_)?loss=([0-9])", "loss="),
        ("loss=([0-9])|acc=([0-9])", ""),
        ("(?i)loss=([0-9])", ""),
        ("(?i:loss)=([0-9])", "="),
        ("(?!never)([0-9])", ""),
        ("(loss)=", "="),
        ("l.ss: ([0-9])", "ss: "),
    ],
)
def test_the_longest_literal(pattern: str, literal: str) -> None:
    assert patterns.literal(pattern) == literal


atom = st.sampled_from(
    ["a", "b", r"\.", r"\d", "[ab]", ".", "(?:ab)", "(?:a|b)", "(?=a)", "(?i:a)", " ", "=", r"\t", "{", "é"]
)
repeat = st.sampled_from(["", "", "", "?", "*", "+", "{2}", "{0,1}", "+?"])
pattern = st.lists(st.tuples(atom, repeat).map("".join) | st.just("|"), max_size=8).map("".join)


@given(pattern, st.text("abAB. =12\t{é", max_size=30))
def test_a_match_always_holds_the_literal(pattern: str, text: str) -> None:
    try:
        found = re.search(pattern, text, re.ASCII)
    except re.error:
        return
    if found is not None:
        assert patterns.literal(pattern) in found[0]


@given(st.text(max_size=40))
def test_no_text_makes_it_fail(pattern: str) -> None:
    if not patterns.objections(pattern):
        assert re.compile(pattern, re.ASCII).groups == 1
