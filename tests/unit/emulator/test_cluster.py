"""Hosts and groups as resourceconfig.json names them."""

from __future__ import annotations

import pytest

from slipway.emulator import cluster
from slipway.emulator.cluster import InstanceGroup
from slipway.emulator.job import TrainingJob

DATA, TRAIN = InstanceGroup("data", "ml.c5.xlarge", 9), InstanceGroup("train", "ml.g5.xlarge", 2)


def test_hosts_are_sorted_as_text() -> None:
    names = TrainingJob(image="x", hosts=12).host_names()
    assert names == ["algo-1", "algo-10", "algo-11", "algo-12", *(f"algo-{number}" for number in range(2, 10))]


def test_one_group_where_none_is_asked_for() -> None:
    assert cluster.resource_config("algo-2", TrainingJob(image="x", hosts=10).placed()) == {
        "current_host": "algo-2",
        "current_instance_type": "local",
        "current_group_name": "homogeneousCluster",
        "hosts": ["algo-1", "algo-10", *(f"algo-{number}" for number in range(2, 10))],
        "instance_groups": [
            {
                "instance_group_name": "homogeneousCluster",
                "instance_type": "local",
                "hosts": ["algo-1", "algo-10", *(f"algo-{number}" for number in range(2, 10))],
            }
        ],
        "network_interface_name": "eth0",
    }


def test_a_host_is_told_of_its_own_group_and_of_all() -> None:
    config = cluster.resource_config("algo-10", cluster.place([DATA, TRAIN]))
    assert (config["current_group_name"], config["current_instance_type"]) == ("train", "ml.g5.xlarge")
    assert config["hosts"][:4] == ["algo-1", "algo-10", "algo-11", "algo-2"]
    assert [(group["instance_group_name"], group["hosts"]) for group in config["instance_groups"]] == [
        ("data", [f"algo-{number}" for number in range(1, 10)]),
        ("train", ["algo-10", "algo-11"]),
    ]


@pytest.mark.parametrize(
    ("groups", "what"),
    [
        ([InstanceGroup(str(number), "ml.c5.xlarge", 1) for number in range(6)], "6 instance groups"),
        ([InstanceGroup("", "ml.c5.xlarge", 1)], "instance group ''"),
        ([InstanceGroup("a" * 65, "ml.c5.xlarge", 1)], "1 to 64"),
        ([InstanceGroup("a", "ml.c5.xlarge", 0)], "0 instances"),
        ([DATA, DATA], "'data' is given twice"),
    ],
)
def test_what_the_service_refuses(groups: list[InstanceGroup], what: str) -> None:
    (fault,) = cluster.faults(groups)
    assert what in str(fault)


def test_five_groups_are_taken() -> None:
    assert not list(cluster.faults([InstanceGroup("a" * length, "ml.c5.xlarge", 1) for length in (1, 2, 3, 4, 64)]))
