"""Content-Type and Accept headers, well-formed and not."""

from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sagemaker_inference import errors, negotiation, utils

JSON, CSV, NPY = "application/json", "text/csv", "application/x-npy"
SUPPORTED = (JSON, CSV, NPY)

# (Accept, what is chosen among JSON, CSV and NPY with JSON as the default)
CHOICES = [
    (None, JSON),
    ("", JSON),
    ("  ", JSON),
    ("*/*", JSON),
    ("*", JSON),
    (CSV, CSV),
    ("TEXT/CSV", CSV),
    ("text/csv;q=0.9", CSV),
    ("text/csv; charset=utf-8", CSV),
    ("text/*", CSV),
    ("application/*", JSON),
    (f"{CSV}, {NPY}", CSV),
    (f"{NPY},{CSV}", NPY),
    (f"{CSV};q=0.1, {NPY};q=0.2", NPY),
    (f"{CSV};q=0.5,{NPY}", NPY),
    ("image/png, text/csv", CSV),
    ("image/png, */*", JSON),
    ("image/png, */*;q=0.1", JSON),
    (f"{JSON};q=0, */*", CSV),
    (f"{JSON};q=0.1, */*", CSV),
    (f"*/*, {CSV}", JSON),
    (f"{CSV}, */*", CSV),
    ("application/*;q=0.5, text/csv;q=0.4", JSON),
    (f"{NPY};q=1.0, {JSON};q=1", NPY),
    ('text/html;level="1,2", text/csv', CSV),
    (f"{CSV};q=oops", CSV),
    (f"{CSV};q=7, {NPY}", CSV),
    (f"{CSV};q=., {NPY};q=0.9", CSV),
    (f"{CSV};q=, {NPY};q=0.9", CSV),
    (f"{CSV};q=.5, {NPY};q=0.6", NPY),
    (f", ,{NPY},", NPY),
]


@pytest.mark.parametrize(("accept", "chosen"), CHOICES)
def test_choice(accept, chosen):
    assert negotiation.choose(accept, SUPPORTED, JSON) == chosen


@pytest.mark.parametrize(
    "accept",
    ["image/png", "text/csv;q=0", "*/*;q=0", "text/html, image/*", "json", f"{JSON};q=0,{CSV};q=0.0,{NPY};q=0"],
)
def test_nothing_acceptable_names_what_is_supported(accept):
    with pytest.raises(errors.NotAcceptableError) as caught:
        negotiation.choose(accept, SUPPORTED, JSON)
    assert caught.value.status_code == 406
    for kind in (accept, *SUPPORTED):
        assert kind in caught.value.message


def test_default_is_taken_only_where_the_client_has_no_preference():
    assert negotiation.choose(None, SUPPORTED, CSV) == CSV
    assert negotiation.choose("*/*", SUPPORTED, CSV) == CSV
    assert negotiation.choose("application/*", SUPPORTED, CSV) == JSON
    assert negotiation.choose("*/*", SUPPORTED, "image/png") == JSON
    with pytest.raises(errors.NotAcceptableError):
        negotiation.choose(None, SUPPORTED, "image/png")


@pytest.mark.parametrize(
    ("header", "kind", "parameters"),
    [
        ("text/csv", "text/csv", {}),
        ("Text/CSV ; Charset=UTF-8", "text/csv", {"charset": "UTF-8"}),
        ('a/b;x="1;2";y=3', "a/b", {"x": "1;2", "y": "3"}),
        (r'a/b;x="say \"hi\""', "a/b", {"x": 'say "hi"'}),
        ("a/b;;=;x", "a/b", {"": "", "x": ""}),
        ("", "", {}),
    ],
)
def test_media_type(header, kind, parameters):
    assert negotiation.media_type(header) == (kind, parameters)


@pytest.mark.parametrize(
    ("header", "kind", "charset", "text"),
    [
        (None, None, "utf-8", False),
        (b"", None, "utf-8", False),
        (b"application/json", JSON, "utf-8", True),
        (b"APPLICATION/JSON; charset=Latin-1", JSON, "Latin-1", True),
        (b"text/csv", CSV, "utf-8", True),
        (b"image/png", "image/png", "utf-8", False),
        (b"\xff\xfe", "\xff\xfe".lower(), "utf-8", False),
    ],
)
def test_content_type(header, kind, charset, text):
    assert negotiation.content_type(header) == (kind, charset, text)


@pytest.mark.parametrize(
    ("header", "value", "first", "exact"),
    [
        (None, JSON, JSON, True),
        (b"*/*", JSON, JSON, True),
        (b"text/csv", CSV, CSV, True),
        (b"text/csv;q=0.9", "text/csv;q=0.9", CSV, False),
        (b"text/csv;q=0.1, image/png", "text/csv;q=0.1, image/png", "image/png", False),
        (b"image/*, text/csv", "image/*, text/csv", CSV, False),
        (b"image/*, */*", "image/*, */*", JSON, False),
        (b"nonsense", "nonsense", JSON, False),
        (b"text/csv;q=0", "text/csv;q=0", JSON, False),
        (b"a/b\r\nx: y", "a/b\r\nx: y", JSON, False),
    ],
)
def test_accept_of_user_functions(header, value, first, exact):
    assert negotiation.accept(header, JSON) == (value, first, exact)


HEADER = st.one_of(
    st.text(alphabet=st.characters(max_codepoint=255), max_size=200),
    st.text(alphabet=st.sampled_from('*/,;q=01."\\ \tatext/csv'), max_size=200),
)


@given(HEADER)
def test_any_accept_gives_a_supported_type_or_406(header):
    with contextlib.suppress(errors.NotAcceptableError):
        assert negotiation.choose(header, SUPPORTED, JSON) in SUPPORTED
    read = negotiation.accept(header.encode("latin-1"), JSON)
    kind, slash, subtype = read.first.partition("/")
    assert kind and slash and subtype and "*" not in read.first and read.first.isascii() and read.first.isprintable()


@given(HEADER)
def test_any_content_type_is_read(header):
    kind, parameters = negotiation.media_type(header)
    assert kind == kind.strip().lower()
    assert all(name == name.strip().lower() for name in parameters)


@given(st.lists(st.tuples(st.sampled_from(SUPPORTED), st.integers(0, 1000)), min_size=1, max_size=6))
def test_highest_weight_wins(entries):
    header = ", ".join(f"{kind};q={weight / 1000}" for kind, weight in entries)
    first = {}
    for kind, weight in sorted(entries, key=lambda entry: -entry[1]):
        first.setdefault(kind, weight)
    best = max(first.values())
    if best == 0:
        with pytest.raises(errors.NotAcceptableError):
            negotiation.choose(header, SUPPORTED, JSON)
    else:
        assert first[negotiation.choose(header, SUPPORTED, JSON)] == best


@pytest.mark.parametrize("text", ['"', '"\\', ';a="', ",", "a/b,", ";", " ", "*/*;q=0.1,"])
def test_long_headers_take_time_in_proportion(text):
    """Not a figure: what grows with the square of the length would take hours."""
    long = text * (1_000_000 // len(text))
    started = time.process_time()
    negotiation.media_type(long)
    negotiation.accept(long.encode(), JSON)
    with contextlib.suppress(errors.NotAcceptableError):
        negotiation.choose(long, SUPPORTED, JSON)
    assert time.process_time() - started < 60


def test_what_is_remembered_is_bounded():
    caches = (negotiation._accept, negotiation._content_type, negotiation._choose)

    def read(header):
        negotiation.accept(header, JSON)
        negotiation.content_type(header)
        negotiation.choose(header.decode() + ",*/*", SUPPORTED, JSON)

    for cache in caches:
        cache.cache_clear()
    for number in range(3000):
        read(b"a/b;x=%d" % number)
    assert [cache.cache_info().currsize for cache in caches] == [1024] * 3
    misses = [cache.cache_info().misses for cache in caches]
    read(b"a/b;x=2999")
    read(b"a/b;x=" + b"y" * 5000)
    assert [cache.cache_info().misses for cache in caches] == misses == [3000] * 3


def test_parse_accept_of_user_code():
    assert utils.parse_accept("application/json, text/csv") == [JSON, CSV]
    assert utils.parse_accept("text/csv;q=0.5,application/json , image/png;q=0") == [JSON, CSV]
    assert utils.parse_accept("*/*") == ["*/*"]
