"""The ledger: only ever added to, whole, and readable by anyone later."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipway import settings as settings_module
from slipway.errors import AuthError, NotFoundError, ServiceError, SlipwayError, UsageError
from slipway.release import listing, stores
from slipway.release.ledger import History, Ledger, Place, document
from slipway.release.stores import Bucket, Folder, Store

from .released import IMAGE, TAG, digest, released


def folder(path: Path) -> Ledger:
    return Ledger(Folder(path / "releases", "releases"))


def release(ledger: Ledger, *numbers: int, id: str = "") -> None:
    images = [document(released(number)) for number in numbers]
    ledger.append("release", {"release": id or f"r{numbers}", "images": images})


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("release"), st.integers(1, 4)),
        st.tuples(st.just("yank"), st.integers(1, 4)),
        st.tuples(st.just("unyank"), st.integers(1, 4)),
        st.tuples(st.just("eol"), st.integers(1, 28)),
    ),
    max_size=12,
)


def play(ledger: Ledger, events: list[tuple[str, int]]) -> tuple[dict[int, str], str]:
    """Append the events; what they should add up to: reason of withdrawal by number, and the last day of support."""
    state: dict[int, str] = {}
    end = ""
    for at, (kind, number) in enumerate(events):
        if kind == "release":
            release(ledger, number, id=str(at))
            state.setdefault(number, "")
        elif kind == "eol":
            end = f"2026-11-{number:02d}"
            ledger.append("eol", {"framework": "pytorch", "version": "2.13.0", "on": end, "reason": ""})
        else:
            reason = f"because {at}" if kind == "yank" else ""
            ledger.append("yank", {"config_digests": [digest(f"config {number}")], "image": "", "reason": reason})
            if number in state:
                state[number] = reason
    return state, end


@given(EVENTS)
@settings(max_examples=60, deadline=None)
def test_documents_are_added_and_never_changed(events: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        ledger, seen = folder(Path(scratch)), {}
        for event in events:
            play(ledger, [event])
            now = {name: ledger.store.read(name) for name in ledger.store.names()}
            assert {name: now[name] for name in seen} == seen
            assert len(now) == len(seen) + 1
            seen = now
        assert [entry.number for entry in ledger.entries()] == list(range(1, len(events) + 1))


@given(EVENTS)
@settings(max_examples=60, deadline=None)
def test_what_the_documents_add_up_to(events: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        ledger = folder(Path(scratch))
        state, end = play(ledger, events)
        history = ledger.history()
        found = {int(one.image.tag.rpartition("-v")[2]): one.withdrawn for one in history.standings}
        assert found == state
        assert list(found) == list(state), "in the order of their first release"
        assert history.ends() == ({("pytorch", "2.13.0"): end} if end else {})
        standing = [number for number, reason in state.items() if not reason]
        newest = history.newest(IMAGE)
        assert (newest.image.tag if newest else "") == (f"{TAG}-v{standing[-1]}" if standing else "")
        pushes = {push.tag: push.yanked for push in history.pushes()}
        assert pushes == {f"{TAG}-v{number}": reason for number, reason in state.items()}
        page = listing.markdown(history)
        assert all(f"`{TAG}-v{number}`" in page for number in state)


@given(EVENTS.filter(lambda events: len(events) > 1), st.data())
@settings(max_examples=60, deadline=None)
def test_a_document_that_was_changed_or_lost_is_noticed(events: list[tuple[str, int]], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        ledger = folder(Path(scratch))
        play(ledger, events)
        names = ledger.store.names()
        path = Path(scratch) / "releases" / data.draw(st.sampled_from(names[:-1]))
        if data.draw(st.booleans()):
            path.unlink()
        else:
            found = json.loads(path.read_text())
            path.write_text(json.dumps({**found, "at": "2000-01-01T00:00:00+00:00"}))
        with pytest.raises(SlipwayError, match=r"lacks document|is not what"):
            ledger.entries()


def test_of_writers_at_once_each_gets_a_number_of_its_own(tmp_path: Path) -> None:
    ledger = folder(tmp_path)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda at: play(ledger, [("release", at % 4 + 1)]), range(12)))
    assert [entry.number for entry in ledger.entries()] == list(range(1, 13))


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = folder(tmp_path)
    release(ledger, 1)

    def fail(*given: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(stores.os, "link", fail)
    with pytest.raises(KeyboardInterrupt):
        release(ledger, 2)
    assert [path.name for path in (tmp_path / "releases").iterdir()] == ["000001.json"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"form": 2}, "newer Slipway"),
        ({"kind": "relase"}, "is no document"),
        ({"number": 7}, "is no document"),
        ({"images": [{}]}, "is no document"),
    ],
)
def test_a_document_that_cannot_be_read_is_never_read_half(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    ledger = folder(tmp_path)
    release(ledger, 1)
    path = tmp_path / "releases/000001.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(SlipwayError, match=told):
        ledger.entries()


def test_an_image_is_found_by_each_of_its_names(tmp_path: Path) -> None:
    ledger = folder(tmp_path)
    release(ledger, 1)
    release(ledger, 2)
    history = ledger.history()
    first, second = released(1), released(2)
    names = [first.tag, first.config_digest, first.manifest_digest, f"r.example.com/ml/pytorch-training:{first.tag}"]
    names += [f"ml/pytorch-training:{first.tag}", f"r.example.com/ml/pytorch-training@{first.manifest_digest}"]
    assert {history.find(name).image.tag for name in names} == {first.tag}
    assert history.find(IMAGE).image.tag == second.tag, "by its ID: the newest"
    with pytest.raises(NotFoundError, match=r"no release of 2\.13-cpu-py311"):
        history.find("2.13-cpu-py311")  # an alias means nothing certain


def test_a_name_of_two_images_is_refused(tmp_path: Path) -> None:
    ledger = folder(tmp_path)
    other = released(
        1,
        image="pytorch-inference-2.13.0-cpu-py311",
        config_digest=digest("other"),
        places=(Place(registry="r.example.com", region="", repository="ml/pytorch-inference"),),
    )
    ledger.append("release", {"release": "a", "images": [document(released(1)), document(other)]})
    with pytest.raises(UsageError, match="means several images"):
        ledger.history().find(f"{TAG}-v1")


def test_places_of_one_image_are_gathered(tmp_path: Path) -> None:
    ledger = folder(tmp_path)
    elsewhere = (Place(registry="s.example.com", region="", repository="pytorch-training"),)
    ledger.append("release", {"release": "a", "images": [document(released(1))]})
    ledger.append("release", {"release": "b", "images": [document(released(1, places=elsewhere))]})
    (one,) = ledger.history().standings
    assert [place.registry for place in one.image.places] == ["r.example.com", "s.example.com"]


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    import boto3
    from moto import mock_aws

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        boto3.client("s3").create_bucket(Bucket="ledger")
        yield Bucket("ledger", "ml/releases")


def test_a_bucket_keeps_what_a_folder_does(bucket: Bucket, tmp_path: Path) -> None:
    ledger = Ledger(bucket)
    assert ledger.entries() == []
    state, _ = play(ledger, [("release", 1), ("release", 2), ("yank", 1)])
    bucket.replace("README.md", b"a page")
    assert [entry.kind for entry in ledger.entries()] == ["release", "release", "yank"]
    assert {one.withdrawn for one in ledger.history().standings} == set(state.values())


@pytest.mark.parametrize("kind", ["folder", "bucket"])
def test_no_store_overwrites(kind: str, bucket: Bucket, tmp_path: Path) -> None:
    store: Store = bucket if kind == "bucket" else Folder(tmp_path, "releases")
    assert store.create("000001.json", b"first")
    assert not store.create("000001.json", b"second")
    assert store.read("000001.json") == b"first"


def test_a_bucket_that_refuses(bucket: Bucket) -> None:
    with pytest.raises(ServiceError, match="NoSuchBucket"):
        Ledger(Bucket("elsewhere", "")).entries()


def test_a_bucket_without_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(AuthError, match="no AWS credentials"):
        Ledger(Bucket("ledger", "")).entries()


@pytest.mark.parametrize(
    ("text", "place"), [("releases", "releases"), ("s3://b/a/c/", "s3://b/a/c"), ("s3://b", "s3://b")]
)
def test_the_setting_names_a_place(tmp_path: Path, text: str, place: str) -> None:
    assert stores.of(_settings(tmp_path, text)).place == place


@pytest.mark.parametrize("text", ["s3://", "https://x", ""])
def test_the_setting_names_no_place(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match="setting ledger"):
        stores.of(_settings(tmp_path, text))


def _settings(project: Path, ledger: str) -> settings_module.Settings:
    (project / "buildspec").mkdir()
    return settings_module.read(project=project, environment={"SLIPWAY_LEDGER": ledger})


def test_the_page_says_what_moves_and_what_was_taken_back(tmp_path: Path) -> None:
    ledger = folder(tmp_path)
    play(ledger, [("release", 1), ("release", 2), ("release", 3), ("yank", 3)])
    rows = [line for line in listing.markdown(ledger.history()).splitlines() if line.startswith("| `")]
    assert ["current" in row for row in rows] == [False, True, False]
    assert "taken back: because 3" in rows[0] and "`2.13-cpu-py311`" in rows[1]
    assert "`2.13-cpu-py311`" not in rows[0] + rows[2]


def test_no_ledger_is_an_empty_one(tmp_path: Path) -> None:
    assert folder(tmp_path).history() == History(())
