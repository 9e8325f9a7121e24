"""The gate's judgement: pure, so every rule is tried here."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
import yaml

from slipway.errors import GateError
from slipway.supply import findings
from slipway.supply.config import SEVERITIES, Allow, Gate
from slipway.supply.findings import Finding, Scan, judge

TODAY = date(2026, 11, 30)


def finding(**changes: Any) -> Finding:
    given: dict[str, Any] = {
        "id": "CVE-2026-1",
        "package": "pillow",
        "version": "11.0.0",
        "severity": "critical",
        "kind": "python",
        "fixed": ("12.1.0",),
    }
    return Finding(**{**given, **changes})


def scan(*found: Finding) -> Scan:
    return Scan(scanner="grype", at="2026-11-30T00:00:00+00:00", findings=found)


def allow(**changes: Any) -> Allow:
    return Allow(**{"id": "CVE-2026-1", "reason": "not reached", "review_by": date(2026, 12, 1), **changes})


def gate(*allowed: Allow, **changes: Any) -> Gate:
    return Gate(scanner="grype", allow=allowed, **changes)


@pytest.mark.parametrize("lowest", SEVERITIES[1:])
def test_severities_fail_from_the_lowest_that_is_named(lowest: str) -> None:
    for severity in SEVERITIES[1:]:
        judged = judge(scan(finding(severity=severity)), gate(fail_on=lowest), TODAY)
        assert judged.passed == (SEVERITIES.index(severity) < SEVERITIES.index(lowest))
        assert bool(judged.minor) == judged.passed


def test_a_severity_that_nobody_told_counts_as_the_highest() -> None:
    assert not judge(scan(finding(severity="unknown")), gate(fail_on="critical"), TODAY).passed


def test_what_has_no_fix_yet_waits_unless_asked_otherwise() -> None:
    unfixed = finding(fixed=())
    judged = judge(scan(unfixed), gate(), TODAY)
    assert judged.passed
    assert judged.waiting == (unfixed,)
    assert not judge(scan(unfixed), gate(unfixed=True), TODAY).passed
    assert not judge(scan(finding(fixed=(), fix_known=False)), gate(), TODAY).passed, "nobody said that there is none"


@pytest.mark.parametrize(
    ("given", "passes"),
    [
        ({}, True),
        ({"package": "pillow"}, True),
        ({"package": "numpy"}, False),
        ({"id": "GHSA-aaaa"}, True),
        ({"id": "CVE-2026-2"}, False),
        ({"review_by": TODAY}, True),
        ({"review_by": date(2026, 11, 29)}, False),
    ],
)
def test_an_allowance_covers_its_finding_through_its_date(given: dict[str, Any], passes: bool) -> None:
    judged = judge(scan(finding(aliases=("GHSA-aaaa",))), gate(allow(**given)), TODAY)
    assert judged.passed is passes
    assert bool(judged.allowed) is passes


def test_a_date_that_has_passed_fails_even_where_nothing_was_found() -> None:
    old = allow(review_by=date(2026, 11, 29), where="release.yml:14")
    judged = judge(scan(), gate(old), TODAY)
    assert not judged.passed
    with pytest.raises(GateError) as caught:
        findings.require(judged, "small", TODAY)
    (fault,) = caught.value.faults
    assert (fault.file, fault.line) == ("release.yml", 14)
    assert "2026-11-29" in fault.what


def test_an_allowance_that_fits_nothing_is_told() -> None:
    other = allow(id="CVE-2020-1")
    assert judge(scan(finding()), gate(allow(), other), TODAY).unused == (other,)


def test_the_error_names_the_pin_and_a_ready_entry() -> None:
    bad = finding(fixed=("10.9.1", "12.1.0", "11.0.2"))
    with pytest.raises(GateError) as caught:
        findings.require(judge(scan(bad), gate(), TODAY), "small", TODAY)
    (fault,) = caught.value.faults
    assert "pillow==11.0.2" in fault.fix, "the lowest fix above what is installed"
    (ready,) = yaml.safe_load(findings.entry(bad, TODAY))
    assert ready == {
        "id": "CVE-2026-1",
        "package": "pillow",
        "reason": "",
        "review_by": date(2026, 12, 14),
    }
    assert findings.entry(bad, TODAY).rstrip() in caught.value.fix


def test_debian_packages_are_mended_by_a_newer_base() -> None:
    told = findings.remedy(finding(kind="debian", package="libc6", fixed=("2.36-9+deb12u14",)))
    assert "libc6 2.36-9+deb12u14" in told
    assert "invoke base" in told


@pytest.mark.parametrize(("version", "fixed", "newest"), [("1.0+cpu", ("1.0.1",), "1.0.1"), ("x", ("b", "a"), "b")])
def test_versions_that_cannot_be_ordered_are_taken_as_they_come(
    version: str, fixed: tuple[str, ...], newest: str
) -> None:
    assert findings.mending_version(finding(version=version, fixed=fixed)) == newest


@pytest.mark.parametrize(
    ("word", "known"),
    [
        ("HIGH", "high"),
        ("Moderate", "medium"),
        ("INFORMATIONAL", "negligible"),
        ("UNTRIAGED", "unknown"),
        ("", "unknown"),
    ],
)
def test_every_scanners_words_are_understood(word: str, known: str) -> None:
    assert findings.severity(word) == known
