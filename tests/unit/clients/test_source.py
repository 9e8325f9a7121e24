"""The script's folder, packed."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from slipway.clients import source
from slipway.errors import InputError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "src"
    (folder / "package").mkdir(parents=True)
    (folder / "train.py").write_text("print(1)\n")
    (folder / "run.sh").write_text("true\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "requirements.txt").write_text("six\n")
    (folder / "package" / "__init__.py").write_text("")
    (folder / "package" / "__pycache__").mkdir()
    (folder / "package" / "__pycache__" / "x.pyc").write_bytes(b"x")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("secret")
    return folder


def find(folder: Path, **given: Any) -> source.Source:
    return source.find({"source_dir": str(folder), "entry_point": "train.py", **given}, Path("/home/somebody"))


def faults(folder: Path, **given: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        find(folder, **given)
    return [str(fault) for fault in caught.value.faults]


def members(path: Path) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(path.read_bytes()), mode="r:gz") as archive:
        return {entry.name: entry for entry in archive}


def test_the_folders_contents_lie_at_the_archives_top(folder: Path, tmp_path: Path) -> None:
    find(folder).pack(tmp_path / "a.tar.gz")
    found = members(tmp_path / "a.tar.gz")
    assert sorted(found) == ["package", "package/__init__.py", "requirements.txt", "run.sh", "train.py"]
    assert found["run.sh"].mode & 0o111
    assert {(entry.uid, entry.uname) for entry in found.values()} == {(0, "")}


def test_equal_files_give_equal_bytes(folder: Path, tmp_path: Path) -> None:
    find(folder).pack(tmp_path / "a.tar.gz")
    (folder / "train.py").touch()
    find(folder).pack(tmp_path / "b.tar.gz")
    assert (tmp_path / "a.tar.gz").read_bytes() == (tmp_path / "b.tar.gz").read_bytes()


def test_links_are_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "shared.py").write_text("x = 1\n")
    (folder / "shared.py").symlink_to(tmp_path / "shared.py")
    find(folder).pack(tmp_path / "a.tar.gz")
    assert members(tmp_path / "a.tar.gz")["shared.py"].isreg()


def test_dependencies_go_beside_the_script(folder: Path, tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    (library / "code.py").write_text("")
    (tmp_path / "single.py").write_text("")
    found = find(folder, dependencies=[str(library), str(tmp_path / "single.py")])
    found.pack(tmp_path / "a.tar.gz")
    assert {"library/code.py", "single.py", "train.py"} <= set(members(tmp_path / "a.tar.gz"))
    found.copy(tmp_path / "laid")
    assert (tmp_path / "laid" / "library" / "code.py").is_file()
    assert (tmp_path / "laid" / "train.py").is_file()


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"source_dir": "/nowhere"}, "/nowhere does not exist"),
        ({"entry_point": "trian.py"}, "did you mean train.py"),
        ({"entry_point": "run.sh"}, "run.sh is no Python script"),
        ({"dependencies": ["/nowhere"]}, "/nowhere does not exist"),
        ({"dependencies": ["/etc"]}, "/etc is no folder to be uploaded"),
        ({"dependencies": ["/home/somebody/.aws"]}, "is no folder to be uploaded"),
    ],
)
def test_what_cannot_be_uploaded_is_told(folder: Path, given: dict[str, Any], what: str) -> None:
    assert any(what in fault for fault in faults(folder, **given))


def test_a_link_that_leads_nowhere(folder: Path) -> None:
    (folder / "gone").symlink_to("nowhere")
    assert "the link gone leads nowhere" in faults(folder)[0]
