"""Files of metric definitions."""

from __future__ import annotations

from pathlib import Path

import botocore.session
import pytest

from slipway.emulator import metrics, patterns
from slipway.emulator.metrics import MetricDefinition
from slipway.errors import InputError


def read(folder: Path, *rows: str) -> metrics.Metrics:
    path = folder / "metrics.tsv"
    path.write_text("".join(f"{row}\n" for row in ("metric_name\tmetric_regex", *rows)))
    return metrics.read(path)


def faults(folder: Path, *rows: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        read(folder, *rows)
    return [str(fault) for fault in caught.value.faults]


def test_definitions_are_read(tmp_path: Path) -> None:
    found = read(tmp_path, "accuracy\t'accuracy': ([0-9.]+)", "f1\t'f1': ([0-9.]+)")
    assert found.definitions == (
        MetricDefinition("accuracy", "'accuracy': ([0-9.]+)"),
        MetricDefinition("f1", "'f1': ([0-9.]+)"),
    )
    assert found.warnings == ()


def test_every_fault_at_once(tmp_path: Path) -> None:
    found = faults(
        tmp_path, "a\t(", "b\tloss=[0-9]+", "c\tc=([0-9])", "c\tc=([0-9])", "n" * 256 + "\tx([0-9])", "loss ([0-9])"
    )
    assert [text.split(":")[1] for text in found] == ["2", "3", "5", "6", "7"]
    for part, text in zip(["compile", "no group", "given twice", "256 characters", "no tab"], found, strict=True):
        assert part in text


def test_forty_metrics_and_no_more(tmp_path: Path) -> None:
    rows = [f"m{number}\tm{number}=([0-9]+)" for number in range(41)]
    assert len(read(tmp_path, *rows[:40]).definitions) == 40
    assert "41 metrics" in faults(tmp_path, *rows)[0]


def test_the_limits_are_those_of_the_service_model() -> None:
    model = botocore.session.get_session().get_service_model("sagemaker")
    assert model.shape_for("MetricDefinitionList").metadata["max"] == metrics.MOST
    assert model.shape_for("MetricName").metadata["max"] == metrics.LONGEST_NAME
    assert model.shape_for("MetricRegex").metadata["max"] == patterns.LONGEST
