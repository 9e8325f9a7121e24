"""Model archives: what is unpacked, and what is refused."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from slipway.emulator import model_data
from slipway.errors import InputError


def archive(folder: Path, *members: tarfile.TarInfo) -> Path:
    path = folder / "model.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(b"x" * member.size))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, size: int = 0, mode: int = 0o600, to: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.size, made.mode, made.linkname = kind, size, mode, to
    return made


def test_everybody_may_read_what_was_unpacked(tmp_path: Path) -> None:
    path = archive(tmp_path, member("code/inference.py", size=3), member("./weights.bin", size=5, mode=0o4700))
    placed = model_data.place(str(path), tmp_path / "model", None)
    assert (placed / "code" / "inference.py").read_bytes() == b"xxx"
    assert (placed / "code" / "inference.py").stat().st_mode & 0o7777 == 0o644
    assert (placed / "weights.bin").stat().st_mode & 0o7777 == 0o755


def test_every_member_that_the_platform_refuses_is_named(tmp_path: Path) -> None:
    path = archive(
        tmp_path,
        member("fine", size=1),
        member("../out", size=1),
        member("/abs", size=1),
        member("link", tarfile.SYMTYPE, to="fine"),
        member("hard", tarfile.LNKTYPE, to="fine"),
        member("pipe", tarfile.FIFOTYPE),
    )
    with pytest.raises(InputError) as refused:
        model_data.place(str(path), tmp_path / "model", None)
    assert [fault.what.split(" ")[0] for fault in refused.value.faults] == ["../out", "/abs", "link", "hard", "pipe"]
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("content", [b"", b"no archive", b"\x1f\x8b\x08\0\0\0\0\0\0\0cut"])
def test_no_archive(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.tar.gz").write_bytes(content)
    with pytest.raises(InputError, match="cannot be unpacked"):
        model_data.place(str(tmp_path / "model.tar.gz"), tmp_path / "model", None)
    assert not (tmp_path / "model").exists()


def test_a_folder_stands_for_itself(tmp_path: Path) -> None:
    assert model_data.place(str(tmp_path), tmp_path / "model", None) == tmp_path
    (tmp_path / "model.bin").write_bytes(b"")
    with pytest.raises(InputError, match="no model archive"):
        model_data.place(str(tmp_path / "model.bin"), tmp_path / "model", None)
    with pytest.raises(InputError, match="there is no model"):
        model_data.place(str(tmp_path / "none"), tmp_path / "model", None)


def test_an_archive_of_s3_is_unpacked_and_its_copy_goes(bucket: Any, tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    packed = archive(tmp_path / "made", member("code/inference.py", size=3))
    bucket.upload_file(str(packed), "bucket", "models/model.tar.gz")
    bucket.put_object(Bucket="bucket", Key="models/model.tar.gz.old", Body=b"another, whose key begins the same")
    placed = model_data.place("s3://bucket/models/model.tar.gz", tmp_path / "model", None)
    assert placed == tmp_path / "model"
    assert [path.relative_to(placed).as_posix() for path in placed.rglob("*") if path.is_file()] == [
        "code/inference.py"
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made", "model"]


def test_a_prefix_of_s3_is_the_models_files_as_they_are(bucket: Any, tmp_path: Path) -> None:
    for key in ("plain/weights.bin", "plain/code/inference.py", "plainer/other"):
        bucket.put_object(Bucket="bucket", Key=key, Body=key.encode())
    former = os.umask(0o077)
    try:
        placed = model_data.place("s3://bucket/plain/", tmp_path / "model", None)
    finally:
        os.umask(former)
    found = {path.relative_to(placed).as_posix(): path.read_text() for path in placed.rglob("*") if path.is_file()}
    assert found == {"weights.bin": "plain/weights.bin", "code/inference.py": "plain/code/inference.py"}
    assert (placed / "code").stat().st_mode & 0o777 == 0o755
    assert (placed / "weights.bin").stat().st_mode & 0o444 == 0o444


def test_what_s3_has_not_or_what_is_no_archive_leaves_nothing(bucket: Any, tmp_path: Path) -> None:
    bucket.put_object(Bucket="bucket", Key="bad.tar.gz", Body=b"no archive")
    for location, what in (
        ("s3://bucket/bad.tar.gz", "cannot be unpacked"),
        ("s3://bucket/none.tar.gz", "no object at s3://bucket/none.tar.gz"),
        ("s3://bucket/none/", "no object at s3://bucket/none/"),
        ("s3://other/model/", "no bucket"),
    ):
        with pytest.raises(InputError, match=what):
            model_data.place(location, tmp_path / "model", None)
        assert list(tmp_path.iterdir()) == []
