"""Metric definitions against log lines: values, and what is said when they do not fit."""

from __future__ import annotations

import math
import re
from datetime import datetime, timezone

import botocore.session
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.emulator import meter
from slipway.emulator.meter import Meter
from slipway.emulator.metrics import MetricDefinition, MetricProblem, MetricSummary, MetricValue

ACCURACY = MetricDefinition("accuracy", "'accuracy': ([0-9.]+)")


def measure(log: str, *definitions: MetricDefinition) -> tuple[MetricSummary, tuple[MetricProblem, ...]]:
    """The first definition's summary, and all problems."""
    found = Meter(definitions or (ACCURACY,))
    found.feed(log)
    return found.summaries()[0], found.problems()


def test_last_least_greatest_and_count() -> None:
    values: list[MetricValue] = []
    found = Meter((ACCURACY, MetricDefinition("f1", "'f1': ([0-9.]+)")), values.append)
    found.feed("epoch 0: {'accuracy': 0.5, 'f1': 0.25}\nother\n")
    found.feed("epoch 1: {'accuracy': 0.75, 'f1': 0.5}\nepoch 2: {'accuracy': 0.625}")
    assert found.summaries() == (
        MetricSummary("accuracy", 3, 0.625, 0.5, 0.75),
        MetricSummary("f1", 2, 0.5, 0.25, 0.5),
    )
    assert found.problems() == ()
    assert [value.value for value in values if value.name == "accuracy"] == [0.5, 0.75, 0.625]
    assert values[0].line == "epoch 0: {'accuracy': 0.5, 'f1': 0.25}"


def test_final_values_have_the_shape_of_the_service_and_the_time_of_the_last_value() -> None:
    found = Meter((ACCURACY, MetricDefinition("f1", "'f1': ([0-9.]+)"), MetricDefinition("none", "none=([0-9]+)")))
    found.feed("{'accuracy': 0.5, 'f1': 0.25}\n")
    between = datetime.now(timezone.utc)
    found.feed("{'accuracy': 0.25}\n")
    accuracy, f1 = found.finals()
    shape = botocore.session.get_session().get_service_model("sagemaker").shape_for("MetricData")
    assert set(accuracy) == set(shape.members)
    assert (accuracy["MetricName"], accuracy["Value"]) == ("accuracy", 0.25)
    assert (f1["MetricName"], f1["Value"]) == ("f1", 0.25)
    assert f1["Timestamp"] <= between <= accuracy["Timestamp"]


def test_only_the_first_match_of_a_line_counts() -> None:
    summary, _ = measure("loss=1 loss=2\n", MetricDefinition("loss", "loss=([0-9]+)"))
    assert (summary.count, summary.last) == (1, 1.0)


def test_anchors_mean_the_line() -> None:
    summary, _ = measure("x loss=1\nloss=2\nloss=3 x\n", MetricDefinition("loss", "^loss=([0-9]+)$"))
    assert (summary.count, summary.last) == (1, 2.0)


def test_a_match_never_spans_lines() -> None:
    summary, _ = measure("loss:\n5\nloss: 6\n", MetricDefinition("loss", r"loss:\s*([0-9]+)"))
    assert (summary.count, summary.last) == (1, 6.0)


def test_not_a_number_has_no_least_nor_greatest() -> None:
    summary, problems = measure("loss=nan\nloss=2\nloss=inf\n", MetricDefinition("loss", r"loss=(\S+)"))
    assert (summary.count, summary.last, summary.min, summary.max) == (3, math.inf, 2.0, math.inf)
    assert problems == ()


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        ("{'eval_accuracy': 0.9}", "prefix 'eval_'"),
        ("{'eval/accuracy': 0.9}", "prefix 'eval/'"),
        ("{'accuracy': '0.9'}", "in quotes"),
        ("{'accuracy': np.float64(0.9)}", "numpy"),
        ("{'accuracy': tensor(0.9, device='cuda:0')}", "torch"),
        ('{"accuracy": 0.9}', "double quotes"),
        ("{'accuracy': -0.9}", "no plain decimal"),
        ("{'accuracy': nan}", "no plain decimal"),
        ("{'Accuracy': 0.9}", "in other letters"),
        ("{'accuracy':0.9}", "blanks stand"),
        ("{'accuracy' : 0.9}", "blanks stand"),
        ("{'\x1b[1maccuracy\x1b[0m': 0.9}", "colour"),
        ("{'eval_accuracy': np.float64(0.9)}", "prefix 'eval_' and the number is printed as numpy"),
        ("{'eval_accuracy': '0.9'}", "prefix 'eval_' and the number is printed in quotes"),
    ],
)
def test_a_near_miss_names_its_cause_and_line(log: str, cause: str) -> None:
    summary, problems = measure(f"accuracy is what we want\nstep 1\n{log}\nthe end 2\n")
    assert (summary.count, summary.last) == (0, None)
    (problem,) = problems
    assert (problem.name, problem.kind, problem.line) == ("accuracy", "never-matched", log)
    assert cause in problem.what


def test_a_prefix_of_a_rank_launcher_hides_an_anchored_regex() -> None:
    _, (problem,) = measure("[1,0]<stdout>:loss: 5\n", MetricDefinition("loss", "^loss: ([0-9]+)"))
    assert "something stands before the name" in problem.what


def test_a_progress_bar_is_one_line_up_to_its_line_feed() -> None:
    bar = "".join(f"\r{done}%|#####  | loss={done}.5" for done in range(1, 101))
    loss = MetricDefinition("loss", "loss=([0-9.]+)")
    summary, problems = measure(f"{bar}\nloss=7.5\r\n", loss)
    assert (summary.count, summary.last, problems) == (2, 7.5, ())


@pytest.mark.parametrize(
    ("regex", "line", "cause"),
    [
        ("loss=([0-9.]+)$", "loss=7.5\r", "a carriage return ends the line"),
        ("^loss=([0-9.]+)", "1%\rloss=7.5", "carriage returns of a progress bar"),
        ("^loss=([0-9.]+)$", "".join(f"\r{done}%" for done in range(1000)) + "\rloss=7.5", "carriage returns"),
    ],
)
def test_carriage_returns_that_keep_an_anchored_regex_off_are_named(regex: str, line: str, cause: str) -> None:
    _, (problem,) = measure(f"{line}\n", MetricDefinition("loss", regex))
    assert (problem.kind, cause in problem.what) == ("never-matched", True), problem


def test_a_line_of_megabytes_is_read_and_its_near_miss_found() -> None:
    long = "x" * (3 << 20)
    assert measure(f"{long} 'accuracy': 0.75 {long}\n")[0].last == 0.75
    _, (problem,) = measure(f"{long} 'eval_accuracy': 0.75 {long}\n")
    assert "eval_" in problem.what and len(problem.line) <= 500


@pytest.mark.parametrize("prefix", ["[1,0]<stdout>:", "[default0]:", "algo-1 | ", "(RANK 3) "])
def test_a_prefix_of_a_rank_launcher_changes_nothing_of_a_regex_without_anchor(prefix: str) -> None:
    summary, problems = measure(f"{prefix}{{'accuracy': 0.5, 'f1': 0.25}}\n", ACCURACY)
    assert (summary.last, problems) == (0.5, ())


def test_a_near_miss_in_the_middle_of_a_long_log_is_found() -> None:
    noise = "".join(f"step {number} of 100000\n" for number in range(1000))
    found = Meter((ACCURACY,))
    for _ in range(20):
        found.feed(noise)
    found.feed("{'eval_accuracy': 0.9}\n")
    for _ in range(20):
        found.feed(noise)
    assert "eval_" in found.problems()[0].what


def test_what_is_nowhere_in_the_log_says_so() -> None:
    _, (problem,) = measure("hello\n")
    assert (problem.kind, problem.line) == ("never-matched", "")
    assert "none that was kept holds 'accuracy'" in problem.what


@pytest.mark.parametrize(
    ("regex", "line", "part"),
    [
        ("loss: ([0-9.]+)", "loss: 5e-05", "5 of 5e-05"),
        ("loss: ([0-9]+)", "loss: 5.25", "5 of 5.25"),
        ("loss: .?([0-9.]+)", "loss: -0.5", "0.5 of -0.5"),
        (r"\.([0-9]+)", "loss: 0.75", "75 of 0.75"),
        ("loss: ([0-9]{2})", "loss: 123", "12 of 123"),
    ],
)
def test_a_capture_cut_short_is_named(regex: str, line: str, part: str) -> None:
    _, (problem,) = measure(f"{line}\n", MetricDefinition("loss", regex))
    assert (problem.kind, problem.line) == ("cut-short", line)
    assert part in problem.what


@pytest.mark.parametrize(
    ("regex", "line"),
    [
        ("loss: ([0-9]+)", "loss: 5."),
        ("loss: ([0-9.]+)", "loss: 0.5."),
        ("loss: ([0-9.]+)", "loss: 0.5, acc"),
        ("epoch-([0-9]+)", "epoch-5"),
        ("of 3-([0-9]+)", "1 of 3-5"),
        ("loss: ([0-9.]+)", "loss: 5end"),
        ("loss: ([0-9.]+)", "loss: 1.50"),
        (r"loss: (\S+)", "loss: 5e-05"),
    ],
)
def test_a_whole_number_is_not_taken_for_a_part(regex: str, line: str) -> None:
    summary, problems = measure(f"{line}\n", MetricDefinition("loss", regex))
    if line == "loss: 0.5.":
        assert [problem.kind for problem in problems] == ["not-a-number"]
    else:
        assert (summary.count, problems) == (1, ())


@pytest.mark.parametrize(
    ("regex", "captured"), [(r"loss: (\S+)", "'high'"), ("loss:(?: ([0-9]+))?", "None"), (r"loss: (\S*) ?", "'high'")]
)
def test_a_capture_that_is_no_number_is_named_once(regex: str, captured: str) -> None:
    _, (problem,) = measure("loss: high\nloss: low\n", MetricDefinition("loss", regex))
    assert (problem.kind, problem.line) == ("not-a-number", "loss: high")
    assert captured in problem.what


def test_a_search_without_end_is_cut_and_named_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meter, "PATIENCE", 0.2)
    slow = MetricDefinition("slow", r"(?:a|aa)+b([0-9])")
    found = Meter((slow, MetricDefinition("loss", "loss=([0-9])")))
    found.feed("a" * 200 + "c b1\nloss=1\n")
    found.feed("aab1\nloss=2\n")
    assert [(summary.count, summary.last) for summary in found.summaries()] == [(0, None), (2, 2.0)]
    (problem,) = found.problems()
    assert (problem.name, problem.kind) == ("slow", "too-slow")
    assert problem.line.startswith("aaaa")


def test_a_near_miss_is_not_searched_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meter, "PATIENCE", 0.2)
    found = Meter((MetricDefinition("slow", r"loss (?:a|aa)+'b([0-9])"),))
    found.feed("loss " + "a" * 200 + 'c "b1\n')
    assert [problem.kind for problem in found.problems()] == ["too-slow"]


numbers = st.floats(allow_nan=False, allow_infinity=False)


@given(
    st.lists(st.tuples(st.sampled_from(["loss={} end", "eval_loss={}", "no {}", "loss=x {}", ""]), numbers)), st.data()
)
def test_blocks_and_prefilter_change_nothing(rows: list[tuple[str, float]], data: st.DataObject) -> None:
    log = [text.format(value) for text, value in rows]
    regexes = ["loss=([-+0-9.e]+)", "([-+0-9.e]+) end", "(?i)LOSS=([-+0-9.e]+)", "^loss=([-+0-9.e]+) end$"]
    found = Meter([MetricDefinition(regex, regex) for regex in regexes])
    at = 0
    while at < len(log):
        size = data.draw(st.integers(1, 5))
        found.feed("".join(f"{line}\n" for line in log[at : at + size]))
        at += size
    for regex, summary in zip(regexes, found.summaries(), strict=True):
        plain = [float(match[1]) for line in log if (match := re.search(regex, line))]
        assert (summary.count, summary.last) == (len(plain), plain[-1] if plain else None)
        assert (summary.min, summary.max) == ((min(plain), max(plain)) if plain else (None, None))
