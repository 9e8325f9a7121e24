"""The vulnerability gate: has the configured scanner look, and hands on what it found.

"Could not look" raises ScanError; it never reads as "found nothing".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from slipway.errors import ScanError
from slipway.supply import ecr_scan, osv, sbom, scanners
from slipway.supply.config import Gate
from slipway.supply.findings import Finding, Judgement, Scan, entry, judge, remedy, require
from slipway.supply.sbom import Package

__all__ = ["Finding", "Judgement", "Scan", "Target", "entry", "findings", "judge", "remedy", "require"]

ALL = ("python", "debian", "other")


@dataclass(frozen=True, kw_only=True)
class Target:
    """What is looked at, as far as it is known; each scanner needs another part.

    `image`: a reference of the engine, or host/repository@digest (trivy). `sbom`: the CycloneDX file (grype, pip-audit,
    OSV), or `packages`: what it would name (pip-audit, OSV). `ecr`, `repository`, `digest`: where ECR scans.
    `environment`: added for the scanner, such as DOCKER_CONFIG.
    """

    image: str = ""
    sbom: Path | None = None
    packages: tuple[Package, ...] = ()
    ecr: ecr_scan.Scanned | None = None
    repository: str = ""
    digest: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    patience: ecr_scan.Patience | None = None


def findings(target: Target, gate: Gate) -> Scan:
    """Have the gate's scanner look at a target. Raises ScanError when it could not."""
    looked = _SCANNERS[gate.scanner](target, gate)
    return Scan(
        scanner=gate.scanner,
        at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        findings=looked[0],
        covers=looked[1],
    )


Looked = tuple[tuple[Finding, ...], tuple[str, ...]]


def _ecr(target: Target, gate: Gate) -> Looked:
    if target.ecr is None or not target.digest:
        raise ScanError(
            f"{target.image or target.repository} is in no ECR repository, so ECR cannot scan it",
            fix="name a scanner that runs here, or push it to ECR",
        )
    return ecr_scan.scan(target.ecr, target.repository, target.digest, target.patience)


def _trivy(target: Target, gate: Gate) -> Looked:
    return scanners.trivy(target.image, target.environment), ALL


def _grype(target: Target, gate: Gate) -> Looked:
    return scanners.grype(_sbom(target), target.environment), ALL


def _pip_audit(target: Target, gate: Gate) -> Looked:
    return scanners.pip_audit(_packages(target), gate.source, target.environment), ("python",)


def _osv_file(target: Target, gate: Gate) -> Looked:
    return osv.scan(_packages(target), Path(gate.source)), ("python",)


def _packages(target: Target) -> tuple[Package, ...]:
    return sbom.read(target.sbom) if target.sbom else target.packages


def _none(target: Target, gate: Gate) -> Looked:
    raise ScanError("the gate names no scanner, so nothing is known of the image", fix="name one in release.yml")


def _sbom(target: Target) -> Path:
    if target.sbom is None:
        raise ScanError("there is no SBOM to look at", fix="make one first")
    return target.sbom


_SCANNERS: Mapping[str, Callable[[Target, Gate], Looked]] = {
    "ecr": _ecr,
    "trivy": _trivy,
    "grype": _grype,
    "pip-audit": _pip_audit,
    "osv-file": _osv_file,
    "none": _none,
}
