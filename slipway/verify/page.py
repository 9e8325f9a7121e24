"""Verdicts as one HTML file that loads nothing: for a build server's artifacts, and for people who were not there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slipway.records import Verdict
from slipway.verify.contract import Contract
from slipway.verify.report import state, summary

_TEMPLATE = Path(__file__).with_name("report.html.j2")


def html(verdicts: Sequence[tuple[Verdict, Contract]]) -> str:
    """The page of the images' verdicts, failed ones unfolded. What containers printed is escaped."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True)
    template = environment.from_string(_TEMPLATE.read_text(encoding="utf-8"))
    return template.render(
        pages=[_page(verdict, contract) for verdict, contract in verdicts],
        passed=sum(verdict.passed for verdict, _ in verdicts),
    )


def _page(verdict: Verdict, contract: Contract) -> dict[str, Any]:
    """One image: its checks in the contract's groups, in their order."""
    rows: list[dict[str, Any]] = [
        {"check": contract.check(result.id), "result": result, "state": state(result)} for result in verdict.checks
    ]
    groups = [
        {"name": name, "title": title, "rows": found}
        for name, title in contract.groups.items()
        if (found := [row for row in rows if row["check"].group == name])
    ]
    outcome = "passed" if verdict.passed else "failed"
    return {"verdict": verdict, "outcome": outcome, "counts": summary(verdict.checks), "groups": groups}
