"""The hosts of a training job: their names, and the groups that they form.

Source of the rules: the SageMaker developer guide, "How Amazon SageMaker Provides Training Information" and "Train
Using a Heterogeneous Cluster"; the API's InstanceGroup.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from slipway.errors import Fault

HOMOGENEOUS = "homogeneousCluster"
"""What the service calls the one group of a job that asks for none."""

MOST_GROUPS = 5
LONGEST_NAME = 64


@dataclass(frozen=True)
class InstanceGroup:
    """Instances of one type, `count` of them."""

    name: str
    instance_type: str
    count: int


@dataclass(frozen=True)
class Placed:
    """A group with the names of its hosts, sorted as text."""

    group: InstanceGroup
    hosts: tuple[str, ...]


def place(groups: Sequence[InstanceGroup]) -> list[Placed]:
    """Number the hosts of all groups through. SageMaker sorts hosts as text: algo-1, algo-10, algo-2."""
    numbers = itertools.count(1)
    return [
        Placed(group, tuple(sorted(f"algo-{number}" for number in itertools.islice(numbers, group.count))))
        for group in groups
    ]


def resource_config(current: str, placed: Sequence[Placed]) -> dict[str, Any]:
    """resourceconfig.json of one host."""
    own = next(each for each in placed if current in each.hosts)
    return {
        "current_host": current,
        "current_instance_type": own.group.instance_type,
        "current_group_name": own.group.name,
        "hosts": sorted(host for each in placed for host in each.hosts),
        "instance_groups": [
            {
                "instance_group_name": each.group.name,
                "instance_type": each.group.instance_type,
                "hosts": list(each.hosts),
            }
            for each in placed
        ],
        "network_interface_name": "eth0",
    }


def faults(groups: Sequence[InstanceGroup]) -> Iterator[Fault]:
    """What the service refuses of a heterogeneous cluster."""
    if len(groups) > MOST_GROUPS:
        yield Fault(f"{len(groups)} instance groups", f"SageMaker takes {MOST_GROUPS} at most")
    names = [group.name for group in groups]
    for group in groups:
        if not 1 <= len(group.name) <= LONGEST_NAME:
            yield Fault(f"instance group {group.name!r}", f"a name has 1 to {LONGEST_NAME} characters")
        if group.count < 1:
            yield Fault(f"instance group {group.name}: {group.count} instances", "give 1 or more")
    for name in sorted(set(names)):
        if names.count(name) > 1:
            yield Fault(f"instance group {name!r} is given twice", "give each group a name of its own")
