"""Checkpoints between a host's folder and a folder of this machine."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from slipway.emulator import checkpoints
from slipway.emulator.checkpoints import Checkpoints
from slipway.errors import InputError


@pytest.fixture
def host(tmp_path: Path) -> Path:
    return tmp_path / "host"


def put(path: Path, text: str, mode: int = 0o600) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def kept(folder: Path) -> dict[str, str]:
    return {p.relative_to(folder).as_posix(): p.read_text() for p in folder.rglob("*") if p.is_file()}


def test_what_is_there_comes_back_and_any_user_may_write_over_it(tmp_path: Path, host: Path) -> None:
    put(tmp_path / "kept" / "epoch-1" / "weights", "1", 0o400)
    Checkpoints(str(tmp_path / "kept")).restore(host)
    assert kept(host) == {"epoch-1/weights": "1"}
    assert stat.S_IMODE((host / "epoch-1").stat().st_mode) == 0o777
    assert stat.S_IMODE((host / "epoch-1" / "weights").stat().st_mode) == 0o666


def test_nothing_there_is_a_first_run(tmp_path: Path, host: Path) -> None:
    Checkpoints(str(tmp_path / "none")).restore(host)
    assert kept(host) == {} and not (tmp_path / "none").exists()


def test_a_location_that_is_a_file_is_named(tmp_path: Path, host: Path) -> None:
    put(tmp_path / "file", "")
    with pytest.raises(InputError, match="file is no folder"):
        Checkpoints(str(tmp_path / "file")).restore(host)


def test_all_is_kept_at_the_end_but_links_and_what_has_not_changed(tmp_path: Path, host: Path) -> None:
    put(tmp_path / "kept" / "old", "old")
    put(tmp_path / "secret", "of this machine")
    store = Checkpoints(f"file://{tmp_path}/kept")
    store.restore(host)
    put(host / "deep" / "new", "new")
    (host / "link").symlink_to(tmp_path / "secret")
    (host / "linked").symlink_to(tmp_path)
    os.mkfifo(host / "pipe")
    put(tmp_path / "kept" / "old", "changed by someone else meanwhile")
    store.keep([host])
    assert kept(tmp_path / "kept") == {"old": "changed by someone else meanwhile", "deep/new": "new"}
    assert store.uri == (tmp_path / "kept").as_uri()


def test_what_the_job_removes_stays_and_the_later_of_two_hosts_wins(tmp_path: Path) -> None:
    first, second = tmp_path / "algo-1", tmp_path / "algo-2"
    store = Checkpoints(str(tmp_path / "kept"))
    for folder in (first, second):
        store.restore(folder)
        put(folder / "same", folder.name)
    os.utime(second / "same", ns=(1, 1))
    put(first / "gone", "kept")
    store.keep([first, second])
    (first / "gone").unlink()
    store.keep([first, second])
    assert kept(tmp_path / "kept") == {"same": "algo-1", "gone": "kept"}


def test_a_file_that_still_grows_waits(tmp_path: Path, host: Path) -> None:
    store = Checkpoints(str(tmp_path / "kept"))
    store.restore(host)
    for size in (1, 2, 3):
        put(host / "growing", "x" * size)
        store._pass([host], all_of_them=False)
    assert not (tmp_path / "kept").exists()
    store._pass([host], all_of_them=False)
    assert kept(tmp_path / "kept") == {"growing": "xxx"}


def test_an_error_in_the_job_keeps_what_there_is(tmp_path: Path, host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "PAUSE", 60.0)
    store = Checkpoints(str(tmp_path / "kept"))
    store.restore(host)
    with pytest.raises(RuntimeError), store.kept_up([host]):
        put(host / "last", "saved")
        raise RuntimeError
    assert kept(tmp_path / "kept") == {"last": "saved"}
