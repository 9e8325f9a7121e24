"""Metrics: what SageMaker reads from the log by the definitions of a TSV file."""

from __future__ import annotations

from types import SimpleNamespace

from slipway.verify.jobs import Finished

ON_STDERR = 100


def values(job: Finished, name: str) -> list[float]:
    return [found.value for found in job.values if found.name == name]


def compare(job: Finished, name: str, wanted: list[float]) -> str:
    """How the values of a metric differ from what was printed; empty where they do not."""
    found = values(job, name)
    if found == wanted:
        return ""
    at = next(
        (i for i, (one, other) in enumerate(zip(found, wanted, strict=False)) if one != other),
        min(len(found), len(wanted)),
    )
    where = f"the first difference is at value {at}: {found[at : at + 3]} instead of {wanted[at : at + 3]}"
    return f"{name}: {len(found)} of {len(wanted)} values; {where}"


def test_metrics_fast_lines(job: Finished, probe: SimpleNamespace) -> None:
    printed = [probe.fast(step) for step in range(probe.FAST)]
    names = ("train:loss", "eval:score", "learning-rate")
    wrong = [compare(job, name, [line[at] for line in printed]) for at, name in enumerate(names)]
    assert not any(wrong), "\n".join(filter(None, wrong))
    lines = [line.text for line in job.lines if line.text.startswith("step=")]
    steps = [f"step={step}" for step in range(probe.FAST)]
    assert [line.partition(" ")[0] for line in lines] == steps, "lines are torn, lost or out of order"


def test_metrics_slow_lines(job: Finished, probe: SimpleNamespace) -> None:
    wrong = compare(job, "slow:loss", [float(first + rest) for _, first, rest in probe.SLOW])
    seen = [line.text for line in job.lines if line.text.startswith("slow ")]
    assert not wrong, f"{wrong}\nthe lines arrived as {seen}"


def test_metrics_stderr(job: Finished) -> None:
    wrong = compare(job, "validation:loss", [step + 0.5 for step in range(ON_STDERR)])
    assert not wrong, wrong
    elsewhere = [line for line in job.lines if "stderr_loss=" in line.text and line.stream != "stderr"]
    assert not elsewhere, f"{len(elsewhere)} lines of stderr arrived on stdout"
