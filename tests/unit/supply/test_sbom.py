"""SBOMs: made once, read in both forms. The real syft: tests/integration."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from slipway.errors import ProgramError, TrustError
from slipway.supply import sbom
from slipway.supply.sbom import Package

from .conftest import URLS, cyclonedx, spdx

PACKAGES = (
    Package("debian", "libc6", "2.36-9+deb12u13"),
    Package("python", "Pillow", "11.0.0"),
    Package("python", "slipway-training", "0.1.0"),
    Package("python", "torch", "2.13.0+cpu"),
)


def syft(*urls: str) -> str:
    """A stand-in that writes both documents where it is told to, and what it was given for an environment."""
    documents = shlex.quote(json.dumps(cyclonedx(*urls))), shlex.quote(json.dumps(spdx(*urls)))
    return f"""
env >"$(dirname "$0")/environment"
for word in "$@"; do
    case $word in
        cyclonedx-json=*) printf %s {documents[0]} >"${{word#*=}}" ;;
        spdx-json=*) printf %s {documents[1]} >"${{word#*=}}" ;;
    esac
done
"""


def test_both_forms_name_the_same_packages() -> None:
    assert sbom.packages(cyclonedx(*URLS)) == sbom.packages(spdx(*URLS)) == PACKAGES


def test_one_look_makes_both_and_is_not_taken_twice(program: Callable[[str, str], Path], tmp_path: Path) -> None:
    calls = program("syft", syft(*URLS))
    made = sbom.make("small:1-dev", tmp_path / "sboms")
    assert sbom.read(made.cyclonedx) == sbom.read(made.spdx) == PACKAGES
    assert sbom.make("small:1-dev", tmp_path / "sboms") == made
    (call,) = calls.read_text().splitlines()
    assert "docker:small:1-dev" in call
    environment = (tmp_path / "bin/environment").read_text()
    assert "SYFT_CHECK_FOR_APP_UPDATE=false" in environment, "nothing phones home"
    assert sorted(path.name for path in (tmp_path / "sboms").iterdir()) == ["cyclonedx.json", "spdx.json"]


def test_an_archive_is_read_as_a_file(program: Callable[[str, str], Path], tmp_path: Path) -> None:
    calls = program("syft", syft(*URLS))
    archive = tmp_path / "image.tar"
    archive.touch()
    sbom.make(str(archive), tmp_path / "sboms")
    assert f" {archive} " in calls.read_text()


def test_files_that_nobody_read_are_left_out() -> None:
    related = [
        {"spdxElementId": one, "relatedSpdxElement": other, "relationshipType": "CONTAINS"}
        for one, other in (("SPDXRef-DOCUMENT", "SPDXRef-a"), ("SPDXRef-a", "SPDXRef-f"), ("SPDXRef-f", "SPDXRef-a"))
    ]
    document = {**spdx(*URLS), "files": [{"SPDXID": "SPDXRef-f"}], "relationships": related}
    assert sbom.without_files(document) == {**spdx(*URLS), "relationships": related[:1]}


@pytest.mark.parametrize(("body", "told"), [("echo no engine >&2; exit 1", "no engine"), (syft(), "found no package")])
def test_what_failed_leaves_nothing(program: Callable[[str, str], Path], tmp_path: Path, body: str, told: str) -> None:
    program("syft", body)
    with pytest.raises(ProgramError, match=told):
        sbom.make("small:1-dev", tmp_path / "sboms")
    assert list((tmp_path / "sboms").iterdir()) == []


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"bomFormat": "other"}'])
def test_what_is_no_sbom_is_not_read_as_an_empty_one(tmp_path: Path, text: str) -> None:
    path = tmp_path / "sbom.json"
    path.write_text(text)
    with pytest.raises(TrustError):
        sbom.read(path)
