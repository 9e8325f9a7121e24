"""Configurations whose faults have one remedy only."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipway.clients import accelerate, mending

from .conftest import CONFIG

BROKEN = """\
compute_environment: amazon_sagemaker
distributed_type: NO
ec2_instance_type: ml.m5.xlarge
iam_role_name: X
imgae_uri: mine
num_processes: 1
mixed_precision: no
num_machines: two
"""


@pytest.mark.parametrize("suffix", [".yaml", ".json"])
def test_what_is_certain_is_mended_and_the_rest_stays(suffix: str) -> None:
    data = accelerate.parse(Path("config.yaml"), BROKEN).document.data
    text, done = mending.mend(Path("fixed" + suffix), data)
    assert done == [
        "compute_environment: 'amazon_sagemaker' written as 'AMAZON_SAGEMAKER'",
        "distributed_type: False written as 'NO'",
        "imgae_uri renamed to image_uri",
        "num_processes removed",
        "mixed_precision: False written as 'no'",
    ]
    found = accelerate.parse(Path("fixed" + suffix), text)
    assert [fault.what for fault in found.faults] == ["num_machines: 'two' is not a whole number"]
    assert (found.config.image_uri, found.config.distributed_type) == ("mine", "NO")


def test_what_is_right_stays_as_it_is() -> None:
    data = {**CONFIG, "image_uri": None, "fp16": True}
    text, done = mending.mend(Path("c.yaml"), data)
    assert done == []
    assert accelerate.parse(Path("c.yaml"), text).document.data == data


def test_a_name_that_is_taken_is_not_given_twice() -> None:
    text, done = mending.mend(Path("c.yaml"), {"image_uri": "a", "imgae_uri": "b"})
    assert (text, done) == ("image_uri: a\n", ["imgae_uri removed"])
