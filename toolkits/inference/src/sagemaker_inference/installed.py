"""Whether what is installed already meets requirements, so that an offline container need not ask an index.

Judged as pip judges it: name, version, extras and markers, through all dependencies.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib import metadata

# The image's pip is there wherever requirements are installed, and so is its copy of packaging.
from pip._vendor.packaging.requirements import InvalidRequirement, Requirement
from pip._vendor.packaging.specifiers import SpecifierSet

from sagemaker_inference.requirement_lines import Lines


def lacking(lines: Lines) -> list[str]:
    """What of a requirements file is not met, each with what is there instead; empty when all is met."""
    limits = _limits(lines.constraints)
    found = list(lines.unjudged)
    seen: set[str] = set()
    for line in lines.requirements:
        requirement = _parse(line)
        if requirement is None:
            found.append(line)
        elif _applies(requirement, ()):
            found.extend(_lacking(requirement, limits, seen))
    return found


def _lacking(requirement: Requirement, limits: Mapping[str, SpecifierSet], seen: set[str]) -> list[str]:
    if str(requirement) in seen:
        return []
    seen.add(str(requirement))
    try:
        distribution = metadata.distribution(requirement.name)
    except (metadata.PackageNotFoundError, ValueError):
        return [f"{requirement} (missing)"]
    version = distribution.version
    allowed = requirement.specifier & limits.get(_normal(requirement.name), SpecifierSet())
    if requirement.url or not allowed.contains(version, prereleases=True):
        return [f"{requirement} ({version} is installed)"]
    found: list[str] = []
    for text in distribution.requires or ():
        needed = _parse(text)
        if needed is not None and _applies(needed, requirement.extras):
            found.extend(_lacking(needed, limits, seen))
    return found


def _applies(requirement: Requirement, extras: Iterable[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras))


def _limits(constraints: Iterable[str]) -> dict[str, SpecifierSet]:
    limits: dict[str, SpecifierSet] = {}
    for line in constraints:
        constraint = _parse(line)
        if constraint is not None and _applies(constraint, ()):
            name = _normal(constraint.name)
            limits[name] = limits.get(name, SpecifierSet()) & constraint.specifier
    return limits


def _parse(line: str) -> Requirement | None:
    try:
        return Requirement(line)
    except InvalidRequirement:
        return None


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
