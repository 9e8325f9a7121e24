"""From checks to a verdict: outcomes, what is blocked, what is filed, and what ends a run without a verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipway.errors import DiskError, Interrupted, NotFoundError, SlipwayError, SpecError
from slipway.records import CheckResult, Records, Verdict
from slipway.verify.runner import Verifier
from slipway.verify.target import Target

CONTRACT = """\
kind: training
groups: {a: first}
checks:
  - {id: a.one, reason: why one, source: s, fix: mend one}
  - {id: a.two, reason: why two, source: s, fix: mend two, needs: [a.one]}
  - {id: a.three, reason: why three, source: s, fix: mend three, needs: [a.two]}
  - {id: a.four, reason: why four, source: s, fix: mend four}
"""

CONFTEST = """\
def pytest_addoption(parser):
    for name in ("--image", "--reference", "--kind"):
        parser.addoption(name)
"""

GOOD = {"one": "pass", "two": "pass", "three": "pass", "four": "pass"}

TARGET = Target(
    image="cell",
    reference="repo:tag",
    engine_id="sha256:" + "e" * 64,
    config_digest="sha256:" + "c" * 64,
    kind="training",
)


class Bench:
    """A project whose checks do what a test wants."""

    def __init__(self, project: Path) -> None:
        self.project = project
        self.records = Records(project / ".slipway")
        self.heard: list[CheckResult] = []
        (project / "tests/contract").mkdir(parents=True)
        (project / "slipway/verify").mkdir(parents=True)
        (project / "slipway/emulator").mkdir()
        (project / "slipway/engine").mkdir()
        (project / "tests/smoke/probe").mkdir(parents=True)
        for name in ("engine/docker.py", "engine/images.py", "size.py", "tables.py"):
            (project / "slipway" / name).write_text("")
        for name in ("tests/smoke/test_steps.py", "pyproject.toml"):
            (project / name).write_text("")
        self.write("training.yml", CONTRACT)
        self.write("conftest.py", CONFTEST)

    def write(self, name: str, text: str) -> None:
        (self.project / "tests/contract" / name).write_text(text)

    def checks(self, head: str = "", **bodies: str) -> None:
        functions = [
            f"def test_a_{name}({'broken' if 'broken' in body else ''}):\n    {body}\n" for name, body in bodies.items()
        ]
        self.write("test_a.py", "\n".join(["import pytest", head, *functions]))

    def verify(self, *wanted: str, force: bool = False) -> tuple[Verdict, bool]:
        verifier = Verifier(project=self.project, records=self.records, on_result=self.heard.append)
        return verifier.verify(TARGET, wanted, force=force)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def outcomes(verdict: Verdict) -> dict[str, str]:
    return {check.id: check.status for check in verdict.checks}


def test_all_passed_is_a_passed_verdict_filed_once(bench: Bench) -> None:
    bench.checks(**GOOD)
    verdict, run_now = bench.verify()
    assert run_now and verdict.passed and set(outcomes(verdict).values()) == {"passed"}
    assert bench.records.verdict_of(TARGET.config_digest, verdict.suite_hash) == verdict
    assert [result.id for result in bench.heard] == ["a.one", "a.two", "a.three", "a.four"]

    assert bench.verify() == (verdict, False)
    assert len(bench.heard) == 4
    assert bench.verify(force=True)[1]
    assert len(bench.heard) == 8


def test_another_suite_runs_again(bench: Bench) -> None:
    bench.checks(**GOOD)
    first, _ = bench.verify()
    bench.checks(**{**GOOD, "four": "assert False, 'now it fails'"})
    second, run_now = bench.verify()
    assert run_now and not second.passed and first.suite_hash != second.suite_hash


def test_what_needs_a_failed_check_is_blocked_by_it_to_the_end_of_the_chain(bench: Bench) -> None:
    bench.checks(**{**GOOD, "one": "assert 1 == 2, 'seen: 1'"})
    verdict, _ = bench.verify()
    assert not verdict.passed
    assert outcomes(verdict) == {"a.one": "failed", "a.two": "blocked", "a.three": "blocked", "a.four": "passed"}
    failed, two, three, _ = verdict.checks
    assert (failed.detail, failed.reason, failed.fix) == ("seen: 1", "why one", "mend one")
    assert (two.blocked_by, three.blocked_by) == ("a.one", "a.one")


def test_skipped_is_not_passed_and_blocks(bench: Bench) -> None:
    bench.checks(**{**GOOD, "one": "pytest.skip('no device here')"})
    verdict, _ = bench.verify()
    assert not verdict.passed
    assert outcomes(verdict) == {"a.one": "skipped", "a.two": "blocked", "a.three": "blocked", "a.four": "passed"}
    assert "no device here" in verdict.checks[0].detail


def test_an_expected_failure_is_not_passed(bench: Bench) -> None:
    bench.checks(**{**GOOD, "four": "pytest.xfail('some day')"})
    assert not bench.verify()[0].passed


def test_an_exception_in_a_check_is_a_failure_that_names_it(bench: Bench) -> None:
    bench.checks(**{**GOOD, "four": "{}['SM_HPS']"})
    verdict, _ = bench.verify()
    assert verdict.checks[3].status == "failed" and verdict.checks[3].detail == "KeyError: 'SM_HPS'"


def test_a_container_that_cannot_start_fails_the_check(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slipway.verify.plugin._engine_answers", lambda: True)
    bench.checks(
        "from slipway.errors import EngineError\n@pytest.fixture\ndef broken(): raise EngineError('no such program')",
        **{**GOOD, "one": "broken"},
    )
    verdict, _ = bench.verify()
    assert verdict.checks[0].status == "failed" and verdict.checks[0].detail == "no such program"


@pytest.mark.parametrize(
    ("error", "raised", "said"),
    [
        ("EngineError('gone')", SlipwayError, "gone"),
        ("DiskError('full')", DiskError, "full"),
        ("Interrupted('stopped')", Interrupted, "stopped"),
        ("NotFoundError('gone')", NotFoundError, "gone"),
        ("FileNotFoundError('a file of ours')", SlipwayError, "a.two itself broke"),
        ("ValueError('a mistake of ours')", SlipwayError, "a.two itself broke"),
    ],
)
def test_what_says_nothing_of_the_image_ends_the_run_without_verdict(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, error: str, raised: type[SlipwayError], said: str
) -> None:
    monkeypatch.setattr("slipway.verify.plugin._engine_answers", lambda: False)
    bench.checks(
        f"from slipway.errors import *\n@pytest.fixture\ndef broken(): raise {error}", **{**GOOD, "two": "broken"}
    )
    with pytest.raises(raised, match=said):
        bench.verify()
    assert bench.records.verdicts() == []
    assert [result.id for result in bench.heard] == ["a.one"]


def test_ctrl_c_ends_the_run_without_verdict(bench: Bench) -> None:
    bench.checks(**{**GOOD, "two": "raise KeyboardInterrupt"})
    with pytest.raises(Interrupted):
        bench.verify()
    assert bench.records.verdicts() == []


def test_a_part_of_the_checks_is_run_with_what_it_needs_and_not_filed(bench: Bench) -> None:
    bench.checks(**GOOD)
    verdict, _ = bench.verify("a.two")
    assert outcomes(verdict) == {"a.one": "passed", "a.two": "passed"}
    assert bench.records.verdicts() == []


def test_a_check_without_function_and_a_function_without_check_are_errors(bench: Bench) -> None:
    bench.checks(one="pass", two="pass", three="pass")
    with pytest.raises(SpecError, match=r"a\.four has none"):
        bench.verify()
    bench.checks(**GOOD, five="pass")
    with pytest.raises(SpecError, match="test_a_five is no check"):
        bench.verify()
    assert bench.records.verdicts() == []


def test_a_test_file_that_cannot_be_imported_ends_the_run(bench: Bench) -> None:
    bench.checks("import nothing_of_that_name", **GOOD)
    with pytest.raises(SlipwayError, match="pytest ended early"):
        bench.verify()
    assert bench.records.verdicts() == []


def test_the_folder_of_a_run_is_gone_afterwards(bench: Bench) -> None:
    bench.checks(**GOOD)
    bench.verify()
    assert sorted(path.name for path in bench.records.state.iterdir()) == ["logs", "verdicts"]
