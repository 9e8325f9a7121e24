"""From keys below a prefix to files in a folder."""

from __future__ import annotations

import pytest

from slipway.emulator.s3 import _names
from slipway.errors import InputError


@pytest.mark.parametrize(
    ("prefix", "key", "name"),
    [
        ("", "a/b", "a/b"),
        ("set", "set/a", "a"),
        ("set/", "set/a/b", "a/b"),
        ("set/train", "set/train/a", "a"),
        ("set/tr", "set/train/a", "train/a"),
        ("set/one.csv", "set/one.csv", "one.csv"),
        ("one.csv", "one.csv", "one.csv"),
    ],
)
def test_names_are_relative_to_the_prefix(prefix: str, key: str, name: str) -> None:
    assert _names("s3://b", prefix, [key]) == {key: name}


@pytest.mark.parametrize("key", ["p/../x", "p//x", "p/./x", "p/a/../../x", "p//etc/passwd"])
def test_keys_that_would_leave_the_folder_are_refused(key: str) -> None:
    with pytest.raises(InputError) as caught:
        _names("s3://b/p", "p", ["p/good", key])
    assert [repr(key) in fault.what for fault in caught.value.faults] == [True]


@pytest.mark.parametrize("key", ["p/..x", "p/x..", "p/.hidden", "p/a.b/c"])
def test_dots_within_a_name_are_fine(key: str) -> None:
    assert _names("s3://b/p", "p", [key]) == {key: key[2:]}


def test_an_object_cannot_be_a_folder_too() -> None:
    with pytest.raises(InputError, match="an object and a folder"):
        _names("s3://b/p", "p", ["p/a", "p/a/b"])


def test_nothing_there() -> None:
    with pytest.raises(InputError, match="no object at s3://b/p"):
        _names("s3://b/p", "p", [])
