"""A job on SageMaker followed, against a service that answers from a script."""

from __future__ import annotations

import datetime
from typing import Any

from slipway.clients.follow import Follower, Outcome
from slipway.emulator.metrics import MetricDefinition, MetricValue

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
LOSS = MetricDefinition("loss", "loss=([0-9.]+)")


class Script:
    """Each look at the job takes one step: a status, and by stream what has been printed up to then."""

    def __init__(self, *steps: tuple[str, dict[str, list[str]]], **told: Any) -> None:
        self.steps, self.told, self.at = steps, told, -1

    def describe(self, job: str) -> dict[str, Any]:
        self.at = min(self.at + 1, len(self.steps) - 1)
        return {"TrainingJobName": job, "TrainingJobStatus": self.steps[self.at][0], **self.told}

    def log_streams(self, job: str) -> list[str]:
        return sorted(self.steps[self.at][1])

    def log_events(self, stream: str, token: str) -> tuple[list[str], str]:
        lines = self.steps[self.at][1][stream]
        seen = int(token or 0)
        return lines[seen : seen + 2], str(min(seen + 2, len(lines)))  # two lines a page


def follow(service: Script, **given: Any) -> tuple[Outcome, dict[str, list[Any]]]:
    heard: dict[str, list[Any]] = {"lines": [], "values": [], "status": [], "pauses": []}

    def line(host: str, text: str) -> None:
        heard["lines"].append((host, text))

    def value(found: MetricValue) -> None:
        heard["values"].append(found.value)

    follower = Follower(service, "job", line, value, heard["status"].append, heard["pauses"].append, **given)
    return follower.follow(), heard


def test_every_line_is_told_once_and_all_of_them_before_the_end() -> None:
    one, two = "job/algo-1-1700000000", "job/algo-2-1700000001"
    service = Script(
        ("InProgress", {}),
        ("InProgress", {one: ["a", "loss=3"]}),
        ("InProgress", {one: ["a", "loss=3", "b", "loss=2", "c"], two: ["x"]}),
        ("Completed", {one: ["a", "loss=3", "b", "loss=2", "c", "loss=1", "d", "e", "f"], two: ["x", "y"]}),
        ModelArtifacts={"S3ModelArtifacts": "s3://b/model.tar.gz"},
        TrainingStartTime=START,
        TrainingEndTime=START + datetime.timedelta(seconds=90),
    )
    outcome, heard = follow(service, metrics=[LOSS])
    lines = heard["lines"]
    assert [text for host, text in lines if host == "algo-1"] == [
        *["a", "loss=3", "b", "loss=2", "c", "loss=1", "d", "e", "f"]
    ]
    assert [text for host, text in lines if host == "algo-2"] == ["x", "y"]
    assert heard["values"] == [3, 2, 1]
    assert heard["status"] == ["InProgress", "Completed"]
    assert len(heard["pauses"]) == 3
    assert outcome.completed
    assert (outcome.seconds, outcome.model) == (90, "s3://b/model.tar.gz")
    (summary,) = outcome.metrics
    assert (summary.last, summary.min, summary.max, summary.count) == (1, 1, 3, 3)


def test_a_failure_keeps_its_reason_and_the_near_miss() -> None:
    stream = "job/algo-1-1"
    service = Script(("Failed", {stream: ["eval_loss: 3"]}), FailureReason="AlgorithmError: no")
    outcome, _ = follow(service, metrics=[LOSS])
    assert (outcome.completed, outcome.failure_reason) == (False, "AlgorithmError: no")
    assert outcome.problems[0].kind == "never-matched"
    assert "eval_loss: 3" in outcome.problems[0].line


def test_definitions_of_a_job_that_was_started_elsewhere() -> None:
    given = [{"Name": "loss", "Regex": LOSS.regex}, {"Name": "odd", "Regex": "no group"}]
    service = Script(
        ("Completed", {"job/algo-1-1": ["loss=3"]}),
        AlgorithmSpecification={"MetricDefinitions": given},
        FinalMetricDataList=[{"MetricName": "loss", "Value": 2.5}],
    )
    outcome, _ = follow(service)
    assert [(summary.name, summary.last) for summary in outcome.metrics] == [("loss", 2.5)]
