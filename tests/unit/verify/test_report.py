"""A verdict as text, JUnit and JSON."""

from __future__ import annotations

import io
import json
from xml.etree import ElementTree

from slipway.console import Console
from slipway.records import CheckResult, Verdict
from slipway.verify import report
from slipway.verify.contract import Check, Contract

CHECKS = (
    CheckResult(id="a.good", status="passed", seconds=1.25),
    CheckResult(
        id="a.bad", status="failed", seconds=0.5, reason="why", detail="seen\nin two lines \x1b[0m", fix="mend"
    ),
    CheckResult(id="a.next", status="blocked", seconds=0.0, reason="why", fix="mend", blocked_by="a.bad"),
    CheckResult(id="a.none", status="skipped", seconds=0.0, reason="why", detail="no device", fix="mend"),
)
VERDICT = Verdict(
    config_digest="sha256:c",
    suite_hash="s",
    image="cell",
    reference="repo:tag",
    passed=False,
    at="2026-11-01T00:00:00+00:00",
    seconds=3.0,
    checks=CHECKS,
)


CONTRACT = Contract(
    "training",
    tuple(
        Check(id=id, severity=severity, reason="why", source="s", fix="mend")
        for id, severity in (("a.good", "error"), ("a.bad", "error"), ("a.next", "error"), ("a.none", "policy"))
    ),
    {"a": "first"},
)


def test_a_failure_shows_id_reason_what_was_seen_and_the_fix() -> None:
    out = io.StringIO()
    report.show(Console(out=out), VERDICT, CONTRACT)
    text = out.getvalue()
    assert "failed a.bad\n  why:  why\n  seen:\n    seen\n    in two " in text and "  fix:  mend" in text
    assert "skipped a.none (a promise of this project; jobs on SageMaker run without it)" in text
    assert "blocked by a.bad" in text
    assert text.rstrip().endswith("cell: FAILED (1 passed, 1 failed, 1 blocked, 1 skipped)")


def test_junit_counts_every_outcome_and_is_xml_whatever_was_seen() -> None:
    suite = ElementTree.fromstring(report.junit([VERDICT])).find("testsuite")
    assert suite is not None
    counts = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "4", "failures": "1", "errors": "1", "skipped": "1"}
    cases = {case.get("name"): case for case in suite}
    assert len(cases["a.good"]) == 0
    failure = cases["a.bad"].find("failure")
    assert failure is not None and failure.get("message") == "seen" and "\\x1b[0m" in (failure.text or "")
    error = cases["a.next"].find("error")
    assert error is not None and error.get("message") == "blocked by a.bad"


def test_the_document_for_machines_is_json() -> None:
    found = json.loads(json.dumps(report.document(VERDICT, run_now=True)))
    assert found["run_now"] and found["checks"][1]["status"] == "failed"
