"""Waiting for ECR's scans, with a registry that answers from a list and a clock that only sleeping moves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from slipway.errors import ScanError
from slipway.supply import ecr_scan

DIGEST = "sha256:" + "0" * 64
BASIC = {
    "findings": [
        {
            "name": "CVE-2026-10",
            "severity": "UNDEFINED",
            "attributes": [{"key": "package_name", "value": "libc6"}, {"key": "package_version", "value": "2.36-9"}],
        }
    ]
}
ENHANCED = {
    "enhancedFindings": [
        {
            "severity": "HIGH",
            "status": "ACTIVE",
            "fixAvailable": "YES",
            "packageVulnerabilityDetails": {
                "vulnerabilityId": "CVE-2026-11",
                "relatedVulnerabilities": ["GHSA-1"],
                "vulnerablePackages": [
                    {"name": "pillow", "version": "11.0.0", "packageManager": "PYTHONPKG", "fixedInVersion": "11.1.0"},
                    {"name": "libc6", "version": "2.36", "release": "9", "packageManager": "OS"},
                ],
            },
        },
        {"severity": "CRITICAL", "status": "CLOSED", "packageVulnerabilityDetails": {"vulnerablePackages": [{}]}},
    ]
}


class Registry:
    """Gives one answer after the other, the last for ever."""

    def __init__(self, *answers: Mapping[str, Any] | None) -> None:
        self.answers = list(answers)
        self.started = 0
        self.now = 0.0

    def image_scan(self, repository: str, digest: str) -> Mapping[str, Any] | None:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def start_scan(self, repository: str, digest: str) -> None:
        self.started += 1

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def scan(self) -> tuple[tuple[ecr_scan.Finding, ...], tuple[str, ...]]:
        patience = ecr_scan.Patience(limit=100, between=10, clock=lambda: self.now, sleep=self.sleep)
        return ecr_scan.scan(self, "small", DIGEST, patience)


def answer(status: str, **found: Any) -> dict[str, Any]:
    return {"imageScanStatus": {"status": status, "description": "so it is"}, "imageScanFindings": found}


def test_a_basic_scan_is_asked_for_once_and_waited_for() -> None:
    registry = Registry(None, None, answer("IN_PROGRESS"), answer("COMPLETE", **BASIC))
    (found,), covers = registry.scan()
    assert (registry.started, registry.now) == (1, 30)
    assert covers == ("debian",), "basic scanning sees no Python package"
    assert (found.id, found.package, found.version, found.severity) == ("CVE-2026-10", "libc6", "2.36-9", "unknown")
    assert not found.fix_known


def test_enhanced_findings_are_one_a_package_and_only_those_that_stand() -> None:
    registry = Registry(answer("PENDING"), answer("ACTIVE", **ENHANCED))
    (python, debian), covers = registry.scan()
    assert registry.started == 0
    assert "python" in covers
    assert (python.package, python.kind, python.fixed, python.aliases) == (
        "pillow",
        "python",
        ("11.1.0",),
        ("GHSA-1",),
    )
    assert (debian.kind, debian.version, debian.fixed, debian.fix_known) == ("debian", "2.36-9", (), False)


def test_an_enhanced_scan_that_found_nothing_covers_everything() -> None:
    assert Registry(answer("ACTIVE")).scan() == ((), ("python", "debian", "other"))


@pytest.mark.parametrize(
    "status",
    ["FAILED", "UNSUPPORTED_IMAGE", "SCAN_ELIGIBILITY_EXPIRED", "FINDINGS_UNAVAILABLE", "LIMIT_EXCEEDED", "NEW_WORD"],
)
def test_a_scan_that_failed_is_no_clean_image(status: str) -> None:
    with pytest.raises(ScanError, match=f"{status}: so it is"):
        Registry(answer(status)).scan()


@pytest.mark.parametrize("forever", [None, {}, answer("IN_PROGRESS")])
def test_waiting_has_an_end(forever: Mapping[str, Any] | None) -> None:
    registry = Registry(forever)
    with pytest.raises(ScanError, match="within 100 s"):
        registry.scan()
    assert registry.now == 100
