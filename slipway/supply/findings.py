"""What scanners find, in one form, and what of it stops an image. Pure: no clock, no network."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

from slipway.errors import Fault, GateError
from slipway.supply.config import SEVERITIES, Allow, Gate

# How long an allowance that we propose holds, in days by severity: the times within which AWS says that it mends its
# own images.
REVIEW_DAYS = {"critical": 14, "high": 28}
LONGEST_REVIEW = 180

_OTHER_NAMES = {"informational": "negligible", "moderate": "medium", "undefined": "unknown", "untriaged": "unknown"}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One vulnerability of one package. `kind`: python | debian | other. `fixed`: versions without it, oldest first.

    `fix_known`: whether the scanner says at all if there is a fix.
    """

    id: str
    package: str
    version: str
    severity: str
    kind: str = "other"
    fixed: tuple[str, ...] = ()
    fix_known: bool = True
    aliases: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.id} ({self.severity}) in {self.package} {self.version}"


@dataclass(frozen=True, kw_only=True)
class Scan:
    """What a scanner found when it looked. `covers`: the kinds of packages that it looks at; `at`: ISO 8601, UTC."""

    scanner: str
    at: str
    findings: tuple[Finding, ...]
    covers: tuple[str, ...] = ("python", "debian", "other")


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What a gate says of a scan. `failures` stop the image, `expired` allowances do so too.

    `waiting` has no fix yet, `minor` is below the gate, `unused` allowances fit nothing any more.
    """

    failures: tuple[Finding, ...] = ()
    allowed: tuple[tuple[Finding, Allow], ...] = ()
    waiting: tuple[Finding, ...] = ()
    minor: tuple[Finding, ...] = ()
    expired: tuple[Allow, ...] = ()
    unused: tuple[Allow, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.failures and not self.expired


def severity(text: str) -> str:
    """A scanner's word for a severity as one of SEVERITIES."""
    word = text.strip().lower()
    word = _OTHER_NAMES.get(word, word)
    return word if word in SEVERITIES else "unknown"


def judge(scan: Scan, gate: Gate, today: date) -> Judgement:
    """Sort what was found. An allowance holds through its `review_by` and fails from the day after, used or not."""
    current = [allow for allow in gate.allow if allow.review_by >= today]
    sorted_into: dict[str, list[Finding]] = {"failures": [], "waiting": [], "minor": []}
    allowed = []
    for finding in scan.findings:
        allow = next((one for one in current if _covers(one, finding)), None)
        if _below(finding, gate):
            sorted_into["minor"].append(finding)
        elif allow is not None:
            allowed.append((finding, allow))
        elif finding.fixed or not finding.fix_known or gate.unfixed:
            sorted_into["failures"].append(finding)
        else:
            sorted_into["waiting"].append(finding)
    return Judgement(
        **{name: tuple(found) for name, found in sorted_into.items()},
        allowed=tuple(allowed),
        expired=tuple(allow for allow in gate.allow if allow.review_by < today),
        unused=tuple(one for one in current if not any(_covers(one, finding) for finding in scan.findings)),
    )


def require(judgement: Judgement, image: str, today: date) -> None:
    """Raise GateError that names every finding which stops the image, what mends it, and every expired allowance."""
    if judgement.passed:
        return
    faults = [
        Fault(f"the allowance of {allow.id} ended on {allow.review_by}: {allow.reason}", _review(allow), *_place(allow))
        for allow in judgement.expired
    ]
    faults += [Fault(str(finding), remedy(finding)) for finding in judgement.failures]
    entries = "".join(entry(finding, today) for finding in judgement.failures)
    ready = f"; or, where it cannot do harm, allow it with a reason:\n{entries.rstrip()}" if entries else ""
    raise GateError(f"{image} does not pass the vulnerability gate", faults=faults, fix=f"mend what is named{ready}")


def remedy(finding: Finding) -> str:
    """The change that takes a vulnerability away."""
    if not finding.fixed:
        return "take the package out, or allow it" if finding.fix_known else "see the advisory for a fixed version"
    newer = mending_version(finding)
    if finding.kind == "python":
        return f"pin {finding.package}=={newer} under packages in buildspec/, then `invoke lock` and build"
    if finding.kind == "debian":
        return f"build with {finding.package} {newer}: `invoke base --record`, or a later `snapshot`"
    return f"take {finding.package} {newer}"


def mending_version(finding: Finding) -> str:
    """The lowest fixed version above the installed one, so that the change is small; else the scanner's first."""
    if finding.kind != "python":
        return finding.fixed[0]
    from packaging.version import InvalidVersion, Version

    try:
        versions = sorted(finding.fixed, key=Version)
        return next((one for one in versions if Version(one) > Version(finding.version)), versions[-1])
    except InvalidVersion:
        return finding.fixed[0]


def entry(finding: Finding, today: date) -> str:
    """An allowance for a finding as YAML, complete but for its reason, without which release.yml is refused."""
    until = today + timedelta(days=REVIEW_DAYS.get(finding.severity, LONGEST_REVIEW))
    return (
        f"    - id: {finding.id}\n"
        f"      package: {finding.package}\n"
        f'      reason: ""  # why it can do no harm here\n'
        f"      review_by: {until}\n"
    )


def _covers(allow: Allow, finding: Finding) -> bool:
    return allow.id in (finding.id, *finding.aliases) and allow.package in ("", finding.package)


def _below(finding: Finding, gate: Gate) -> bool:
    if finding.severity == "unknown":
        return False
    return SEVERITIES.index(finding.severity) < SEVERITIES.index(gate.fail_on)


def _review(allow: Allow) -> str:
    return f"look at {allow.id} again: mend it, or give a later review_by"


def _place(allow: Allow) -> tuple[str | None, int | None]:
    file, _, line = allow.where.rpartition(":")
    return (file, int(line)) if file and line.isdigit() else (allow.where or None, None)
