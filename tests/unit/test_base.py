"""What images stand on: recipes and pulled references, from settings alone."""

from __future__ import annotations

import dataclasses
import shlex
import subprocess

import pytest

from slipway import base
from slipway.base import Pulled, Recipe
from slipway.errors import SpecError

DIGEST = "sha256:" + "0123456789abcdef" * 4


def recipe(os_name: str = "debian12", **settings: str) -> Recipe:
    found = base.of(os_name, **settings)
    assert isinstance(found, Recipe)
    return found


def faults(os_name: str = "debian12", **settings: str) -> str:
    with pytest.raises(SpecError) as caught:
        base.of(os_name, **settings)
    return str(caught.value)


@pytest.mark.parametrize(("os_name", "suite"), [("debian12", "bookworm"), ("debian13", "trixie")])
def test_the_os_names_the_suite(os_name: str, suite: str) -> None:
    command = recipe(os_name).command("out.tar")
    assert command[-2:] == [suite, "out.tar"]


def test_file_times_are_fixed() -> None:
    assert f"SOURCE_DATE_EPOCH={base.EPOCH}" in recipe().command()


def test_the_hash_follows_everything_that_shapes_the_result() -> None:
    plain = recipe()
    others = [
        recipe("debian13"),
        recipe(mirror="https://mirror.example/debian"),
        recipe(snapshot="https://days.example/debian/20261101T000000Z"),
        dataclasses.replace(plain, include=(*plain.include, "git")),
        dataclasses.replace(plain, epoch=plain.epoch + 1),
    ]
    hashes = {found.hash for found in [plain, *others]}
    assert len(hashes) == 6
    assert recipe().hash == plain.hash


def test_the_hash_does_not_follow_where_the_file_goes() -> None:
    one = recipe()
    before = one.hash
    one.command("elsewhere.tar", host_apt="settings")
    assert one.hash == before


def test_debians_own_addresses_are_left_to_mmdebstrap() -> None:
    assert recipe().sources() == []


def test_a_mirror_in_debians_layout_brings_updates_and_security_fixes() -> None:
    assert recipe(mirror="https://mirror.example/debian/").sources() == [
        "deb https://mirror.example/debian bookworm main",
        "deb https://mirror.example/debian bookworm-updates main",
        "deb https://mirror.example/debian-security bookworm-security main",
    ]


def test_a_mirror_in_another_layout_is_the_one_archive_it_is() -> None:
    assert recipe(mirror="https://mirror.example/os").sources() == ["deb https://mirror.example/os bookworm main"]


def test_a_snapshot_freezes_all_three_archives() -> None:
    lines = recipe(snapshot="https://days.example/debian/20261101T000000Z").sources()
    assert [line.split()[2:] for line in lines] == [
        ["https://days.example/debian/20261101T000000Z", "bookworm", "main"],
        ["https://days.example/debian/20261101T000000Z", "bookworm-updates", "main"],
        ["https://days.example/debian-security/20261101T000000Z", "bookworm-security", "main"],
    ]
    assert all("[check-valid-until=no]" in line for line in lines), "the dates of old archives have run out"


def test_the_script_is_the_command_for_a_shell() -> None:
    lines = recipe(mirror="https://mirror.example/debian").script("base.tar").splitlines()
    assert subprocess.run(["sh", "-n"], input="\n".join(lines), text=True, check=False).returncode == 0
    words = shlex.split(lines[2])
    expected = recipe(mirror="https://mirror.example/debian").command("base.tar", host_apt="HOST")
    assert [word.replace("$host_apt", "HOST") for word in words] == expected


def test_a_reference_with_a_digest_is_pulled() -> None:
    found = base.of("debian12", base=f"registry.example:5000/team/python:3.11@{DIGEST}")
    assert found == Pulled(f"registry.example:5000/team/python:3.11@{DIGEST}")
    assert found.hash != Pulled(f"python@{DIGEST}").hash


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("python:3.11", "no digest"),
        ("python@sha256:abc", "64 hexadecimal"),
        (f"python@{DIGEST.upper()}", "64 hexadecimal"),
        (f"Python Image@{DIGEST}", "not an image reference"),
        (f"@{DIGEST}", "not an image reference"),
        ("bootstrapp", "no digest"),
    ],
)
def test_a_reference_without_a_whole_digest_is_refused(given: str, told: str) -> None:
    assert told in faults(base=given)


def test_an_unknown_os_is_answered_with_the_nearest() -> None:
    assert "did you mean debian12" in faults("debian_12")


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"snapshot": "yesterday"}, "neither a time nor a URL"),
        ({"snapshot": "20261101"}, "neither a time nor a URL"),
        ({"mirror": "mirror.example/debian"}, "apt-mirror is not a URL"),
        ({"mirror": "https://user:word@mirror.example/debian"}, "user name or password"),
        ({"mirror": "https://m.example/debian", "snapshot": "20261101T000000Z"}, "give one of them"),
        ({"base": f"python@{DIGEST}", "snapshot": "20261101T000000Z"}, "no effect on a pulled base"),
        ({"base": f"python@{DIGEST}", "mirror": "https://m.example/debian"}, "no effect on a pulled base"),
    ],
)
def test_settings_that_cannot_hold_are_refused(settings: dict[str, str], told: str) -> None:
    assert told in faults(**settings)


def test_all_faults_are_told_at_once() -> None:
    told = faults("plan9", mirror="x", snapshot="y")
    assert told.count("(fix: ") == 4
