"""Advisories in a file, in the form of OSV, compared with the Python packages of an SBOM.

For machines that reach no server. The file is what OSV gives out: one advisory (JSON), a list or lines of
them, or a .zip with one a member, as the whole of PyPI comes. Source of the form and of how ranges are read: OSV schema
1.6, "Evaluation".
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from slipway.engine.wheels import normal_name
from slipway.errors import ScanError
from slipway.supply.findings import Finding, severity
from slipway.supply.sbom import Package
from slipway.supply.scanners import public, python_packages

ECOSYSTEM = "PyPI"


def scan(packages: Sequence[Package], source: Path) -> tuple[Finding, ...]:
    """What the advisories say of the Python packages. Raises ScanError when the file cannot be read whole."""
    by_name: dict[str, list[Package]] = {}
    for package in python_packages(packages):
        by_name.setdefault(normal_name(package.name), []).append(package)
    found, seen = [], 0
    for advisory in advisories(source):
        seen += 1
        found += _matches(advisory, by_name)
    if not seen:
        raise ScanError(f"{source} holds no advisory", fix="fetch it again")
    return tuple(_merged(found))


def advisories(source: Path) -> Iterator[dict[str, Any]]:
    """Every advisory of a file. Raises ScanError for anything in it that is none."""
    try:
        if zipfile.is_zipfile(source):
            with zipfile.ZipFile(source) as archive:
                texts = [archive.read(name) for name in archive.namelist() if name.endswith(".json")]
            given = [json.loads(text) for text in texts]
        else:
            given = _parsed(source.read_text(encoding="utf-8"))
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise ScanError(f"the advisories in {source} cannot be read: {error}", fix="fetch the file again") from None
    for one in given:
        if not isinstance(one, dict) or "id" not in one or not isinstance(one.get("affected", []), list):
            raise ScanError(f"{source} holds something that is no OSV advisory", fix="fetch the file again")
        yield one


def _parsed(text: str) -> list[Any]:
    """A document or a list of documents; else one document a line."""
    try:
        whole = json.loads(text)
    except ValueError:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    return whole if isinstance(whole, list) else [whole]


def _matches(advisory: Mapping[str, Any], by_name: Mapping[str, Sequence[Package]]) -> list[Finding]:
    if advisory.get("withdrawn"):
        return []
    found = []
    for affected in advisory.get("affected", []):
        named = affected.get("package", {})
        if named.get("ecosystem") != ECOSYSTEM:
            continue
        for package in by_name.get(normal_name(named.get("name", "")), ()):
            if is_affected(public(package.version), affected):
                found.append(_finding(advisory, affected, package))
    return found


def _finding(advisory: Mapping[str, Any], affected: Mapping[str, Any], package: Package) -> Finding:
    told = advisory.get("database_specific", {}).get("severity", "")
    return Finding(
        id=advisory["id"],
        package=normal_name(package.name),
        version=package.version,
        severity=severity(str(told)),
        kind="python",
        fixed=tuple(event["fixed"] for event in _events(affected) if "fixed" in event),
        aliases=tuple(advisory.get("aliases", ())),
    )


def is_affected(version: str, affected: Mapping[str, Any]) -> bool:
    """Whether a version is listed, or lies in a range. One that cannot be ordered counts as affected by any range."""
    from packaging.version import InvalidVersion, Version

    if version in affected.get("versions", ()):
        return True
    try:
        own = Version(version)
        return any(_in_range(own, one.get("events", ())) for one in _ranges(affected))
    except InvalidVersion:
        return bool(_ranges(affected))


def _in_range(own: Any, events: Iterable[Mapping[str, str]]) -> bool:
    from packaging.version import Version

    def order(event: Mapping[str, str]) -> Any:
        ((_, at),) = event.items()
        return Version("0.dev0" if at == "0" else at)

    inside = False
    for event in sorted((one for one in events if "limit" not in one), key=order):
        ((what, _),) = event.items()
        if what == "introduced" and own >= order(event):
            inside = True
        elif (what == "fixed" and own >= order(event)) or (what == "last_affected" and own > order(event)):
            inside = False
    return inside


def _ranges(affected: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [one for one in affected.get("ranges", ()) if one.get("type") == "ECOSYSTEM"]


def _events(affected: Mapping[str, Any]) -> list[Mapping[str, str]]:
    return [event for one in _ranges(affected) for event in one.get("events", ())]


def _merged(found: Sequence[Finding]) -> list[Finding]:
    """One finding for what several databases describe, known by their aliases: the first, or who tells its severity."""
    kept: list[Finding] = []
    for finding in sorted(found, key=lambda one: one.severity == "unknown"):
        names = {finding.id, *finding.aliases}
        if not any(one.package == finding.package and names & {one.id, *one.aliases} for one in kept):
            kept.append(finding)
    return kept
