"""What the options of a job's machines may say."""

from __future__ import annotations

import pytest

from slipway.commands import resources
from slipway.emulator.cluster import InstanceGroup
from slipway.engine.docker import Ulimit
from slipway.errors import InputError


def test_groups() -> None:
    assert resources.instance_groups("") == ()
    assert resources.instance_groups("data=ml.c5.xlarge:2, train=ml.g5.xlarge:1") == (
        InstanceGroup("data", "ml.c5.xlarge", 2),
        InstanceGroup("train", "ml.g5.xlarge", 1),
    )


def test_every_group_that_is_none_is_named() -> None:
    with pytest.raises(InputError) as refused:
        resources.instance_groups("data,train=ml.g5.xlarge:two,a=b:1")
    assert [fault.what for fault in refused.value.faults] == [
        "--instance-groups: 'data' is no group",
        "--instance-groups: 'train=ml.g5.xlarge:two' is no group",
    ]


@pytest.mark.parametrize(("text", "value"), [("512m", 512 << 20), ("8G", 8 << 30), ("64k", 64 << 10), ("100", 100)])
def test_sizes(text: str, value: int) -> None:
    assert resources.size(text) == value


@pytest.mark.parametrize("text", ["", "0", "m", "1.5g", "-1", "2gb", "2t"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(InputError, match="is no size"):
        resources.size(text)


def test_limits() -> None:
    given = ["nofile=1000:2000", "memlock=-1", "nproc=64:-1"]
    assert resources.ulimits(given) == (
        Ulimit("nofile", 1000, 2000),
        Ulimit("memlock", -1, -1),
        Ulimit("nproc", 64, -1),
    )


def test_every_limit_that_is_none_is_named() -> None:
    with pytest.raises(InputError) as refused:
        resources.ulimits(["nofiles=1", "nofile=x", "nproc=1", "nproc=2"])
    assert [str(fault) for fault in refused.value.faults] == [
        "--ulimit nofiles=1: no limit is called 'nofiles' (fix: did you mean nofile or nice?)",
        "--ulimit 'nofile=x' is no limit (fix: write NAME=SOFT:HARD, as nofile=1024:65536)",
        "--ulimit nproc is given twice (fix: keep one)",
    ]


@pytest.mark.parametrize("name", ["..", "a/b", "-a", "a" * 64])
def test_a_pools_name_is_no_path(name: str) -> None:
    with pytest.raises(InputError, match="is no name"):
        resources.pool(name)
    assert resources.pool("mine-2") == "mine-2"
