"""The commands that read the ledger alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from invoke.exceptions import Exit

from slipway.commands import release as commands
from slipway.errors import DowngradeError, NotFoundError, UsageError
from slipway.release import takeback
from slipway.release.ledger import Ledger, document
from slipway.release.stores import Folder
from tests.unit.release.released import IMAGE, TAG, digest, released


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """Three releases of one image; the second has an older numpy."""
    (tmp_path / "buildspec").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLIPWAY_LEDGER", raising=False)
    found = Ledger(Folder(tmp_path / "releases", "releases"))
    for number, numpy in enumerate(("2.0.0", "1.26.4", "2.1.0"), 1):
        image = released(number, packages={"numpy": numpy, "torch": "2.13.0"})
        found.append("release", {"release": str(number), "images": [document(image)]})
    return found


def code(*words: Any, command: Any) -> int:
    with pytest.raises(Exit) as caught:
        command(*words)
    return int(caught.value.code)


def test_changes_fail_on_a_package_that_went_back(ledger: Ledger, capsys: pytest.CaptureFixture[str]) -> None:
    assert code(f"{TAG}-v1", f"{TAG}-v2", [], False, command=commands.changes) == DowngradeError.exit_code
    told = capsys.readouterr()
    assert "downgraded  numpy  2.0.0   1.26.4" in told.out
    assert "numpy went from 2.0.0 back to 1.26.4" in told.err and "without a scan" in told.err
    commands.changes(f"{TAG}-v1", f"{TAG}-v2", ["numpy"], False)
    capsys.readouterr()
    commands.changes(f"{TAG}-v1", f"{TAG}-v3", [], True)
    found = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in found["packages"]["changed"]] == ["numpy"]


def test_a_listed_package_may_go_back(ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / "release.yml").write_text("downgrades: [{package: numpy, reason: the ABI, framework: pytorch}]\n")
    commands.changes(f"{TAG}-v1", f"{TAG}-v2", [], False)
    (tmp_path / "release.yml").write_text("downgrades: [{package: numpy, reason: the ABI, framework: mxnet}]\n")
    assert code(f"{TAG}-v1", f"{TAG}-v2", [], False, command=commands.changes) == DowngradeError.exit_code


def test_releases_one_and_all(ledger: Ledger, capsys: pytest.CaptureFixture[str]) -> None:
    commands.releases("", False)
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[2:]] == ["1", "2", "3"]
    commands.releases(IMAGE, True)
    assert json.loads(capsys.readouterr().out)["tag"] == f"{TAG}-v3"
    assert code("pytorch-trainign", False, command=commands.releases) == NotFoundError.exit_code
    assert f"did you mean {IMAGE}" in capsys.readouterr().err


def test_support_ends_on_a_day_of_a_version_that_was_released(
    ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    commands.eol("pytorch", "2.13.0", "2027-07-31", "", False)
    capsys.readouterr()
    commands.eol("", "", "", "", True)
    assert json.loads(capsys.readouterr().out) == [{"framework": "pytorch", "version": "2.13.0", "until": "2027-07-31"}]
    for words, expected in [
        (("pytorch", "", ""), UsageError),
        (("pytorch", "2.13.0", "31.7.2027"), UsageError),
        (("pytorch", "2.13", "2027-07-31"), NotFoundError),
        (("pytoch", "2.13.0", "2027-07-31"), NotFoundError),
    ]:
        assert code(*words, "", False, command=commands.eol) == expected.exit_code
    assert len(ledger.entries()) == 4, "what failed left no document"


def test_what_a_rollback_takes_back(ledger: Ledger) -> None:
    history = ledger.history()

    def planned(name: str, to: str = "") -> tuple[str, list[str]]:
        found = takeback.plan_rollback(history, name, to)
        return found.target.image.tag, [one.image.tag for one in found.withdrawn]

    assert planned(IMAGE) == (f"{TAG}-v2", [f"{TAG}-v3"])
    assert planned(IMAGE, f"{TAG}-v1") == (f"{TAG}-v1", [f"{TAG}-v3", f"{TAG}-v2"])
    # To go back before one that is not the newest takes back what came after it too.
    assert planned(f"{TAG}-v2") == (f"{TAG}-v1", [f"{TAG}-v3", f"{TAG}-v2"])
    with pytest.raises(NotFoundError, match="no release before it"):
        planned(f"{TAG}-v1")
    with pytest.raises(UsageError, match="is no earlier release"):
        planned(f"{TAG}-v1", f"{TAG}-v3")
    ledger.append("yank", {"config_digests": [digest("config 2")], "image": "", "reason": "leaks"})
    history = ledger.history()
    assert planned(IMAGE) == (f"{TAG}-v1", [f"{TAG}-v3"]), "what was taken back is no target"
    with pytest.raises(UsageError, match="taken back itself"):
        planned(IMAGE, f"{TAG}-v2")


def test_changes_lists_what_came_went_and_changed(ledger: Ledger, capsys: pytest.CaptureFixture[str]) -> None:
    image = released(4, packages={"numpy": "2.2.0", "pillow": "11.0.0"})
    ledger.append("release", {"release": "4", "images": [document(image)]})
    commands.changes(f"{TAG}-v3", f"{TAG}-v4", (), json=False)
    out = capsys.readouterr().out
    rows = [line.split() for line in out.splitlines()]
    for row in (["added", "pillow", "11.0.0"], ["removed", "torch", "2.13.0"], ["changed", "numpy", "2.1.0", "2.2.0"]):
        assert row in rows, out
