"""Checks of images that no image of the engine can be made to fail cheaply: given what a look inside one has found."""

from __future__ import annotations

from typing import Any

import pytest

from slipway.verify.inspection import Inspection
from tests.contract import test_labels

FAMILY = "com.amazonaws.ml.engines.sagemaker.dlc"
TAG = "2.14.1-gpu-py311-cu130-debian12"


def facts(**packages: str) -> dict[str, Any]:
    """What a look into a GPU image tells, with these packages."""
    held = {"torch": "2.14.1", **{name.replace("_", "-"): version for name, version in packages.items()}}
    return {
        "python": "3.11.2",
        "os": "debian12",
        "machine": "x86_64",
        "packages": held,
        "cuda_architectures": [],
    }


def labelled(found: dict[str, Any], tag: str, *labels: str) -> str:
    """What labels.true says of an image; empty: nothing is wrong."""
    named = {"org.opencontainers.image.version": tag, **{f"{FAMILY}.{label}": "true" for label in labels}}
    try:
        test_labels.test_labels_true({"Labels": named}, Inspection(facts=found), f"mine:{tag}-dev", "training")
    except AssertionError as failed:
        return str(failed)
    return ""


@pytest.mark.parametrize("runtime", ["nvidia_cuda_runtime", "nvidia_cuda_runtime_cu13"])
def test_the_cuda_of_tag_and_labels_is_that_of_the_runtime(runtime: str) -> None:
    assert labelled(facts(**{runtime: "13.0.96"}), TAG, "device.gpu.cu130") == ""
    said = labelled(facts(nvidia_cuda_runtime_cu12="12.6.77"), TAG, "device.gpu.cu130").splitlines()
    assert [line.strip() for line in said[:3]] == [
        f"the label {FAMILY}.device.gpu.cu130 says device gpu.cu130, the image holds gpu.cu126",
        f"the label org.opencontainers.image.version {TAG} says device gpu.cu130, the image holds gpu.cu126",
        f"the tag {TAG}-dev says device gpu.cu130, the image holds gpu.cu126",
    ]
    # A minor is told apart as well as a major, and none at all is a CPU build.
    assert "holds gpu.cu131" in labelled(facts(nvidia_cuda_runtime="13.1.2"), TAG)
    assert "says device gpu, the image holds cpu" in labelled(facts(), TAG, "device.gpu")
    assert "holds cpu" in labelled(facts(), TAG)
