"""Scanners' answers, and what must never read as clean. The samples are small reports in the scanners' own forms."""

from __future__ import annotations

import json
import shlex
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slipway.errors import ScanError
from slipway.supply import gate, osv, scanners
from slipway.supply.config import SCANNERS, Gate
from slipway.supply.findings import Finding
from slipway.supply.gate import Target
from slipway.supply.sbom import Package

TRIVY = {
    "SchemaVersion": 2,
    "Results": [
        {
            "Target": "image (debian 12.7)",
            "Class": "os-pkgs",
            "Type": "debian",
            "Vulnerabilities": [
                {"VulnerabilityID": "CVE-2026-10", "PkgName": "libc6", "InstalledVersion": "2.36-9", "Severity": "LOW"}
            ],
        },
        {
            "Target": "Python",
            "Class": "lang-pkgs",
            "Type": "python-pkg",
            "Vulnerabilities": [
                {
                    "VulnerabilityID": "CVE-2026-11",
                    "PkgName": "pillow",
                    "InstalledVersion": "11.0.0",
                    "FixedVersion": "10.9.2, 11.1.0",
                    "Severity": "CRITICAL",
                }
            ],
        },
        {"Target": "Java", "Class": "lang-pkgs", "Type": "jar"},
    ],
}
GRYPE = {
    "matches": [
        {
            "vulnerability": {
                "id": "GHSA-xxxx",
                "severity": "High",
                "fix": {"versions": ["11.1.0"], "state": "fixed"},
            },
            "relatedVulnerabilities": [{"id": "CVE-2026-11"}],
            "artifact": {"name": "pillow", "version": "11.0.0", "type": "python"},
        },
        {
            "vulnerability": {
                "id": "CVE-2026-10",
                "severity": "Negligible",
                "fix": {"versions": [], "state": "wont-fix"},
            },
            "artifact": {"name": "libc6", "version": "2.36-9", "type": "deb"},
        },
    ],
    "descriptor": {"name": "grype", "db": {"built": "2026-11-30T00:00:00Z"}},
}
PIP_AUDIT = {
    "dependencies": [
        {
            "name": "pillow",
            "version": "11.0.0",
            "vulns": [{"id": "PYSEC-2026-1", "fix_versions": ["11.1.0"], "aliases": ["CVE-2026-11"]}],
        },
        {"name": "torch", "version": "2.13.0", "vulns": []},
    ],
    "fixes": [],
}


def printing(report: object, code: int = 0) -> str:
    return f"printf '%s' {shlex.quote(json.dumps(report))}\nexit {code}"


def test_trivys_report() -> None:
    assert scanners.read_trivy(TRIVY) == (
        Finding(id="CVE-2026-10", package="libc6", version="2.36-9", severity="low", kind="debian"),
        Finding(
            id="CVE-2026-11",
            package="pillow",
            version="11.0.0",
            severity="critical",
            kind="python",
            fixed=("10.9.2", "11.1.0"),
        ),
    )


def test_grypes_report() -> None:
    first, second = scanners.read_grype(GRYPE)
    assert (first.aliases, first.fixed, first.severity, first.kind) == (("CVE-2026-11",), ("11.1.0",), "high", "python")
    assert (second.fixed, second.fix_known, second.severity, second.kind) == ((), True, "negligible", "debian")


def test_trivy_looks_at_the_image_and_grype_at_the_sbom(program: Callable[..., Path], sbom_file: Path) -> None:
    calls = program("trivy", printing(TRIVY)), program("grype", printing(GRYPE))
    target = Target(image="host/small@sha256:00", sbom=sbom_file)
    assert len(gate.findings(target, Gate(scanner="trivy")).findings) == 2
    assert len(gate.findings(target, Gate(scanner="grype")).findings) == 2
    trivy, grype = (path.read_text() for path in calls)
    assert trivy.endswith("host/small@sha256:00\n")
    assert grype.endswith(f"sbom:{sbom_file}\n")


def test_pip_audit_is_asked_about_versions_that_advisories_name(program: Callable[..., Path], sbom_file: Path) -> None:
    calls = program("pip-audit", 'cat "$2" >"$0.asked"\n' + printing(PIP_AUDIT, code=1))
    scan = gate.findings(Target(sbom=sbom_file), Gate(scanner="pip-audit", source="http://127.0.0.1:9/v1/query"))
    (found,) = scan.findings
    assert (found.id, found.aliases, found.fixed, found.severity) == (
        "PYSEC-2026-1",
        ("CVE-2026-11",),
        ("11.1.0",),
        "unknown",
    )
    assert scan.covers == ("python",)
    asked = next(path for path in calls.parent.rglob("pip-audit.asked")).read_text()
    assert asked == "pillow==11.0.0\ntorch==2.13.0\n", "no local version, none of our own toolkits"
    assert "--osv-url http://127.0.0.1:9/v1/query" in calls.read_text()


@pytest.mark.parametrize(
    ("name", "body", "told"),
    [
        ("trivy", "echo FATAL no database >&2; exit 1", "no database"),
        ("trivy", printing({"SchemaVersion": 2}), "recognised nothing"),
        ("trivy", printing(TRIVY, code=2), "exit code 2"),
        ("trivy", "kill -9 $$", "exit code -9"),
        ("grype", "echo failed to load the database >&2; exit 1", "failed to load"),
        ("grype", printing({"matches": []}), "no vulnerability database"),
        ("grype", printing([]), "could not look"),
        ("pip-audit", "echo ERROR: connection refused >&2; exit 1", "connection refused"),
        ("pip-audit", printing({"dependencies": []}), "2 of 2 packages: pillow, torch"),
        (
            "pip-audit",
            printing({"dependencies": [{"name": "torch", "skip_reason": "not found"}, PIP_AUDIT["dependencies"][0]]}),
            r"1 of 2 packages: torch \(not found\)",
        ),
        ("osv-file", "", "names no file|cannot be read"),
        ("none", "", "names no scanner"),
        ("ecr", "", "in no ECR repository"),
    ],
)
def test_a_scanner_that_could_not_look_is_no_clean_image(
    program: Callable[..., Path], sbom_file: Path, name: str, body: str, told: str
) -> None:
    program(name, body)
    with pytest.raises(ScanError, match=told):
        gate.findings(Target(image="small:1", sbom=sbom_file), Gate(scanner=name, source="/nowhere"))


@pytest.mark.parametrize("name", ["trivy", "grype", "pip-audit"])
def test_a_missing_scanner_is_no_clean_image(program: Callable[..., Path], sbom_file: Path, name: str) -> None:
    program("other", "")
    with pytest.raises(ScanError, match=f"{name} is not installed"):
        gate.findings(Target(image="small:1", sbom=sbom_file), Gate(scanner=name))


@pytest.mark.parametrize("name", ["grype", "pip-audit", "osv-file"])
def test_without_an_sbom_nothing_is_known(program: Callable[..., Path], name: str) -> None:
    program(name, printing({}))
    with pytest.raises(ScanError):
        gate.findings(Target(image="small:1"), Gate(scanner=name, source="/nowhere"))


def test_every_scanner_that_can_be_named_is_there() -> None:
    assert set(gate._SCANNERS) == set(SCANNERS)


# --- advisories in a file -------------------------------------------------------------------------------------------

PACKAGES = (Package("python", "Pillow", "11.0.0"), Package("python", "torch", "2.13.0+cpu"))


def advisory(id: str = "PYSEC-2026-1", name: str = "pillow", **changes: Any) -> dict[str, Any]:
    events = [{"introduced": "0"}, {"fixed": "10.1.0"}, {"introduced": "11.0.0"}, {"fixed": "11.1.0"}]
    affected = {
        "package": {"ecosystem": "PyPI", "name": name},
        "ranges": [{"type": "ECOSYSTEM", "events": events}],
    }
    return {"id": id, "affected": [affected], **changes}


def scanned(tmp_path: Path, *documents: Any) -> list[str]:
    source = tmp_path / "advisories.json"
    source.write_text(json.dumps(documents))
    return [found.id for found in osv.scan(PACKAGES, source)]


def ranged(*events: dict[str, str], versions: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"ranges": [{"type": "ECOSYSTEM", "events": list(events)}], "versions": list(versions)}


@pytest.mark.parametrize(
    ("version", "affected"),
    [("10.0.9", True), ("10.1.0", False), ("10.9", False), ("11.0.0", True), ("11.0.9rc1", True), ("11.1.0", False)],
)
def test_ranges_are_read_event_by_event(version: str, affected: bool) -> None:
    assert osv.is_affected(version, advisory()["affected"][0]) is affected


def test_the_last_affected_version_is_affected_and_listed_ones_are() -> None:
    last = ranged({"introduced": "1.0"}, {"last_affected": "2.0"}, versions=("0.5",))
    assert [osv.is_affected(version, last) for version in ("0.5", "0.9", "1.0", "2.0", "2.0.1")] == [
        True,
        False,
        True,
        True,
        False,
    ]


def test_a_version_that_cannot_be_ordered_is_not_let_through() -> None:
    assert osv.is_affected("not a version", ranged({"introduced": "0"}))


def test_local_versions_are_compared_as_what_they_were_made_from(tmp_path: Path) -> None:
    affected = {"package": {"ecosystem": "PyPI", "name": "torch"}, "versions": ["2.13.0"]}
    assert scanned(tmp_path, {"id": "A", "affected": [affected]}) == ["A"]


def test_other_ecosystems_and_withdrawn_advisories_are_left_out(tmp_path: Path) -> None:
    other = advisory("B")
    other["affected"][0]["package"]["ecosystem"] = "npm"
    assert scanned(tmp_path, advisory("A", withdrawn="2026-01-01T00:00:00Z"), other) == []


def test_two_databases_that_mean_one_thing_count_once_with_its_severity(tmp_path: Path) -> None:
    told = advisory("GHSA-1", aliases=["CVE-1"], database_specific={"severity": "MODERATE"})
    source = tmp_path / "advisories.jsonl"
    source.write_text("".join(json.dumps(one) + "\n" for one in (advisory(aliases=["CVE-1"]), told)))
    (found,) = osv.scan(PACKAGES, source)
    assert (found.id, found.severity, found.fixed) == ("GHSA-1", "medium", ("10.1.0", "11.1.0"))


def test_an_archive_of_advisories_is_read(tmp_path: Path) -> None:
    source = tmp_path / "all.zip"
    with zipfile.ZipFile(source, "w") as archive:
        archive.writestr("PYSEC-2026-1.json", json.dumps(advisory()))
    assert [found.id for found in osv.scan(PACKAGES, source)] == ["PYSEC-2026-1"]
    (tmp_path / "cut.zip").write_bytes(source.read_bytes()[:40])
    with pytest.raises(ScanError):
        osv.scan(PACKAGES, tmp_path / "cut.zip")


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", "[1]", "no json", '{"id": "A", "affected": 3}'])
def test_a_file_without_advisories_is_no_clean_image(tmp_path: Path, text: str) -> None:
    source = tmp_path / "advisories.json"
    source.write_text(text)
    with pytest.raises(ScanError):
        osv.scan(PACKAGES, source)
