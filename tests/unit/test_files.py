"""Files are written whole or not at all."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway import files
from slipway.errors import DiskError

from .conftest import ROOT


def fail_with(number: int) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def test_a_file_is_written_with_its_folders_and_mode(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    files.write_whole(path, "ü", mode=0o600)
    assert path.read_bytes() == "ü".encode()
    assert path.stat().st_mode & 0o777 == 0o600
    assert [found.name for found in path.parent.iterdir()] == ["b"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_named_and_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    path = tmp_path / "record"
    path.write_text("old")
    monkeypatch.setattr(os, "fsync", fail_with(number))
    with pytest.raises(DiskError, match=f"no space left to write {path}"):
        files.write_whole(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_other_failures_are_not_called_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", fail_with(errno.EIO))
    with pytest.raises(OSError, match="Input/output error"):
        files.write_whole(tmp_path / "record", "new")
    assert list(tmp_path.iterdir()) == []


def test_a_writer_that_is_killed_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text("old")
    script = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from slipway import files\n"
        "os.fsync = lambda handle: os.kill(os.getpid(), signal.SIGKILL)\n"
        "files.write_whole(Path(sys.argv[1]), 'new' * 100000)\n"
    )
    child = subprocess.run([sys.executable, "-c", script, path], cwd=ROOT, check=False)
    assert child.returncode == -9
    assert path.read_text() == "old"
    assert list(tmp_path.glob("*.json")) == [path], "what is left must not look like a record"


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.dictionaries(st.text(), x)))
def test_equal_data_has_equal_json(data: object) -> None:
    text = files.canonical_json(data)
    assert text.endswith("\n")
    if isinstance(data, dict):
        assert files.canonical_json(dict(reversed(data.items()))) == text


def test_a_tree_leaves_caches_out(tmp_path: Path) -> None:
    for name in ("b/x.py", "a.py", "b/__pycache__/x.pyc", "x.egg-info/PKG", "dist/x.whl"):
        files.write_whole(tmp_path / name, "")
    found = [path.relative_to(tmp_path).as_posix() for path in files.tree_files(tmp_path)]
    assert found == ["a.py", "b/x.py"]


def test_the_same_file_is_a_link_or_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "source"
    source.write_text("x")
    linked = files.same_file(source, tmp_path / "in" / "linked")
    assert linked.samefile(source)
    monkeypatch.setattr(os, "link", fail_with(errno.EXDEV))
    copied = files.same_file(source, tmp_path / "in" / "copied")
    assert not copied.samefile(source)
    assert copied.read_text() == "x"
    assert {path.name for path in copied.parent.iterdir()} == {"linked", "copied"}


def test_the_same_file_takes_the_place_of_another(tmp_path: Path) -> None:
    one, other, target = tmp_path / "one", tmp_path / "other", tmp_path / "target"
    one.write_text("1")
    other.write_text("2")
    for source in (one, one, other):
        files.same_file(source, target)
    assert target.read_text() == "2"
    assert one.read_text() == "1", "what it was linked to stays as it was"


def test_many_at_once_put_the_same_file(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("x")
    failures: list[BaseException] = []

    def put() -> None:
        try:
            for _ in range(30):
                files.same_file(source, tmp_path / "target")
                (tmp_path / "target").unlink(missing_ok=True)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=put) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_lock_is_held_by_one(tmp_path: Path) -> None:
    path, order = tmp_path / "lock", []
    waiting, done = threading.Event(), threading.Event()

    def other() -> None:
        with files.locked(path, waiting.set):
            order.append("other")
        done.set()

    with files.locked(path):
        threading.Thread(target=other).start()
        assert waiting.wait(10)
        order.append("first")
    assert done.wait(10)
    assert order == ["first", "other"]


def test_what_checkers_leave_beside_sources_is_no_source(tmp_path: Path) -> None:
    for name in (".mypy_cache/3.11/a.json", ".ruff_cache/b", ".hypothesis/c", "src/__pycache__/d.pyc", "src/e.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert files.tree_files(tmp_path) == [tmp_path / "src" / "e.py"]
