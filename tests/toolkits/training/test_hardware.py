"""Processors: what the host says, within what the container may use."""

from __future__ import annotations

import os

import pytest
from sagemaker_training import cgroup, hardware


@pytest.fixture(autouse=True)
def fresh(monkeypatch, tmp_path):
    """No earlier answers, and no program but those that a test writes."""
    for probe in (hardware.num_cpus, hardware.num_gpus, hardware.num_neurons):
        probe.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    yield
    for probe in (hardware.num_cpus, hardware.num_gpus, hardware.num_neurons):
        probe.cache_clear()


@pytest.fixture
def program(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)

    return write


def test_gpus_are_the_lines_that_say_so(program):
    program("nvidia-smi", '[ "$1" = --list-gpus ] && echo "GPU 0: A" && echo "  MIG" && echo "GPU 1: B"\n')
    assert hardware.num_gpus() == 2


@pytest.mark.parametrize("text", ["exit 9\n", "echo nothing\n"])
def test_no_gpus_when_the_probe_fails(program, text, caplog):
    program("nvidia-smi", text)
    assert hardware.num_gpus() == 0
    assert ("failed with exit code 9" in caplog.text) == ("exit" in text)


def test_no_devices_without_programs(caplog):
    assert (hardware.num_gpus(), hardware.num_neurons()) == (0, 0)
    assert caplog.text == ""


def test_probe_that_hangs(program, monkeypatch, caplog):
    program("nvidia-smi", "exec /bin/sleep 60\n")
    monkeypatch.setattr(hardware, "_PROBE_SECONDS", 0.1)
    assert hardware.num_gpus() == 0
    assert "did not answer in 0.1 s" in caplog.text


def test_limit_of_a_probe():
    assert hardware._PROBE_SECONDS == 10


def test_neuron_cores(program):
    program("neuron-ls", 'echo \'[{"nc_count": 2}, {"nc_count": 4}]\'\n')
    assert hardware.num_neurons("ml.trn1.32xlarge") == 6
    assert hardware.num_neurons("ml.trn2.48xlarge") == 64


def test_neuron_answer_that_cannot_be_read(program, caplog):
    program("neuron-ls", "echo nonsense\n")
    assert hardware.num_neurons() == 0
    assert "cannot be read" in caplog.text


def test_probes_run_once(program, tmp_path):
    program("nvidia-smi", f'echo x >> {tmp_path}/count; echo "GPU 0: A"\n')
    assert [hardware.num_gpus(), hardware.num_gpus()] == [1, 1]
    assert (tmp_path / "count").read_text() == "x\n"


@pytest.mark.parametrize("allowed, quota, count", [(8, None, 8), (8, 2, 2), (2, 8, 2), (1, None, 1)])
def test_cpus_are_the_smaller_of_affinity_and_quota(monkeypatch, allowed, quota, count):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(allowed)))
    monkeypatch.setattr(cgroup, "cpu_limit", lambda: quota)
    assert hardware.num_cpus() == count
