"""list, plan, render, lock: what they answer, to people and to machines."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from invoke.exceptions import Exit

from slipway.commands import locks, matrix
from slipway.commands import size as sizes
from slipway.records import Build, Records
from slipway.spec.select import Selector

NEWEST = "small-training-1.2.0-cpu-py311"
OLDER = "small-training-1.1.0-cpu-py311"
EXCLUDED = f"{NEWEST}-arm64"
ALL = Selector(everything=True)
SMALL = Selector(framework="small")

Output = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def here(project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(project)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    for name in ("PIP_FIND_LINKS", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv-cache"))


def answer(output: Output) -> Any:
    return json.loads(output.readouterr().out)


def code_of(caught: pytest.ExceptionInfo[Exit]) -> int:
    assert isinstance(caught.value.code, int)
    return caught.value.code


def test_the_list_holds_every_cell_with_its_state(capsys: Output) -> None:
    matrix.list_images(Selector(), False)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert lines[2].split()[:3] == [NEWEST, "small-training:1.2.0-cpu-py311-debian12", "default"]
    assert "excluded: no machine of this architecture builds here" in lines[3]
    assert lines[4].split()[2:] == ["on", "request"]
    matrix.list_images(Selector(only=OLDER), True)
    (facts,) = answer(capsys)
    assert (facts["id"], facts["default"], facts["excluded"]) == (OLDER, False, "")


def test_a_plan_names_what_is_left_out_and_why(capsys: Output) -> None:
    matrix.plan(SMALL, False)
    out, err = capsys.readouterr()
    assert NEWEST in out
    assert f"{EXCLUDED}  no machine of this architecture builds here" in out
    assert "base: bootstrapped debian12 (bookworm) for debian12 (setting base, from default)" in err
    matrix.plan(Selector(), True, base=None, snapshot="20261101T000000Z")
    found = answer(capsys)
    assert found["images"] == [NEWEST, OLDER]
    assert found["excluded"] == {EXCLUDED: "no machine of this architecture builds here"}
    assert set(found["bases"]) == {"debian12"}
    assert found["bases"]["debian12"].endswith("/debian/20261101T000000Z")


@pytest.mark.parametrize(("asked", "taken"), [("1.3.0", NEWEST), ("1.1.7", OLDER), ("0.9", OLDER), ("2.0rc1", NEWEST)])
def test_an_unknown_version_is_a_warning_for_those_who_look(capsys: Output, asked: str, taken: str) -> None:
    chosen = Selector(framework="small", version=asked)
    matrix.plan(chosen, True)
    out, err = capsys.readouterr()
    assert json.loads(out)["images"] == [taken]
    assert f"warning: --version {asked} is not in buildspec/" in err and "`invoke add`" in err
    matrix.list_images(chosen, True)
    out, err = capsys.readouterr()
    assert [facts["id"] for facts in json.loads(out) if not facts["excluded"]] == [taken]
    assert "is not in buildspec/" in err
    with pytest.raises(Exit) as caught:
        matrix.build(chosen, True, False, False)
    assert code_of(caught) == 2, "another version than the one asked for is never made"
    assert "`invoke add` adds a version" in capsys.readouterr().err


def test_a_plan_names_the_packages_that_are_missed(capsys: Output, project: Path) -> None:
    file = project / "buildspec" / "small.yml"
    file.write_text(
        file.read_text().replace("    packages:\n", "    without: {missed: no such build}\n    packages:\n", 1)
    )
    matrix.plan(SMALL, False)
    assert "small-1.2.0-cpu-py311  missed   no such build" in capsys.readouterr().out
    matrix.plan(SMALL, True)
    assert answer(capsys)["without"] == {NEWEST: {"missed": "no such build"}}


def test_a_rendering_goes_where_it_is_told_and_is_the_same_again(capsys: Output, tmp_path: Path) -> None:
    matrix.render(SMALL, str(tmp_path / "out"), True)
    first = answer(capsys)
    before = {name: (tmp_path / "out" / name).read_bytes() for name in first["files"]}
    matrix.render(SMALL, str(tmp_path / "out"), True)
    assert answer(capsys) == first
    assert {name: (tmp_path / "out" / name).read_bytes() for name in first["files"]} == before


def test_a_rendering_does_not_mix_with_other_files(capsys: Output, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "build.sh").write_text("mine")
    (tmp_path / "file").touch()
    for name, told in (("mine", "holds other files"), ("file", "is a file")):
        with pytest.raises(Exit) as caught:
            matrix.render(SMALL, str(tmp_path / name), False)
        assert code_of(caught) == 2
        assert told in capsys.readouterr().err
    assert (tmp_path / "mine" / "build.sh").read_text() == "mine"


def offer(index: Any, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    for name in names:
        index.add(*name.split("=="))
    monkeypatch.setenv("PIP_INDEX_URL", index.url)
    monkeypatch.setenv("SLIPWAY_WHEEL_INDEX", index.url)


EVERYTHING = ("uv==1.0", "pip==1.0", "small==1.2.0", "small==1.1.0", "numpy==2.0", "boto3==3.0")


def test_locking_writes_all_parts_and_shows_what_changed(
    capsys: Output, index: Any, monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    (project / "buildspec/small.yml").write_text(
        (project / "buildspec/small.yml").read_text().replace("small==1.2.0, numpy", "small==1.2.0, numpy==2.0")
    )
    with pytest.raises(Exit) as caught:
        locks.lock(SMALL, False, True, False)
    assert code_of(caught) == 13
    told = capsys.readouterr().err
    assert "small-1.2.0-cpu-py311/common.txt was made for other packages" in told
    offer(index, monkeypatch, *EVERYTHING)
    locks.lock(SMALL, True, False, False)
    out = capsys.readouterr().out
    assert "small-1.2.0-cpu-py311/common:\n  numpy 1.0 -> 2.0\n" in out
    assert "tools: the same versions, other hashes\n" in out
    locks.lock(SMALL, False, False, False)
    assert capsys.readouterr().out.count(": no change\n") == 3
    locks.lock(SMALL, False, True, True)
    assert answer(capsys) == {"current": [NEWEST]}
    matrix.plan(SMALL, True)


def test_locking_writes_nothing_when_one_part_cannot_be_made(
    capsys: Output, index: Any, monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    folder = project / "buildspec" / "locks"
    before = {path: path.read_bytes() for path in folder.rglob("*.txt")}
    offer(index, monkeypatch, *EVERYTHING[:-1])
    with pytest.raises(Exit) as caught:
        locks.lock(Selector(), True, False, False)
    assert code_of(caught) == 13
    assert "small-1.2.0-cpu-py311/training cannot be locked" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in folder.rglob("*.txt")} == before


def texts(project: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in (project / "buildspec").rglob("*") if path.is_file()}


def test_outdated_shows_what_is_newer_and_changes_nothing(
    capsys: Output, index: Any, monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    offer(index, monkeypatch, *EVERYTHING, "small==1.3.0", "boto3==7.0")
    before = texts(project)
    locks.outdated(SMALL, True)
    found = {row["lock"]: row for row in answer(capsys)}
    assert found["small-1.2.0-cpu-py311/common"]["named"] == {"small": {"there": "1.2.0", "newest": "1.3.0"}}
    assert "boto3 1.0 -> 7.0" in found["small-1.2.0-cpu-py311/training"]["changes"]
    assert texts(project) == before


def test_a_version_is_added_whole_or_not_at_all(
    capsys: Output, index: Any, monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    before = texts(project)
    offer(index, monkeypatch, *EVERYTHING)
    with pytest.raises(Exit) as caught:
        locks.add("small", "1.3.0", "", False)
    assert code_of(caught) == 13
    assert texts(project) == before
    index.add("small", "1.3.0")
    monkeypatch.setenv("UV_CACHE_DIR", str(project / "other-cache"))  # the refusal is remembered in the first
    locks.add("small", "1.3.0", "", True)
    capsys.readouterr()
    locks.lock(Selector(framework="small", version="1.3.0"), False, True, True)
    assert answer(capsys) == {"current": ["small-training-1.3.0-cpu-py311"]}


def recorded(image: str, **layers: int) -> None:
    """A build on record, by layers in MB, lowest first; what has one name is one layer."""
    text = {field.name: "x" for field in fields(Build) if field.type == "str"}
    build = Build(
        **text | {"image": image, "config_digest": f"sha256:{image}", "built_at": "2026-11-30T10:00:00.000+00:00"},
        seconds=1.0,
        size=sum(layers.values()) * 1_000_000,
        compressed=31_000_000,
        hidden=2_000_000,
        ceiling_mb=150,
        compressed_ceiling_mb=40,
        layers=tuple(f"sha256:{name}" for name in layers),
        layer_sizes=tuple((name, mb * 1_000_000) for name, mb in layers.items()),
        packages={"numpy": 20_000_000, "git (Debian)": 30_000_000},
    )
    Records(Path(".slipway")).add_build(build)


def test_a_plan_shows_which_layers_images_share(capsys: Output) -> None:
    recorded(NEWEST, base=50, stack=30)
    matrix.plan(Selector(), False, layers=True)
    out, err = capsys.readouterr()
    assert f"warning: {OLDER} was not built here, so it is left out" in err
    assert out.splitlines()[-1] == "80 MB in all, 100 % of the 80 MB of the images apart"
    recorded(OLDER, base=50, other=10)
    matrix.plan(Selector(), False, layers=True)
    lines = capsys.readouterr().out.splitlines()
    rows = [line.split() for line in lines]
    assert rows.index(["base", "50", "2"]) < rows.index(["stack", "30", "1"]) < rows.index(["other", "10", "1"])
    assert lines[-1] == "90 MB in all, 64 % of the 140 MB of the images apart"
    matrix.plan(Selector(), True, layers=True)
    assert answer(capsys) == {
        "layers": {"base": [50_000_000, 2], "other": [10_000_000, 1], "stack": [30_000_000, 1]},
        "unique": 90_000_000,
        "total": 140_000_000,
    }
    matrix.plan(Selector(only=OLDER), True, layers=True)
    assert answer(capsys)["unique"] == 60_000_000, "images that are not chosen are not counted"


def test_the_size_of_a_cell_is_told_by_layer_and_package_with_its_ceilings(capsys: Output) -> None:
    recorded(NEWEST, base=50, stack=70)
    sizes.size(NEWEST, False)
    lines = capsys.readouterr().out.splitlines()
    rows = [line.split() for line in lines]
    assert rows.index(["base", "50.0"]) < rows.index(["stack", "70.0"])
    assert rows.index(["git", "(Debian)", "30.0"]) < rows.index(["numpy", "20.0"])
    assert lines[-1] == (
        "120 MB unpacked, 2 MB of it hidden by upper layers, ceiling 150 MB; 31 MB compressed, ceiling 40 MB"
    )
    sizes.size(NEWEST, True)
    found = answer(capsys)
    assert (found["unpacked"], found["compressed"], found["layers"]["stack"]) == (120_000_000, 31_000_000, 70_000_000)
