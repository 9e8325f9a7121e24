"""A verdict for people and for machines, and the register of checks as a document."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any
from xml.etree import ElementTree

from slipway.console import Console
from slipway.records import CheckResult, Verdict
from slipway.verify.contract import Contract

_STATES = ("passed", "failed", "blocked", "skipped")


def line(result: CheckResult) -> str:
    """One check, as it ends."""
    what = f" by {result.blocked_by}" if result.blocked_by else ""
    return f"  {result.status + what:<9} {result.id}" + (f" ({result.seconds:.1f} s)" if result.seconds >= 1 else "")


def show(console: Console, verdict: Verdict, contract: Contract) -> None:
    """The table of a verdict, and below it each failure with what was seen and what to do."""
    rows = [
        (check.id, contract.check(check.id).severity, state(check), check.seconds, first_line(check.detail))
        for check in verdict.checks
    ]
    console.table(("check", "severity", "outcome", "s", "seen"), rows)
    for check in verdict.checks:
        if check.status in ("failed", "skipped"):
            console.say(failure(check, contract))
    console.say(f"{verdict.image}: {'passed' if verdict.passed else 'FAILED'} ({summary(verdict.checks)})")


def failure(check: CheckResult, contract: Contract | None = None) -> str:
    """A failed check: what it is for, what was seen, what to do."""
    seen = "\n".join(f"    {text}" for text in check.detail.splitlines())
    mild = contract is not None and contract.check(check.id).severity == "policy"
    weight = " (a promise of this project; jobs on SageMaker run without it)" if mild else ""
    return f"\n{check.status} {check.id}{weight}\n  why:  {check.reason}\n  seen:\n{seen}\n  fix:  {check.fix}"


def summary(checks: Iterable[CheckResult]) -> str:
    """`27 passed, 1 failed, 2 blocked`."""
    states = [check.status for check in checks]
    return ", ".join(f"{states.count(state)} {state}" for state in _STATES if state in states)


def reproach(verdict: Verdict) -> str:
    """The checks that an image did not pass; the blocked ones follow from these."""
    own = [f"{check.id} {check.status}" for check in verdict.checks if check.status in ("failed", "skipped")]
    return ", ".join(own)


def document(verdict: Verdict, *, run_now: bool) -> dict[str, Any]:
    """A verdict for machines. `run_now`: whether its checks were run by this command."""
    return {**asdict(verdict), "run_now": run_now}


def junit(verdicts: Sequence[Verdict]) -> bytes:
    """JUnit XML: a suite for each image, a case for each check. Blocked is an error: skipped would look harmless."""
    root = ElementTree.Element("testsuites")
    for verdict in verdicts:
        states = [check.status for check in verdict.checks]
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=verdict.image,
            timestamp=verdict.at,
            time=f"{verdict.seconds:.3f}",
            tests=str(len(states)),
            failures=str(states.count("failed")),
            errors=str(states.count("blocked")),
            skipped=str(states.count("skipped")),
        )
        for check in verdict.checks:
            _case(suite, verdict, check)
    ElementTree.indent(root)
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def register(contracts: Sequence[Contract]) -> str:
    """The checks of all contracts as a Markdown document."""
    head = [
        "# Checks",
        "",
        "What `invoke verify` holds an image to. Written by `invoke checks --markdown` from `tests/contract/*.yml`.",
        "Severity `error`: without it a job on SageMaker fails or loses something; `policy`: a promise of ours.",
    ]
    return "\n".join([*head, *(line for contract in contracts for line in _chapter(contract))]) + "\n"


def _chapter(contract: Contract) -> list[str]:
    lines = ["", f"## Any {contract.kind}" if contract.kind == "image" else f"## A {contract.kind} image"]
    if contract.extends:
        lines += ["", f"Everything that is asked of any {contract.extends}, and:"]
    for group, title in contract.groups.items():
        checks = [check for check in contract.own if check.group == group]
        lines += ["", f"### {group}: {title}"] if checks else []
        for check in checks:
            needs = f" Needs {', '.join(f'`{need}`' for need in check.needs)}." if check.needs else ""
            lines += [
                "",
                f"#### {check.id}",
                "",
                f"{check.reason} ({check.severity}; {check.source}){needs}",
                "",
                f"Fix: {check.fix}",
            ]
    return lines


def _case(suite: ElementTree.Element, verdict: Verdict, check: CheckResult) -> None:
    group = check.id.partition(".")[0]
    case = ElementTree.SubElement(
        suite, "testcase", classname=f"{verdict.image}.{group}", name=check.id, time=f"{check.seconds:.3f}"
    )
    if check.status == "passed":
        return
    tag = {"failed": "failure", "blocked": "error", "skipped": "skipped"}[check.status]
    message = f"blocked by {check.blocked_by}" if check.blocked_by else first_line(check.detail) or check.reason
    body = ElementTree.SubElement(case, tag, message=_printable(message))
    body.text = _printable(failure(check).strip())


def _printable(text: str) -> str:
    """XML has no way to write control characters; what a container printed may hold some."""
    return "".join(char if char in "\t\n" or char.isprintable() else f"\\x{ord(char):02x}" for char in text)


def state(check: CheckResult) -> str:
    """The outcome in words."""
    return f"blocked by {check.blocked_by}" if check.blocked_by else check.status


def first_line(text: str) -> str:
    """The first line, cut to what a table has room for."""
    first = text.strip().partition("\n")[0]
    return first if len(first) <= 80 else first[:79] + "…"
