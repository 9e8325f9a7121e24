"""What a host's container is made from."""

from __future__ import annotations

from slipway.emulator import hosts
from slipway.emulator.job import TrainingJob
from slipway.engine.docker import Ulimit


def test_limits_that_are_asked_for_go_before_those_of_hosted_jobs() -> None:
    assert {limit.name: limit.soft for limit in hosts._limits(TrainingJob(image="x"))}["nofile"] == 65536
    given = hosts._limits(TrainingJob(image="x", ulimits=(Ulimit("nofile", 10, 20), Ulimit("core", 0, 0))))
    assert [limit.name for limit in given].count("nofile") == 1
    assert {limit.name: limit.soft for limit in given} == {
        "nofile": 10,
        "core": 0,
        "memlock": -1,
        "nproc": -1,
        "stack": 65536 << 10,
    }


def test_gpus_are_all_or_a_number() -> None:
    asked = [hosts._gpus(TrainingJob(image="x", gpus=gpus)) for gpus in ("", "all", "2")]
    assert asked == [0, True, 2] and asked[1] is True
