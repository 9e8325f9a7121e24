"""Taking back an image that was pushed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slipway.clients import images, lookup
from slipway.errors import NotFoundError, NotProvedError, UsageError
from slipway.records import Build, Push, Records
from slipway.release.push import require_proof
from slipway.release.yank import yank

FIRST = Push(
    config_digest="sha256:" + "c" * 64,
    manifest_digest="sha256:" + "1" * 64,
    media_type="",
    image="pytorch-training-2.13.0-cpu-py311",
    framework="pytorch",
    version="2.13.0",
    scope="training",
    processor="cpu",
    python="3.11",
    registry="a.example.com",
    region="",
    repository="pytorch-training",
    tag="2.13.0-cpu-py311-debian12-v1",
    uri="a.example.com/pytorch-training:2.13.0-cpu-py311-debian12-v1",
    pushed_at="2026-01-01T00:00:00+00:00",
)
# The same image in another registry, and the next one.
ELSEWHERE = replace(FIRST, registry="b.example.com", uri=FIRST.uri.replace("a.", "b.", 1))
SECOND = replace(
    FIRST,
    config_digest="sha256:" + "d" * 64,
    manifest_digest="sha256:" + "2" * 64,
    tag="2.13.0-cpu-py311-debian12-v2",
    uri="a.example.com/pytorch-training:2.13.0-cpu-py311-debian12-v2",
    pushed_at="2026-02-01T00:00:00+00:00",
)


@pytest.fixture
def records(tmp_path: Path) -> Records:
    records = Records(tmp_path)
    for push in (FIRST, ELSEWHERE, SECOND):
        records.add_push(push)
    return records


def found(records: Records) -> str:
    return lookup.find(records.pushes(), framework="pytorch")[0].uri


@pytest.mark.parametrize("name", [SECOND.uri, SECOND.tag, SECOND.manifest_digest, SECOND.config_digest])
def test_a_yanked_image_is_found_no_more_until_that_is_undone(records: Records, name: str) -> None:
    assert found(records) == SECOND.uri
    assert [push.uri for push in yank(records, name, "wrong weights")] == [SECOND.uri]
    assert found(records) != SECOND.uri
    assert [push.yanked for push in records.pushes() if push.uri == SECOND.uri] == ["wrong weights"]
    yank(records, name, "")
    assert found(records) == SECOND.uri


def test_it_is_yanked_in_every_registry(records: Records) -> None:
    assert {push.uri for push in yank(records, FIRST.uri, "x")} == {FIRST.uri, ELSEWHERE.uri}


def test_when_nothing_else_fits_the_reason_is_told(records: Records) -> None:
    yank(records, FIRST.uri, "x")
    yank(records, SECOND.uri, "it leaks memory")
    with pytest.raises(NotFoundError, match="it leaks memory") as caught:
        found(records)
    assert SECOND.manifest_digest in caught.value.fix


def test_a_yanked_image_is_no_newer_one(records: Records) -> None:
    import datetime

    yank(records, SECOND.uri, "x")
    today = datetime.date(2026, 3, 1)
    first, second = (next(push for push in records.pushes() if push.uri == one.uri) for one in (FIRST, SECOND))
    assert lookup.standing(first, records.pushes(), "", today).newer == ""
    assert lookup.standing(second, records.pushes(), "", today).notes()[0] == "it was yanked: x"


def test_an_alias_means_the_last_that_took_it(records: Records) -> None:
    for push in (FIRST, SECOND):
        records.add_push(replace(push, aliases=("2.13.0-cpu-py311",)))
    alias = "a.example.com/pytorch-training:2.13.0-cpu-py311"
    yank(records, FIRST.uri, "x")
    assert images.facts(alias, records.pushes()).yanked == ""
    yank(records, SECOND.uri, "y")
    assert images.facts(alias, records.pushes()).yanked == "y"


def test_no_mark_is_taken_away_where_there_is_none(records: Records) -> None:
    with pytest.raises(UsageError, match="is not yanked"):
        yank(records, FIRST.uri, "")


def test_names_that_mean_nothing_or_too_much(records: Records) -> None:
    with pytest.raises(NotFoundError, match="no push of"):
        yank(records, "a.example.com/pytorch-training:2.13.0", "x")
    records.add_push(replace(SECOND, registry="c.example.com", tag=FIRST.tag, uri="c.example.com/x"))
    with pytest.raises(UsageError, match="several images"):
        yank(records, FIRST.tag, "x")


def test_a_yanked_image_is_not_pushed_again(records: Records) -> None:
    yank(records, FIRST.uri, "wrong weights")
    fields = dict.fromkeys(Build.__dataclass_fields__, "")
    build = Build(**{**fields, "config_digest": FIRST.config_digest, "image": FIRST.image, "size": 0, "seconds": 0.0})
    with pytest.raises(NotProvedError, match=r"was yanked: wrong weights"):
        require_proof(build, records, "")
