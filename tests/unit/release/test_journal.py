"""The journal: on disk before the next step, whole, and of this content only."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slipway.errors import SlipwayError
from slipway.release.journal import Journals, Move

MOVE = Move(host="h", repository="r", tag="t", before="", after="sha256:1", fixed=True)


def test_what_is_recorded_is_there_after_a_crash(tmp_path: Path) -> None:
    journals = Journals(tmp_path)
    journal = journals.begin(["b", "a"])
    journal.record("push", "a", "sha256:1", digest="sha256:2")
    journal.promote([MOVE], {"kind": "release"})
    (again,) = journals.all()
    assert (again.id, again.images, again.state) == (journal.id, ("a", "b"), "promoting")
    assert again.done("push", "a", "sha256:1")["digest"] == "sha256:2"  # type: ignore[index]
    assert (again.moves, again.entry) == ([MOVE], {"kind": "release"})


def test_a_step_counts_for_the_content_that_it_was_done_for(tmp_path: Path) -> None:
    journal = Journals(tmp_path).begin(["a"])
    journal.record("push", "a", "sha256:1")
    assert journal.done("push", "a", "sha256:9") is None and journal.done("scan", "a", "sha256:1") is None
    journal.forget("push", "a")
    assert journal.done("push", "a", "sha256:1") is None


def test_a_release_goes_on_with_the_newest_open_journal_of_the_same_images(tmp_path: Path) -> None:
    journals = Journals(tmp_path)
    assert journals.unfinished(["a"]) is None
    journals.begin(["a", "b"])
    ended = journals.begin(["a"])
    ended.turn("done")
    assert journals.unfinished(["a"]) is None
    left = journals.begin(["a"])
    assert journals.unfinished(["a"]).id == left.id  # type: ignore[union-attr]
    left.promote([MOVE], {})
    assert journals.unfinished(["a"]) is None, "it is settled first"


def test_journals_of_several_runners_are_put_together(tmp_path: Path) -> None:
    journals = Journals(tmp_path)
    for image in ("a", "b", "c"):
        journals.begin([image]).record("push", image, "sha256:1", digest=image)
    both = journals.begin(["a", "b"])
    assert [both.done("push", image, "sha256:1") is not None for image in ("a", "b", "c")] == [True, True, False]


@pytest.mark.parametrize("text", ["", "{}", '{"form": 1}', '{"form": 1, "id": "x", "images": []}', "[]"])
def test_what_is_no_journal_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x/journal.json").write_text(text)
    with pytest.raises(SlipwayError, match="no journal of a release"):
        Journals(tmp_path).all()


def test_a_newer_form_is_refused(tmp_path: Path) -> None:
    path = Journals(tmp_path).begin(["a"]).path
    path.write_text(json.dumps({**json.loads(path.read_text()), "form": 2}))
    with pytest.raises(SlipwayError, match="newer Slipway"):
        Journals(tmp_path).all()
