"""Cutting objects into requests, and putting answers together again."""

from __future__ import annotations

import itertools
import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.emulator import records
from slipway.errors import InputError


def test_lines_end_with_a_line_feed_only() -> None:
    assert records.split(b"a\r\nb\rc\n\nd", "Line") == [b"a\r\n", b"b\rc\n", b"\n", b"d"]
    assert records.split(b"a\nb\n", "Line") == [b"a\n", b"b\n"]
    assert records.split(b"", "Line") == []
    assert records.split(b"a\nb", "None") == [b"a\nb"]


def recordio(payload: bytes) -> bytes:
    return struct.pack("<II", 0xCED7230A, len(payload)) + payload + b"\0" * (-len(payload) % 4)


def tfrecord(payload: bytes) -> bytes:
    return struct.pack("<QI", len(payload), 0) + payload + b"\0" * 4


@pytest.mark.parametrize(("form", "how"), [(recordio, "RecordIO"), (tfrecord, "TFRecord")])
def test_framed_records(form, how) -> None:  # type: ignore[no-untyped-def]
    made = [form(b"x" * size) for size in (0, 1, 4, 7)]
    assert records.split(b"".join(made), how) == made
    with pytest.raises(InputError, match="cut short"):
        records.split(b"".join(made)[:-1], how)
    with pytest.raises(InputError, match=how):
        records.split(b"no record at all, but long enough", how)


@given(st.lists(st.binary(min_size=1, max_size=20), max_size=30), st.integers(20, 60))
def test_packing_loses_nothing_and_keeps_the_limit(parts: list[bytes], most: int) -> None:
    bodies = list(records.pack(parts, "MultiRecord", most))
    assert b"".join(bodies) == b"".join(parts)
    assert all(0 < len(body) <= most for body in bodies)
    # As many as fit: no two neighbours would have fitted together.
    assert all(len(left) + len(right) > most - 20 for left, right in itertools.pairwise(bodies))
    assert list(records.pack(parts, "SingleRecord", most)) == parts


def test_a_record_that_fits_nowhere() -> None:
    with pytest.raises(InputError, match="record 2 has 5 bytes"):
        list(records.pack([b"a", b"bbbbb"], "MultiRecord", 4))
    assert list(records.pack([b"bbbbb"], "MultiRecord", 0)) == [b"bbbbb"]


def test_answers_are_put_together() -> None:
    assert records.assemble([b"a", b"b\n"], "Line") == b"a\nb\n"
    assert records.assemble([b"a", b"b\n"], "None") == b"ab\n"


def test_inputs_are_joined_to_answers() -> None:
    assert records.join(b"1,2\n3,4\n", b"0.1\n0.2\n", "text/csv") == b"1,2,0.1\n3,4,0.2\n"
    joined = records.join(b'{"a": 1}\n[2]\n', b"5\n6\n", "application/jsonlines")
    assert [json.loads(line) for line in joined.splitlines()] == [
        {"a": 1, "SageMakerOutput": 5},
        {"SageMakerInput": [2], "SageMakerOutput": 6},
    ]
    with pytest.raises(InputError, match="2 input records and 1 answers"):
        records.join(b"1\n2\n", b"1\n", "text/csv")
