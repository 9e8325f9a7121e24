"""Locks: when they serve, and how uv makes them, here against an index on loopback."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from slipway import lock, settings
from slipway.engine import wheels
from slipway.errors import LockError
from slipway.lock import Part
from slipway.settings import PipSettings, Settings

from .conftest import Index, image_of, make_wheel

PART = Part("s/common", ("one", "two"), "3.11", "x86_64-manylinux_2_36")


@pytest.fixture
def options(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv-cache"))
    return settings.read(project=project, environment={})


def pip(index: Index) -> PipSettings:
    return PipSettings(index_url=index.url)


def pinned(text: str) -> dict[str, str]:
    return {found.name: found.version for found in wheels.pins(text)}


def test_an_image_has_a_common_part_and_its_scopes_own(project: Path) -> None:
    common, own = lock.parts(image_of(project))
    assert common == Part(
        "small-1.2.0-cpu-py311/common",
        ("pip", "small==1.2.0", "numpy"),
        "3.11",
        "x86_64-manylinux_2_36",
        "https://wheels.example/cpu",
    )
    assert own == replace(common, name="small-1.2.0-cpu-py311/training", requirements=("boto3",), under=(common.name,))
    assert len(lock.parts(image_of(project, "small-training-1.1.0-cpu-py311"))) == 1


def test_the_inputs_of_a_lock_follow_all_that_decides_it() -> None:
    locks = {"base": "a==1\n"}
    same = PART.inputs(locks)
    assert replace(PART, requirements=("two", "one")).inputs(locks) == same
    assert replace(PART, wheel_index="https://mirror").inputs(locks) == same, "where a package lies decides nothing"
    others = [
        replace(PART, requirements=("one", "two", "three")),
        replace(PART, python="3.12"),
        replace(PART, platform="aarch64-manylinux_2_36"),
        replace(PART, under=("base",)),
    ]
    assert len({same, *(part.inputs(locks) for part in others)}) == 5


def test_a_part_is_bound_by_the_versions_below_it_alone() -> None:
    part = replace(PART, under=("base",))
    bound = part.inputs({"base": f"a==1 \\\n    --hash=sha256:{'0' * 64}\n"})
    assert part.inputs({"base": f"# words\na==1 \\\n    --hash=sha256:{'1' * 64}\n"}) == bound
    assert part.inputs({"base": "a==2\n"}) != bound


def test_a_lock_pins_with_hashes(index: Index, options: Settings) -> None:
    one, two = index.add("one", "1.0", "two<3"), index.add("two", "2.0")
    index.add("two", "3.0")
    text = lock.resolve(replace(PART, requirements=("one",)), {}, pip(index), options)
    assert text.splitlines() == [
        "# Made by `invoke lock`; change buildspec/ instead.",
        f"# inputs: {replace(PART, requirements=('one',)).inputs({})}",
        "one==1.0 \\",
        f"    --hash=sha256:{one}",
        "two==2.0 \\",
        f"    --hash=sha256:{two}",
    ]
    assert "127.0.0.1" not in text, "where it came from is the host's affair"


def test_pins_are_kept_until_an_upgrade_is_asked_for(index: Index, options: Settings) -> None:
    part = replace(PART, requirements=("one",))
    index.add("one", "1.0")
    first = lock.resolve(part, {}, pip(index), options)
    index.add("one", "1.1")
    shutil.rmtree(options.project.parent / "uv-cache", ignore_errors=True)
    assert lock.resolve(part, {part.name: first}, pip(index), options) == first
    upgraded = lock.resolve(part, {part.name: first}, pip(index), options, upgrade=True)
    assert pinned(upgraded) == {"one": "1.1"}


def test_a_scope_adds_to_what_is_common_and_repeats_none_of_it(index: Index, options: Settings) -> None:
    for version in ("1.0", "2.0"):
        index.add("Two_2", version)
    index.add("one", "1.0", "Two_2")
    common = replace(PART, requirements=("Two_2==1.0",))
    own = replace(PART, name="s/training", requirements=("one",), under=(common.name,))
    locks = {common.name: lock.resolve(common, {}, pip(index), options)}
    text = lock.resolve(own, locks, pip(index), options)
    assert pinned(locks[common.name]) == {"two-2": "1.0"}
    assert pinned(text) == {"one": "1.0"}
    clash = replace(own, requirements=("Two_2==2.0",))
    with pytest.raises(LockError, match=r"s/training cannot be locked") as caught:
        lock.resolve(clash, locks, pip(index), options)
    assert "two-2==1.0" in str(caught.value)


def test_the_hosts_constraints_bind_too(index: Index, options: Settings, tmp_path: Path) -> None:
    index.add("one", "1.0")
    index.add("one", "2.0")
    (tmp_path / "constraints.txt").write_text("one<2\n")
    bound = replace(pip(index), constraints=(str(tmp_path / "constraints.txt"),))
    assert pinned(lock.resolve(replace(PART, requirements=("one",)), {}, bound, options)) == {"one": "1.0"}


def test_what_does_not_exist_is_told(index: Index, options: Settings) -> None:
    index.add("one", "1.0")
    with pytest.raises(LockError) as caught:
        lock.resolve(replace(PART, requirements=("one==9", "nothing-of-this-name")), {}, pip(index), options)
    assert "s/common cannot be locked" in caught.value.message
    assert "nothing-of-this-name" in caught.value.message or "one==9" in caught.value.message
    assert "requirements" in caught.value.fix


@pytest.mark.parametrize("place", ["find-links", "index-url", "extra-index-url"])
def test_packages_that_lie_on_this_host_are_found(place: str, index: Index, options: Settings, tmp_path: Path) -> None:
    page = tmp_path / "a host" / "simple" / "two"
    make_wheel(page, "two", "2.0+local")
    (page / "index.html").write_text('<a href="two-2.0%2Blocal-py3-none-any.whl">x</a>')
    url = f"file://{tmp_path}/a%20host/simple"
    index.add("one", "1.0", "two")
    host = {
        "find-links": replace(pip(index), find_links=(f"{url}/two",)),
        "index-url": PipSettings(index_url=url, extra_index_urls=(index.url,)),
        "extra-index-url": replace(pip(index), extra_index_urls=(url,)),
    }[place]
    found = lock.resolve(replace(PART, requirements=("one",)), {}, host, options)
    assert pinned(found) == {"one": "1.0", "two": "2.0+local"}


def test_hashes_are_those_of_the_index_that_everybody_has(index: Index, options: Settings, tmp_path: Path) -> None:
    everybody = index.add("one", "1.0")
    page = tmp_path / "simple" / "one"
    make_wheel(page, "one", "1.0", "nothing; python_version<'3'")
    (page / "index.html").write_text('<a href="one-1.0-py3-none-any.whl">x</a>')
    host = replace(pip(index), extra_index_urls=(f"file://{tmp_path}/simple",))
    assert everybody in lock.resolve(replace(PART, requirements=("one",)), {}, host, options)


def test_the_frameworks_own_index_is_asked_unless_the_host_holds_its_build(
    index: Index, options: Settings, tmp_path: Path
) -> None:
    part = replace(PART, requirements=("torch==2.0",), wheel_index="https://framework.example")
    empty = settings.PipSettings()
    assert lock._wheel_index(part, {}, empty, options) == "https://framework.example"
    (tmp_path / "w").mkdir()
    host = PipSettings(find_links=(str(tmp_path / "w"),))
    for name, asked in [
        ("torch-2.0-cp311-cp311-linux_x86_64.whl", True),
        ("torch-2.0+cpu-cp312-cp312-linux_x86_64.whl", True),
        ("torch-2.1+cpu-cp311-cp311-linux_x86_64.whl", True),
        ("torch-2.0+cpu-cp311-cp311-linux_x86_64.whl", False),
    ]:
        (tmp_path / "w" / name).touch()
        assert bool(lock._wheel_index(part, {}, host, options)) is asked, name
    above = replace(part, requirements=("boto3",), under=("s/common",))
    assert lock._wheel_index(above, {"s/common": "torch==2.0+cpu\n"}, host, options) == ""
    mirror = settings.read(project=options.project, environment={"SLIPWAY_WHEEL_INDEX": "https://mirror.example"})
    assert lock._wheel_index(part, {}, empty, mirror) == "https://mirror.example"
    assert lock._wheel_index(replace(part, wheel_index=""), {}, empty, mirror) == ""


def test_writing_shows_what_came_went_and_moved(project: Path) -> None:
    old, new = "a==1\nb==1\nc==1\n", "a==1\nb==2\nd==1\n"
    change = lock.write(project, PART, old, new)
    assert change.lines == ("b 1 -> 2", "c 1 -> gone", "d new -> 1")
    assert "-b==1\n+b==2" in change.diff.replace("-c==1\n", "")
    assert (project / "buildspec/locks/s/common.txt").read_text() == new
    assert lock.write(project, PART, new, new).lines == ()


def test_the_hosts_settings_in_uvs_words(tmp_path: Path) -> None:
    host = PipSettings(
        index_url="https://me:word@index.example",
        extra_index_urls=("https://extra.example", "file:///here"),
        find_links=(str(tmp_path), "https://links.example"),
        cert="/ca.pem",
        trusted_hosts=("a", "b"),
    )
    assert lock.index_environment(host, "https://framework.example") == {
        "UV_DEFAULT_INDEX": "https://me:word@index.example",
        "UV_INDEX": "https://framework.example https://extra.example https://me:word@index.example file:///here",
        "UV_FIND_LINKS": f"{tmp_path},https://links.example",
        "SSL_CERT_FILE": "/ca.pem",
        "UV_INSECURE_HOST": "a b",
    }
    assert lock.index_environment(PipSettings(), "") == {}
