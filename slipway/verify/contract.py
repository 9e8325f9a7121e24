"""The register of checks: one declarative file for each kind of image, tests/contract/<kind>.yml.

A check's ID is `<group>.<name>`; the test function that makes it is called `test_<group>_<name>`, every dot and dash an
underscore. Neither is there without the other.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from slipway import documents
from slipway.documents import Document
from slipway.errors import Fault, SpecError, UsageError, nearest
from slipway.verify.suite import CHECKS, SMOKE


@dataclass(frozen=True, kw_only=True)
class Check:
    """One promise that an image keeps. `needs`: checks without which this one can say nothing.

    `severity`: `error` when a job on SageMaker fails or loses something without it, `policy` when only a promise of
    this project is broken. Either fails a verdict.
    """

    id: str
    severity: str
    reason: str
    source: str
    fix: str
    needs: tuple[str, ...] = ()

    @property
    def group(self) -> str:
        return self.id.partition(".")[0]

    @property
    def function(self) -> str:
        return function_of(self.id)


@dataclass(frozen=True)
class Contract:
    """The checks of one kind of image; each stands after those it needs. `groups`: their titles by name.

    `own`: those that the contract adds to the one that it extends.
    """

    kind: str
    checks: tuple[Check, ...]
    groups: dict[str, str]
    own: tuple[Check, ...] = ()
    extends: str = ""

    def check(self, id: str) -> Check:
        return next(check for check in self.checks if check.id == id)

    def choose(self, wanted: Iterable[str]) -> tuple[Check, ...]:
        """The checks named, and all that they need; every check when none is named.

        A group's name stands for its checks. Raises UsageError for all unknown names at once.
        """
        names = list(wanted)
        if not names:
            return self.checks
        known = {check.id for check in self.checks} | set(self.groups)
        faults = [Fault(f"there is no check {name!r}", _nearest(name, known)) for name in names if name not in known]
        if faults:
            raise UsageError(f"unknown checks of a {self.kind} image", faults=faults, fix="`invoke checks` shows them")
        chosen: set[str] = set()
        for check in reversed(self.checks):
            if check.id in names or check.group in names or check.id in chosen:
                chosen |= {check.id, *check.needs}
        return tuple(check for check in self.checks if check.id in chosen)


def _nearest(name: str, known: set[str]) -> str:
    """The nearest IDs; where none is near, the names of groups, which are few."""
    groups = {one for one in known if "." not in one}
    return nearest(name, known if difflib.get_close_matches(name, known, cutoff=0.5) else groups)


def function_of(id: str) -> str:
    """The name of a check's test function."""
    return "test_" + re.sub(r"[.-]", "_", id)


def kinds(project: Path, folder: str = CHECKS) -> list[str]:
    """The kinds of images that have a contract."""
    return sorted(path.stem for path in (project / folder).glob("*.yml"))


def load(project: Path, kind: str, folder: str = CHECKS) -> Contract:
    """Read a contract, and below it the one that it extends.

    Raises SpecError with every fault, UsageError for a kind that has none.
    """
    return _load(project, kind, (), folder)


def steps(project: Path) -> Contract:
    """The smoke steps, which are declared as checks are."""
    return load(project, "steps", SMOKE)


def _load(project: Path, kind: str, above: tuple[str, ...], folder: str) -> Contract:
    from slipway.verify.schema import ContractFile

    if kind not in kinds(project, folder):
        raise UsageError(f"there is no contract for {kind} images", fix=nearest(kind, kinds(project, folder)))
    document = documents.read(project / folder / f"{kind}.yml", project)
    parsed, faults = document.validate(ContractFile)
    if parsed is None:
        raise SpecError(f"{document.name} has faults", faults=faults)
    below = Contract(kind, (), {})
    if parsed.extends in (kind, *above):
        faults.append(document.fault(("extends",), f"{parsed.extends} stands on itself", "name another contract"))
    elif parsed.extends is not None and parsed.extends not in kinds(project, folder):
        fix = nearest(parsed.extends, kinds(project, folder))
        faults.append(document.fault(("extends",), f"there is no contract {parsed.extends!r}", fix))
    elif parsed.extends is not None:
        below = _load(project, parsed.extends, (kind, *above), folder)
    checks = tuple(
        Check(
            id=part.id,
            severity=part.severity,
            reason=part.reason,
            source=part.source,
            fix=part.fix,
            needs=tuple(part.needs),
        )
        for part in parsed.checks
    )
    groups = {**below.groups, **parsed.groups}
    faults += _order_faults(document, checks, [check.id for check in below.checks])
    faults += _group_faults(document, checks, groups, parsed.groups)
    if parsed.kind != kind:
        faults.append(document.fault(("kind",), f"kind is {parsed.kind!r}", f"the file's name says {kind}"))
    if faults:
        raise SpecError(f"{document.name} has faults", faults=faults)
    return Contract(kind, (*below.checks, *checks), groups, checks, parsed.extends or "")


def _order_faults(document: Document, checks: tuple[Check, ...], below: list[str]) -> list[Fault]:
    faults = []
    seen = list(below)
    for at, check in enumerate(checks):
        if check.function in map(function_of, seen):
            faults.append(document.fault(("checks", at, "id"), f"{check.id} is declared twice", "rename one"))
        for number, need in enumerate(check.needs):
            if need not in seen:
                later = any(need == other.id for other in checks)
                fix = "move it up" if later else nearest(need, seen)
                what = f"{check.id} needs {need}, which {'comes later' if later else 'does not exist'}"
                faults.append(document.fault(("checks", at, "needs", number), what, fix))
        seen.append(check.id)
    return faults


def _group_faults(
    document: Document, checks: tuple[Check, ...], groups: dict[str, str], own: dict[str, str]
) -> list[Fault]:
    faults = [
        document.fault(
            ("checks", at, "id"), f"{check.id}: there is no group {check.group!r}", nearest(check.group, groups)
        )
        for at, check in enumerate(checks)
        if check.group not in groups
    ]
    used = {check.group for check in checks}
    empty = [name for name in own if name not in used]
    return faults + [document.fault(("groups", name), f"group {name} has no check", "remove it") for name in empty]
