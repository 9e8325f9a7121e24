"""What differs between two images: packages, size, labels, known vulnerabilities."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from slipway.errors import DowngradeError, Fault
from slipway.release.ledger import Released

_DEBIAN = " (Debian)"


@dataclass(frozen=True)
class Change:
    """One thing before and after; empty: it is not there."""

    name: str
    before: str
    after: str


@dataclass(frozen=True)
class Packages:
    """Packages that came, went, and changed their versions; `downgraded` ones are among the changed."""

    added: tuple[Change, ...]
    removed: tuple[Change, ...]
    changed: tuple[Change, ...]
    downgraded: tuple[Change, ...]


@dataclass(frozen=True)
class Difference:
    """Everything between two released images. Sizes are bytes gained; vulnerabilities are None without two scans."""

    packages: Packages
    size: int
    compressed: int
    labels: tuple[Change, ...]
    vulnerabilities: tuple[tuple[str, ...], tuple[str, ...]] | None  # that came, that went


def of_releases(before: Released, after: Released) -> Difference:
    """What changed from one image to another."""
    vulnerabilities = None
    if "findings" in before.scan and "findings" in after.scan:
        old, new = ({_finding(one) for one in image.scan["findings"]} for image in (before, after))
        vulnerabilities = tuple(sorted(new - old)), tuple(sorted(old - new))
    return Difference(
        of_packages(before.packages, after.packages),
        after.size - before.size,
        after.compressed - before.compressed,
        _changes(before.labels, after.labels),
        vulnerabilities,
    )


def of_packages(before: Mapping[str, str], after: Mapping[str, str]) -> Packages:
    """What changed among packages, each sorted by name."""
    found = _changes(before, after)
    both = tuple(one for one in found if one.before and one.after)
    return Packages(
        tuple(one for one in found if not one.before),
        tuple(one for one in found if not one.after),
        both,
        tuple(one for one in both if is_older(one.name, one.after, one.before)),
    )


def refuse_downgrades(what: str, found: Packages, allowed: Mapping[str, str]) -> None:
    """Raise DowngradeError that names each package which went back without leave."""
    faults = [
        Fault(f"{one.name} went from {one.before} back to {one.after}", "pin the version before, or list it")
        for one in found.downgraded
        if one.name not in allowed
    ]
    if faults:
        raise DowngradeError(
            f"{what}: packages went back",
            faults=faults,
            fix="where that is meant, list the package under downgrades: in release.yml, with a reason",
        )


def is_older(name: str, one: str, other: str) -> bool:
    """Whether a version comes before another: by PEP 440 for Python's packages, by Debian's order for Debian's."""
    if name.endswith(_DEBIAN):
        return _debian_key(one) < _debian_key(other)
    from packaging.version import InvalidVersion, Version

    try:
        return Version(one) < Version(other)
    except InvalidVersion:
        return _debian_key(one) < _debian_key(other)


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[Change, ...]:
    names = sorted({*before, *after})
    found = (Change(name, before.get(name, ""), after.get(name, "")) for name in names)
    return tuple(one for one in found if one.before != one.after)


def _finding(one: Mapping[str, str]) -> str:
    return f"{one['id']} ({one['severity']}) in {one['package']}"


def _debian_key(version: str) -> tuple[object, ...]:
    """For sorting Debian versions. Source: Debian Policy 5.6.12: epoch, upstream version, revision; each is read as
    turns of text and number, in which `~` comes before the end, the end before letters, letters before other signs."""
    epoch, _, rest = version.rpartition(":")
    upstream, _, revision = rest.rpartition("-") if "-" in rest else (rest, "", "0")
    return int(epoch) if epoch.isdigit() else 0, _part_key(upstream), _part_key(revision)


def _part_key(part: str) -> tuple[tuple[tuple[int, ...], int], ...]:
    turns = re.findall(r"(\D*)(\d*)", part)
    # 0 stands for the end: above `~`, below everything else.
    return tuple(((*(_sign_key(sign) for sign in text), 0), int(number or 0)) for text, number in turns)


def _sign_key(sign: str) -> int:
    if sign == "~":
        return -1
    return ord(sign) if sign.isalpha() else ord(sign) + 256
