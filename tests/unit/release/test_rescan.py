"""Looking again: which images, by whom, and what keeps from looking is never clean."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from slipway import settings
from slipway.errors import UsageError
from slipway.records import Push
from slipway.release import access, rescan
from slipway.release.config import Allowance, ReleaseConfig
from slipway.supply import signing
from slipway.supply.config import Allow, Gate, Signing
from slipway.supply.sbom import Package
from tests.unit.release.entries import PACKAGES, digest, history, released, yanked

TODAY = date(2026, 11, 30)
ADVISORY = {
    "id": "PYSEC-2026-1",
    "affected": [{"package": {"ecosystem": "PyPI", "name": "Pillow"}, "versions": ["11.0.0"]}],
}


@pytest.fixture
def advisories(tmp_path: Path) -> Path:
    path = tmp_path / "advisories.json"
    path.write_text(json.dumps(ADVISORY))
    return path


def look(tmp_path: Path, gate: Gate | None, subject: rescan.Subject | None = None, **more: Any) -> rescan.Seen:
    given = settings.read(project=tmp_path, environment={"HOME": str(tmp_path)})
    (found,) = rescan.subjects(history(released(1, "a", "a")), [])
    return rescan.look(subject or found, ReleaseConfig(scan=gate, **more), given, TODAY)


def test_the_newest_of_each_image_is_looked_at_and_every_one_on_request() -> None:
    told = history(
        released(1, "a", "a"), released(2, "a", "b"), released(3, "b", "c"), released(4, "c", "d"), yanked(5, "d")
    )
    assert [one.manifest_digest for one in rescan.subjects(told, [])] == [digest("b"), digest("c")]
    assert len(rescan.subjects(told, [], every=True)) == 3, "what was taken back needs no rebuild"


def test_without_a_ledger_what_was_pushed_is_looked_at() -> None:
    push = Push(
        config_digest=digest("a"),
        manifest_digest=digest("b"),
        media_type="",
        image="a",
        framework="small",
        version="1.2.0",
        scope="training",
        processor="cpu",
        python="3.11",
        registry="registry.example",
        region="",
        repository="small-training",
        tag="1.2.0-cpu-py311-debian12-v1",
        uri="",
    )
    (found,) = rescan.subjects(history(), [push])
    assert (found.places, found.packages) == ((("registry.example", "small-training"),), ())


def test_packages_are_those_of_the_ledger() -> None:
    (found,) = rescan.subjects(history(released(1, "a", "a")), [])
    assert set(found.packages) == {
        Package("python", "pillow", "11.0.0"),
        Package("python", "torch", "2.13.0+cpu"),
        Package("debian", "libc6", "2.36-9"),
        Package("binary", "protoc", "1"),
    }
    assert {one.called for one in found.packages} == set(PACKAGES)


def test_what_is_known_today_asks_for_a_rebuild_unless_allowed_for_this_image(tmp_path: Path, advisories: Path) -> None:
    gate = Gate(scanner="osv-file", source=str(advisories), unfixed=True)
    seen = look(tmp_path, gate)
    assert seen.state == rescan.REBUILD
    assert seen.judgement is not None and [one.id for one in seen.judgement.failures] == ["PYSEC-2026-1"]
    allow = Allow(id="PYSEC-2026-1", reason="not reached", review_by=date(2027, 1, 1))
    assert look(tmp_path, gate, allowances=(Allowance(allow, image="a"),)).state == rescan.CLEAN
    assert look(tmp_path, gate, allowances=(Allowance(allow, image="b"),)).state == rescan.REBUILD


def test_what_could_not_be_looked_at_is_told_and_not_clean(tmp_path: Path) -> None:
    for scanner, told in (("osv-file", "cannot be read"), ("ecr", "no ECR repository"), ("grype", "no SBOM")):
        seen = look(tmp_path, Gate(scanner=scanner, source="/nowhere"))
        assert (seen.state, seen.judgement) == (rescan.UNSEEN, None)
        assert seen.trouble is not None and told in seen.trouble.message


@pytest.mark.parametrize("gate", [None, Gate(scanner="none")])
def test_without_a_scanner_there_is_nothing_to_do(tmp_path: Path, gate: Gate | None) -> None:
    with pytest.raises(UsageError, match="names no scanner"):
        look(tmp_path, gate)


def test_the_attested_sbom_is_looked_at_where_none_is_kept(
    tmp_path: Path, advisories: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def attested(subject: str, *_: object) -> dict[str, Any]:
        asked.append(subject)
        return {"bomFormat": "CycloneDX", "components": [{"purl": "pkg:pypi/pillow@11.0.0"}]}

    monkeypatch.setattr(signing, "attested", attested)
    monkeypatch.setattr(access, "credentials", lambda *_: None)
    gate = Gate(scanner="osv-file", source=str(advisories), unfixed=True)
    (subject,) = rescan.subjects(history(released(1, "a", "a", packages={})), [])
    seen = look(tmp_path, gate, subject, signing=Signing(kind="key", public_key="cosign.pub"))
    assert seen.state == rescan.REBUILD
    assert asked == [f"registry.example/small-training@{digest('a')}"]
    assert not list(tmp_path.rglob("cyclonedx.json")), "half an SBOM is not left for a release to take for whole"
