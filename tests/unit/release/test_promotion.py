"""Tags move all or not at all, wherever it fails; registries here are dictionaries."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipway.errors import RegistryError, ServiceError, SlipwayError, TagConflictError
from slipway.records import Records
from slipway.registry import Manifest
from slipway.release import pipeline, promotion
from slipway.release.journal import Journal, Journals, Move
from slipway.release.ledger import Ledger, document
from slipway.release.stores import Folder
from slipway.release.work import Tools

from .released import TAG, released

OLD, NEW = (Manifest("application/vnd.oci.image.manifest.v1+json", text) for text in (b'{"a": 1}', b'{"b": 2}'))
TAGS = (f"{TAG}-v2", TAG, "2.13-cpu-py311")


@dataclass
class Fake:
    """A registry. `left`: how many tags it stores before it fails, once."""

    host: str
    tags: dict[str, Manifest] = field(default_factory=dict)
    left: int = 99
    how: type[BaseException] = RegistryError
    untag: Any = None

    def manifest(self, repository: str, reference: str) -> Manifest | None:
        known = {one.digest: one for one in (OLD, NEW)}
        return self.tags.get(reference) or known.get(reference)

    def put_manifest(self, repository: str, reference: str, manifest: Manifest) -> None:
        self.left -= 1
        if self.left == -1:
            raise self.how("no")
        self.tags[reference] = manifest


class Unwritable(Folder):
    """A ledger's folder that takes no document, and after that cannot be read where `blind`."""

    blind = False

    def create(self, name: str, data: bytes) -> bool:
        if self.blind:
            object.__setattr__(self, "gone", True)
        raise ServiceError("the bucket is gone")

    def names(self) -> list[str]:
        if getattr(self, "gone", False):
            raise ServiceError("the bucket is gone")
        return super().names()


@dataclass
class World:
    folder: Path
    registries: dict[str, Fake]
    store: Folder
    notes: list[str] = field(default_factory=list)

    @property
    def tools(self) -> Tools:
        nothing: Any = None
        return Tools(
            records=Records(self.folder),
            ledger=Ledger(self.store),
            suite_hash="",
            smoke_hash="",
            engine=nothing,
            build=nothing,
            verify=nothing,
            scan=nothing,
            predicate=nothing,
            client=self.registries.__getitem__,  # type: ignore[arg-type]
            note=self.notes.append,
        )

    def begin(self) -> tuple[Journal, list[Move], dict[str, Any]]:
        moves = [
            promotion.move_to(registry, "r", tag, NEW.digest, fixed="-v" in tag)  # type: ignore[arg-type]
            for registry in self.registries.values()
            for tag in TAGS
        ]
        journal = Journals(self.folder / "releases").begin(["a"])
        return journal, moves, {"kind": "release", "release": journal.id, "images": [document(released(2))]}

    def settle(self, journal: Journal, *given: Any) -> None:
        pipeline.settle(self.tools, journal, self.registries.__getitem__, *given)  # type: ignore[arg-type]

    @property
    def named(self) -> list[dict[str, str]]:
        return [{tag: one.digest for tag, one in registry.tags.items()} for registry in self.registries.values()]


@pytest.fixture(autouse=True)
def _without_a_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promotion, "remove_tag", lambda registry, repository, tag: registry.tags.pop(tag, None))


def world(folder: Path, store: type[Folder] = Folder) -> World:
    names = ("a.example.com", "b.example.com")
    registries = {name: Fake(name, dict.fromkeys(TAGS[1:], OLD)) for name in names}
    return World(folder, registries, store(folder / "ledger", "ledger"))


def test_every_tag_moves_and_the_document_is_written(tmp_path: Path) -> None:
    found = world(tmp_path)
    journal, *given = found.begin()
    found.settle(journal, *given)
    assert found.named == [dict.fromkeys(TAGS, NEW.digest)] * 2
    assert journal.state == "done" and len(found.tools.ledger.entries()) == 1
    assert (tmp_path / "ledger/README.md").is_file()


@given(st.integers(0, 5), st.sampled_from([RegistryError, KeyboardInterrupt, OSError]))
@settings(max_examples=30, deadline=None)
def test_wherever_it_fails_every_tag_is_where_it_was(at: int, how: type[BaseException]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        found = world(Path(scratch))
        failing = list(found.registries.values())[at // 3]
        failing.left, failing.how = at % 3, how
        before = found.named
        journal, *given = found.begin()
        with pytest.raises(how):
            found.settle(journal, *given)
        assert found.named == before
        assert journal.state == "open" and found.tools.ledger.entries() == []
        found.settle(journal, *found.begin()[1:])
        assert found.named == [dict.fromkeys(TAGS, NEW.digest)] * 2


def test_a_ledger_that_takes_no_document_moves_every_tag_back(tmp_path: Path) -> None:
    found = world(tmp_path, Unwritable)
    before = found.named
    journal, *given = found.begin()
    with pytest.raises(ServiceError, match="the bucket is gone"):
        found.settle(journal, *given)
    assert found.named == before and journal.state == "open"


def test_a_ledger_that_does_not_say_what_it_has_leaves_the_rest_to_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Unwritable, "blind", True)
    found = world(tmp_path, Unwritable)
    journal, *given = found.begin()
    with pytest.raises(ServiceError):
        found.settle(journal, *given)
    assert found.named == [dict.fromkeys(TAGS, NEW.digest)] * 2 and journal.state == "promoted"
    assert any("does not say whether it has the release" in note for note in found.notes)
    found = replace(found, store=Folder(tmp_path / "ledger", "ledger"))
    (again,) = Journals(tmp_path / "releases").all()
    found.settle(again)
    assert again.state == "done" and len(found.tools.ledger.entries()) == 1


def test_a_tag_that_someone_else_moved_is_left_alone(tmp_path: Path) -> None:
    found = world(tmp_path)
    journal, *given = found.begin()
    first, second = found.registries.values()
    theirs = Manifest(OLD.media_type, b'{"theirs": 1}')
    second.tags["2.13-cpu-py311"] = theirs
    with pytest.raises(TagConflictError, match="names sha256:"):
        found.settle(journal, *given)
    assert first.tags == dict.fromkeys(TAGS[1:], OLD)
    assert second.tags == {TAG: OLD, "2.13-cpu-py311": theirs}


def test_tags_that_cannot_be_moved_back_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(registry: Fake, repository: str, tag: str) -> None:
        raise RegistryError("nothing is deleted here")

    monkeypatch.setattr(promotion, "remove_tag", refuse)
    found = world(tmp_path)
    found.registries["b.example.com"].left = 2
    journal, *given = found.begin()
    with pytest.raises(SlipwayError, match="2 tags could not be moved back") as caught:
        found.settle(journal, *given)
    assert f"a.example.com/r:{TAG}-v2: nothing is deleted here" in str(caught.value)
    assert journal.state == "promoting"
    found.settle(journal)
    assert journal.state == "done" and found.named == [dict.fromkeys(TAGS, NEW.digest)] * 2
