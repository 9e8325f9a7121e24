"""Wheels in the ledger."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slipway.errors import TagConflictError
from slipway.release import wheels
from slipway.release.ledger import Ledger
from slipway.release.stores import Folder
from slipway.supply.wheels import Wheel

ONE = Wheel("slipway-training", "0.1.0", Path("x.whl"), "1" * 64)
INDEX = "https://someone:s3cret@index.example/legacy/"


def test_what_an_index_has_is_written_once_without_its_password(tmp_path: Path) -> None:
    ledger = Ledger(Folder(tmp_path / "releases", "releases"))
    wheels.write_down([ONE], INDEX, ledger)
    wheels.write_down([ONE], INDEX, ledger)
    (entry,) = ledger.entries()
    assert entry.kind == "wheels"
    assert entry.body == {
        "to": "https://index.example/legacy/",
        "wheels": [{"name": "slipway-training", "version": "0.1.0", "hash": "1" * 64}],
    }
    wheels.write_down([ONE], "https://other.example/legacy/", ledger)
    assert len(ledger.entries()) == 2
    assert ledger.history().standings == ()


def test_a_version_never_changes(tmp_path: Path) -> None:
    ledger = Ledger(Folder(tmp_path / "releases", "releases"))
    wheels.refuse_changed([ONE], ledger.history())
    wheels.write_down([ONE], INDEX, ledger)
    wheels.refuse_changed([ONE, replace(ONE, version="0.2.0", hash="2" * 64)], ledger.history())
    with pytest.raises(TagConflictError) as caught:
        wheels.refuse_changed([replace(ONE, hash="2" * 64)], ledger.history())
    assert "slipway-training 0.1.0" in caught.value.faults[0].what
