"""What the probe of the smoke steps says is told from what frameworks print; a step that never ended has failed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slipway.errors import NoDeviceError
from slipway.verify import contract, probing

PROJECT = Path(__file__).parents[3]


def line(**found: object) -> str:
    return "smoke\t" + json.dumps(found)


def test_reports_are_told_from_noise() -> None:
    report = probing.parse(
        [
            "W0000 a warning",
            line(framework="torch", device="cpu"),
            line(step="device.memory", seconds=1.5, numbers={"missing_mib": 0}),
            line(step="compiling.code", seconds=0.1, absent="there is no C++ compiler here"),
            line(step="training.step", seconds=0.1, error="Traceback"),
        ],
        0,
    )
    assert report.start == {"framework": "torch", "device": "cpu"}
    assert report.observed("device.memory") == probing.Observation({"missing_mib": 0}, seconds=1.5)
    assert report.observed("compiling.code").absent == "there is no C++ compiler here"
    assert report.observed("training.step").error == "Traceback"
    assert report.said == "W0000 a warning"


def test_a_step_that_killed_the_probe_says_how_it_ended() -> None:
    report = probing.parse([line(framework="torch"), "Fatal Python error: Segmentation fault"], 139)
    error = report.observed("numerics.precision").error
    assert "exit code 139" in error and "Segmentation fault" in error


def test_no_device_ends_the_run() -> None:
    with pytest.raises(NoDeviceError, match="no NVIDIA GPU"):
        probing.parse([line(no_device="there is no NVIDIA GPU here")], 0)


def test_the_probe_on_a_host_without_framework_says_so() -> None:
    report = probing.bare(PROJECT / "tests/smoke/probe", "cpu", environment={"PYTHONPATH": ""})
    # The environment of these tests holds none; where it does, the steps are reported.
    assert report.code == 0 and bool(report.start["framework"]) == bool(report.steps)


def test_numbers_are_shown_on_one_line() -> None:
    assert probing.in_words({"error": 0.000001234, "count": 3, "driver": ""}) == "error 1.23e-06, count 3"


def test_steps_mutants_and_probes_name_one_another() -> None:
    known = {check.id for check in contract.steps(PROJECT).checks}
    mutants = {path.stem for path in (PROJECT / "tests/smoke/mutants").glob("*-*.py")}
    for framework in ("torch", "tensorflow", "mxnet"):
        text = (PROJECT / f"tests/smoke/probe/on_{framework}.py").read_text()
        steps = {line.split('"')[1] for line in text.partition("STEPS = {")[2].splitlines() if '"' in line}
        assert steps <= known
        assert {f"{framework}-{step}" for step in steps} == {name for name in mutants if name.startswith(framework)}
    torch = (PROJECT / "tests/smoke/probe/on_torch.py").read_text()
    assert known == {line.split('"')[1] for line in torch.partition("STEPS = {")[2].splitlines() if '"' in line}
