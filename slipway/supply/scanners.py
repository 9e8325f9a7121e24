"""Vulnerability scanners that are programs on PATH: trivy, grype, pip-audit. Each answer becomes findings.

A scanner that could not look raises ScanError, whatever its exit code was: an empty answer is not a clean image.
Sources of the forms: the JSON reports of trivy 0.50 and later, grype 0.74 and later, pip-audit 2.7 and later.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slipway import process
from slipway.engine.wheels import normal_name
from slipway.errors import ProgramError, ScanError
from slipway.files import write_whole
from slipway.supply import programs
from slipway.supply.findings import Finding, severity
from slipway.supply.sbom import Package

TIMEOUT = 1800.0  # seconds; trivy reads the whole image
OWN = "slipway-"
"""How the names of our own toolkits begin; no database knows them."""

_KINDS = {"python-pkg": "python", "python": "python", "debian": "debian", "ubuntu": "debian", "deb": "debian"}


def trivy(image: str, environment: Mapping[str, str]) -> tuple[Finding, ...]:
    """Scan an image: a reference of the engine or a registry."""
    argv = ["image", "--quiet", "--format", "json", "--scanners", "vuln", "--timeout", f"{TIMEOUT:.0f}s", image]
    return read_trivy(_report("trivy", argv, environment))


def grype(sbom: Path, environment: Mapping[str, str]) -> tuple[Finding, ...]:
    """Scan a CycloneDX SBOM."""
    return read_grype(_report("grype", ["--quiet", "--output", "json", f"sbom:{sbom}"], environment))


def pip_audit(packages: Sequence[Package], server: str, environment: Mapping[str, str]) -> tuple[Finding, ...]:
    """Ask about the Python packages of an SBOM: an OSV server, or the package index's own advisories.

    A local version (2.13.0+cpu) is asked about as the version that it was made from: no advisory names it.
    """
    asked = {normal_name(one.name): public(one.version) for one in python_packages(packages)}
    with tempfile.TemporaryDirectory(prefix="slipway-audit-") as scratch:
        pins = Path(scratch, "requirements.txt")
        write_whole(pins, "".join(f"{name}=={version}\n" for name, version in sorted(asked.items())))
        words = ["--requirement", str(pins), "--no-deps", "--disable-pip", "--format", "json", "--aliases", "on"]
        words += ["--desc", "off", "--progress-spinner", "off", "--cache-dir", str(Path(scratch, "cache"))]
        if server:
            words += ["--vulnerability-service", "osv", "--osv-url", server]
        return read_pip_audit(_report("pip-audit", words, environment), asked)


def python_packages(packages: Sequence[Package]) -> list[Package]:
    """Those of an SBOM that databases may know. Raises ScanError when there is none to ask about."""
    found = [one for one in packages if one.kind == "python" and not normal_name(one.name).startswith(OWN)]
    if not found:
        raise ScanError("the SBOM names no Python package, so there is nothing to ask about", fix="see the SBOM")
    return found


def public(version: str) -> str:
    """A version without its local part (PEP 440)."""
    return version.partition("+")[0]


def read_trivy(report: Mapping[str, Any]) -> tuple[Finding, ...]:
    """Raises ScanError when trivy named nothing that it looked at."""
    results = report.get("Results") or []
    if not results:
        raise ScanError("trivy recognised nothing in the image to look at", fix="see what `trivy image` says of it")
    found = [
        Finding(
            id=one["VulnerabilityID"],
            package=one["PkgName"],
            version=one.get("InstalledVersion", ""),
            severity=severity(one.get("Severity", "")),
            kind=_KINDS.get(result.get("Type", ""), "other"),
            fixed=tuple(part.strip() for part in one.get("FixedVersion", "").split(",") if part.strip()),
            aliases=tuple(one.get("VendorIDs") or ()),
        )
        for result in results
        for one in result.get("Vulnerabilities") or []
    ]
    return tuple(found)


def read_grype(report: Mapping[str, Any]) -> tuple[Finding, ...]:
    """Raises ScanError when the report names no database: then nothing was compared."""
    if "matches" not in report or not report.get("descriptor", {}).get("db"):
        raise ScanError("grype names no vulnerability database that it compared with", fix="run `grype db update`")
    found = []
    for match in report["matches"]:
        given, artifact = match["vulnerability"], match["artifact"]
        fix = given.get("fix") or {}
        found.append(
            Finding(
                id=given["id"],
                package=artifact["name"],
                version=artifact.get("version", ""),
                severity=severity(given.get("severity", "")),
                kind=_KINDS.get(artifact.get("type", ""), "other"),
                fixed=tuple(fix.get("versions") or ()),
                fix_known=fix.get("state") != "unknown",
                aliases=tuple(one["id"] for one in match.get("relatedVulnerabilities") or []),
            )
        )
    return tuple(found)


def read_pip_audit(report: Mapping[str, Any], asked: Mapping[str, str]) -> tuple[Finding, ...]:
    """Raises ScanError that names every package which pip-audit skipped or says nothing of."""
    answered = {normal_name(one["name"]): one for one in report.get("dependencies", [])}
    unseen = [name for name in asked if name not in answered or "skip_reason" in answered[name]]
    if unseen:
        reasons = {answered[name]["skip_reason"] for name in unseen if name in answered}
        raise ScanError(
            f"pip-audit could not look at {len(unseen)} of {len(asked)} packages: {', '.join(sorted(unseen)[:5])}"
            + (f" ({'; '.join(sorted(reasons)[:2])})" if reasons else ""),
            fix="name an OSV server as the gate's source",
        )
    return tuple(
        Finding(
            id=given["id"],
            package=name,
            version=one["version"],
            severity="unknown",  # pip-audit does not tell it
            kind="python",
            fixed=tuple(given.get("fix_versions", ())),
            aliases=tuple(given.get("aliases", ())),
        )
        for name, one in answered.items()
        for given in one.get("vulns", ())
    )


def _report(program: str, argv: Sequence[str], environment: Mapping[str, str]) -> dict[str, Any]:
    """What a scanner printed. Some end with 1 when they find something: only a whole report says that one looked."""
    found = programs.find(program)
    if found is None:
        raise ScanError(f"the scanner {program} is not installed", fix=f"install {program}, or name another scanner")
    try:
        done = process.run([found, *argv], env=dict(environment), timeout=TIMEOUT, check=False)
    except ProgramError as error:
        raise ScanError(f"{program} could not look: {error.message}", fix=error.fix) from None
    try:
        report = json.loads(done.stdout)
    except ValueError:
        report = None
    if not isinstance(report, dict) or done.code not in (0, 1):
        lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        said = "\n".join(f"    {line}" for line in lines[-8:])
        raise ScanError(f"{program} could not look (exit code {done.code}); its last lines:\n{said}")
    return report
