"""A job on SageMaker followed to its end: log, metrics, result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from slipway.emulator import patterns
from slipway.emulator.meter import Meter
from slipway.emulator.metrics import MetricDefinition, MetricProblem, MetricSummary, MetricValue

ENDED = ("Completed", "Failed", "Stopped")
_SECONDS = 10.0
"""Between two looks at a job. CloudWatch and DescribeTrainingJob both are slower than that."""


class Service(Protocol):
    """What is asked of AWS (clients.aws.Aws)."""

    def describe(self, job: str) -> dict[str, Any]: ...

    def log_streams(self, job: str) -> list[str]: ...

    def log_events(self, stream: str, token: str) -> tuple[list[str], str]: ...


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a job on SageMaker ended. Times in seconds; `billable` None where the service does not say."""

    name: str
    arn: str
    status: str
    failure_reason: str
    model: str
    seconds: float | None
    billable: float | None
    metrics: tuple[MetricSummary, ...]
    problems: tuple[MetricProblem, ...]

    @property
    def completed(self) -> bool:
        return self.status == "Completed"


@dataclass
class Follower:
    """Follows one job. `on_line` hears each line with its host, `on_metric` each value, `on_status` each new status."""

    service: Service
    job: str
    on_line: Callable[[str, str], None]
    on_metric: Callable[[MetricValue], None]
    on_status: Callable[[str], None]
    pause: Callable[[float], None]
    metrics: Sequence[MetricDefinition] | None = None  # None: those that the service tells
    _tokens: dict[str, str] = field(default_factory=dict)
    _status: str = ""

    def follow(self) -> Outcome:
        """Wait for the end; what the job printed is told as it comes, and all of it before this returns."""
        told = self.service.describe(self.job)
        meter = Meter(definitions(told) if self.metrics is None else self.metrics, self.on_metric)
        while True:
            self._tell_status(told)
            ended = told["TrainingJobStatus"] in ENDED
            self._read(meter)
            if ended:
                break
            self.pause(_SECONDS)
            told = self.service.describe(self.job)
        return outcome(told, meter)

    def _tell_status(self, told: dict[str, Any]) -> None:
        secondary = str(told.get("SecondaryStatus", ""))
        status = ": ".join(part for part in (str(told["TrainingJobStatus"]), secondary) if part)
        if status != self._status:
            self._status = status
            self.on_status(status)

    def _read(self, meter: Meter) -> None:
        for stream in self.service.log_streams(self.job):
            for lines in self._new(stream):
                for line in lines:
                    self.on_line(_host(stream), line)
                meter.feed("".join(f"{line}\n" for line in lines))

    def _new(self, stream: str) -> Iterator[Sequence[str]]:
        """Blocks of lines that were not read yet. The token stays the same at the end of what there is."""
        while True:
            before = self._tokens.get(stream, "")
            lines, after = self.service.log_events(stream, before)
            self._tokens[stream] = after
            if lines:
                yield lines
            if not lines or after == before:
                return


def definitions(told: dict[str, Any]) -> list[MetricDefinition]:
    """The metric definitions that a job was started with, of those the ones that can be applied here."""
    given = told.get("AlgorithmSpecification", {}).get("MetricDefinitions", [])
    found = [MetricDefinition(str(each["Name"]), str(each["Regex"])) for each in given]
    return [each for each in found if not patterns.objections(each.regex)]


def outcome(told: dict[str, Any], meter: Meter) -> Outcome:
    """What DescribeTrainingJob says of an ended job, and the metrics of the log that was read.

    Final values are the service's own where it has them.
    """
    final = {str(each["MetricName"]): float(each["Value"]) for each in told.get("FinalMetricDataList", [])}
    summaries = []
    for summary in meter.summaries():
        last = final.get(summary.name, summary.last)
        summaries.append(MetricSummary(summary.name, summary.count, last, summary.min, summary.max))
    started, ended = told.get("TrainingStartTime"), told.get("TrainingEndTime")
    return Outcome(
        name=str(told["TrainingJobName"]),
        arn=str(told.get("TrainingJobArn", "")),
        status=str(told["TrainingJobStatus"]),
        failure_reason=str(told.get("FailureReason", "")),
        model=str(told.get("ModelArtifacts", {}).get("S3ModelArtifacts", "")),
        seconds=(ended - started).total_seconds() if started and ended else None,
        billable=told.get("BillableTimeInSeconds"),
        metrics=tuple(summaries),
        problems=meter.problems(),
    )


def _host(stream: str) -> str:
    """`job/algo-1-1700000000` -> `algo-1`."""
    return stream.rpartition("/")[2].rpartition("-")[0] or stream
