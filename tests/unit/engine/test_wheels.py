"""Wheels of the host: found by name and version, taken only by hash; toolkits built to equal bytes."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import pytest

from slipway.engine import wheels
from slipway.engine.wheels import Pin
from slipway.errors import ProgramError, SpecError
from slipway.files import sha256_file
from slipway.settings import PipSettings


def wheel(folder: Path, name: str, content: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(content or name)
    return path


def lock(*paths: Path, name: str = "", version: str = "") -> str:
    text = "# inputs: x\n"
    for path in paths:
        given, held = path.name.replace("%2B", "+").split("-")[:2]
        text += f"{name or given}=={version or held}"
        text += "".join(f" \\\n    --hash=sha256:{one}" for one in ("0" * 64, sha256_file(path))) + "\n"
    return text


def test_pins_are_read_with_all_their_hashes() -> None:
    one, two = "a" * 64, "b" * 64
    hashes = "".join(f" \\\n    --hash=sha256:{digest}" for digest in (one, two))
    text = f"# x==1\nTorch_Vision==1.0+cpu ; python_version < '4'{hashes}\nb==2\n"
    assert wheels.pins(text) == (
        Pin("torch-vision", "1.0+cpu", frozenset({one, two})),
        Pin("b", "2", frozenset()),
    )
    assert wheels.pins("") == ()


def test_a_wheel_with_the_right_hash_is_staged_by_a_link(tmp_path: Path) -> None:
    path = wheel(tmp_path / "a folder", "Torch-2.0+cpu-cp311-cp311-linux_x86_64.whl")
    other = wheel(tmp_path / "a folder", "numpy-1.0-py3-none-any.whl")
    pip = PipSettings(find_links=(f"file://{tmp_path}/a%20folder",))
    staged = wheels.stage([lock(path, name="torch")], pip, tmp_path / "staged")
    assert [found.name for found in staged] == [path.name]
    assert staged[0].samefile(path)
    assert not (tmp_path / "staged" / other.name).exists()


def test_names_that_are_quoted_on_disk_are_not_in_the_folder(tmp_path: Path) -> None:
    path = wheel(tmp_path / "w", "torch-2.0%2Bcpu-cp311-cp311-linux_x86_64.whl")
    staged = wheels.stage([lock(path)], PipSettings(find_links=(str(tmp_path / "w"),)), tmp_path / "staged")
    assert [found.name for found in staged] == ["torch-2.0+cpu-cp311-cp311-linux_x86_64.whl"]


def test_a_wheel_with_a_wrong_hash_is_not_staged(tmp_path: Path) -> None:
    path = wheel(tmp_path / "w", "torch-2.0-py3-none-any.whl")
    text = lock(path)
    path.write_text("tampered")
    assert wheels.stage([text], PipSettings(find_links=(str(tmp_path / "w"),)), tmp_path / "staged") == []


def test_the_right_one_of_several_folders_is_found(tmp_path: Path) -> None:
    wrong = wheel(tmp_path / "1", "torch-2.0-py3-none-any.whl", "wrong")
    right = wheel(tmp_path / "2", "torch-2.0-py3-none-any.whl", "right")
    pip = PipSettings(find_links=(str(wrong.parent), str(tmp_path / "missing"), str(right.parent), "https://x.example"))
    (staged,) = wheels.stage([lock(right)], pip, tmp_path / "staged")
    assert staged.samefile(right)


def test_what_an_earlier_lock_staged_goes(tmp_path: Path) -> None:
    old = wheel(tmp_path / "w", "torch-1.0-py3-none-any.whl")
    new = wheel(tmp_path / "w", "torch-2.0-py3-none-any.whl")
    pip = PipSettings(find_links=(str(tmp_path / "w"),))
    wheels.stage([lock(old)], pip, tmp_path / "staged")
    wheels.stage([lock(new)], pip, tmp_path / "staged")
    assert [path.name for path in (tmp_path / "staged").iterdir()] == [new.name]
    assert old.exists()


def test_many_may_stage_at_once_and_a_killed_ones_leftovers_go(tmp_path: Path) -> None:
    paths = [wheel(tmp_path / "w", f"p{number}-1.0-py3-none-any.whl") for number in range(5)]
    pip = PipSettings(find_links=(str(tmp_path / "w"),))
    (tmp_path / "staged" / ".p0.left").mkdir(parents=True)
    (tmp_path / "staged" / ".p0.left" / "file").touch()
    found: list[list[str]] = []

    def stage() -> None:
        for _ in range(10):
            found.append([path.name for path in wheels.stage([lock(*paths)], pip, tmp_path / "staged")])
            for path in paths[:2]:
                (tmp_path / "staged" / path.name).unlink(missing_ok=True)

    threads = [threading.Thread(target=stage) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 40
    assert all(names == [path.name for path in paths] for names in found)
    assert {path.name for path in (tmp_path / "staged").iterdir()} <= {path.name for path in paths}


@pytest.mark.parametrize("index", ["index_url", "extra_index_urls"])
def test_a_file_index_is_followed_to_where_its_wheels_lie(tmp_path: Path, index: str) -> None:
    page = tmp_path / "simple dir" / "torch"
    beside = wheel(page, "torch-1.0-py3-none-any.whl")
    away = wheel(tmp_path / "files dir", "torch-2.0%2Bcpu-py3-none-any.whl")
    full = wheel(tmp_path / "full", "torch-3.0-py3-none-any.whl")
    (page / "index.html").write_text(
        '<a href="../../files%20dir/torch-2.0%252Bcpu-py3-none-any.whl#sha256=0">x</a>'
        f'<a href="file://{full}">y</a><a href="https://elsewhere.example/torch-4.0-py3-none-any.whl">z</a>'
    )
    url = f"file://{tmp_path}/simple%20dir"
    pip = PipSettings(index_url=url) if index == "index_url" else PipSettings(extra_index_urls=("https://a", url))
    staged = wheels.stage([lock(beside, name="Torch"), lock(away), lock(full)], pip, tmp_path / "staged")
    assert [path.name for path in staged] == [
        "torch-1.0-py3-none-any.whl",
        "torch-2.0+cpu-py3-none-any.whl",
        "torch-3.0-py3-none-any.whl",
    ]


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("/w", Path("/w")),
        ("file:///w%20x", Path("/w x")),
        ("file://localhost/w", Path("/w")),
        ("https://x/w", None),
        ("~/w", Path.home() / "w"),
    ],
)
def test_a_location_is_a_path_here_or_an_address_elsewhere(location: str, path: Path | None) -> None:
    assert wheels.local_path(location) == path


def test_a_toolkits_wheel_has_equal_bytes_wherever_and_whenever(project: Path, tmp_path: Path) -> None:
    source = project / "toolkits" / "training"
    first = wheels.build_toolkit(source, tmp_path / "1", epoch=1_700_000_000)
    copy = tmp_path / "elsewhere" / "training"
    shutil.copytree(source, copy)
    for path in copy.iterdir():
        os.utime(path, (1, 1))
    second = wheels.build_toolkit(copy, tmp_path / "2", epoch=1_700_000_000)
    assert first.name == second.name == "small_toolkit-1.0-py3-none-any.whl"
    assert first.read_bytes() == second.read_bytes()
    (copy / "small_toolkit.py").write_text('"""Other."""\n')
    assert wheels.build_toolkit(copy, tmp_path / "3", epoch=1_700_000_000).read_bytes() != first.read_bytes()


def test_a_toolkit_that_cannot_be_built_is_told(project: Path, tmp_path: Path) -> None:
    source = project / "toolkits" / "training"
    (source / "small_toolkit.py").unlink()
    with pytest.raises(ProgramError, match="No file/folder found for module small_toolkit") as caught:
        wheels.build_toolkit(source, tmp_path, epoch=1)
    assert "toolkits/training/pyproject.toml" in caught.value.fix
    (source / "pyproject.toml").write_text("[project]\n")
    with pytest.raises(SpecError, match=r"toolkits/training/pyproject\.toml has no project name"):
        wheels.build_toolkit(source, tmp_path, epoch=1)
    (source / "pyproject.toml").unlink()
    with pytest.raises(SpecError, match=r"toolkits/training has no pyproject\.toml"):
        wheels.build_toolkit(source, tmp_path, epoch=1)
