"""What Amazon ECR's own scanning found: basic scanning (asked for) and enhanced scanning (Amazon Inspector, by itself).

Source: Amazon ECR API reference, DescribeImageScanFindings. Basic scanning looks at the operating system's packages
only, and does not tell which versions are fixed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from slipway.errors import ScanError
from slipway.supply.findings import Finding, severity

_WAIT_FOR = frozenset({"IN_PROGRESS", "PENDING", ""})
_DONE = frozenset({"COMPLETE", "ACTIVE"})
_PYTHON = frozenset({"PIP", "PYTHON", "PYTHONPKG", "PIPENV", "POETRY", "UV"})


class Scanned(Protocol):
    """The part of a region's ECR that scans (slipway.ecr.Ecr)."""

    def image_scan(self, repository: str, digest: str) -> Mapping[str, Any] | None:
        """DescribeImageScanFindings with every page joined; None before there is a scan."""

    def start_scan(self, repository: str, digest: str) -> None:
        """Ask for a basic scan; one that was asked for today is as good."""


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long a scan is waited for: seconds in all, and between two looks. Large images take ECR some minutes."""

    limit: float = 900.0
    between: float = 10.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


def scan(
    ecr: Scanned, repository: str, digest: str, patience: Patience | None = None
) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
    """The findings of an image, and the kinds of packages that were looked at.

    Raises ScanError when ECR cannot scan it, or has not done so within the limit.
    """
    wait = patience or Patience()
    end = wait.clock() + wait.limit
    asked = False
    while True:
        found = ecr.image_scan(repository, digest)
        status, told = _status(found)
        if found is not None and status in _DONE:
            return read(found)
        if found is not None and status not in _WAIT_FOR:
            raise ScanError(f"ECR could not scan {repository}@{digest}: {status}{told}", fix=_hint(status))
        if found is None and not asked:
            ecr.start_scan(repository, digest)
            asked = True
        if wait.clock() >= end:
            raise ScanError(
                f"ECR did not end its scan of {repository}@{digest} within {wait.limit:g} s ({status or 'no scan'})",
                fix="run the command again later; it goes on from here",
            )
        wait.sleep(wait.between)


def read(answer: Mapping[str, Any]) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
    """An answer's findings, and what kinds of packages were looked at: with basic scanning Debian's only."""
    given = answer.get("imageScanFindings", {})
    if "enhancedFindings" in given or _status(answer)[0] == "ACTIVE":  # a state that enhanced scanning alone has
        active = [one for one in given.get("enhancedFindings", ()) if one.get("status", "ACTIVE") == "ACTIVE"]
        return tuple(finding for one in active for finding in _enhanced(one)), ("python", "debian", "other")
    return tuple(_basic(one) for one in given.get("findings", ())), ("debian",)


def _basic(one: Mapping[str, Any]) -> Finding:
    said = {part["key"]: part.get("value", "") for part in one.get("attributes", ())}
    return Finding(
        id=one["name"],
        package=said.get("package_name", ""),
        version=said.get("package_version", ""),
        severity=severity(one.get("severity", "")),
        kind="debian",
        fix_known=False,
    )


def _enhanced(one: Mapping[str, Any]) -> list[Finding]:
    """One finding a package that is named. `PARTIAL`: a fix exists for some of the packages."""
    details = one.get("packageVulnerabilityDetails", {})
    found = []
    for package in details.get("vulnerablePackages", ()):
        fixed = package.get("fixedInVersion", "")
        manager = package.get("packageManager", "")
        found.append(
            Finding(
                id=details.get("vulnerabilityId", one.get("title", "")),
                package=package.get("name", ""),
                version="-".join(part for part in (package.get("version"), package.get("release")) if part),
                severity=severity(one.get("severity", "")),
                kind="python" if manager in _PYTHON else "debian" if manager in ("OS", "DPKG") else "other",
                fixed=(fixed,) if fixed and fixed != "NotAvailable" else (),
                fix_known=bool(fixed) or one.get("fixAvailable") != "YES",
                aliases=tuple(details.get("relatedVulnerabilities", ())),
            )
        )
    return found


def _status(found: Mapping[str, Any] | None) -> tuple[str, str]:
    given = (found or {}).get("imageScanStatus", {})
    told = given.get("description", "")
    return given.get("status", ""), f": {told}" if told else ""


def _hint(status: str) -> str:
    return {
        "SCAN_ELIGIBILITY_EXPIRED": "push the image again, or lengthen the scan duration of Amazon Inspector",
        "UNSUPPORTED_IMAGE": "name another scanner in the gate",
        "FINDINGS_UNAVAILABLE": "scan with another scanner; a registry's pull-through rules may forbid it",
    }.get(status, "see the image's page in the ECR console, or name another scanner in the gate")
