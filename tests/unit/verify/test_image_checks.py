"""Checks of images that no image of the engine can be made to fail cheaply: given what a look inside one has found."""

from __future__ import annotations

from typing import Any, cast

import pytest

from slipway.engine.docker import Engine
from slipway.verify.inspection import Inspection
from tests.contract import test_labels, test_size

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


class Scales:
    """An engine that has one image, of these layers (MB, newest first), pulled at a third of that."""

    def __init__(self, *layers: int) -> None:
        self.layers = [layer * 1_000_000 for layer in layers]

    def layer_sizes(self, reference: str) -> list[int]:
        return self.layers

    def image(self, reference: str) -> dict[str, Any]:
        return {"Size": sum(self.layers) // 3}

    def info(self) -> dict[str, Any]:
        return {"DriverStatus": [["driver-type", "io.containerd.snapshotter.v1"]]}


def weighed(kind: str, *layers: int, title: str = "mine", **packages: str) -> str:
    """What size.fits says of an image; empty: nothing is wrong."""
    engine, config = cast(Engine, Scales(*layers)), {"Labels": {"org.opencontainers.image.title": title}}
    try:
        test_size.test_size_fits(engine, "mine", config, Inspection(facts=facts(**packages)), kind)
    except AssertionError as failed:
        return str(failed)
    return ""


@pytest.mark.parametrize("kind", ["inference", "tensorflow-inference"])
def test_the_size_of_any_image_is_held_to_what_services_take(kind: str) -> None:
    assert "serverless inference takes no image over 10000 MB" in weighed(kind, 5_000, 5_001)
    assert weighed(kind, 5_000, 5_001, nvidia_cuda_runtime="13.0.96") == ""
    assert weighed("training", 5_000, 5_001) == ""
    assert "ECR takes no layer over" in weighed("training", 60_000)


def test_a_cell_is_held_to_both_of_its_ceilings() -> None:
    cell = "pytorch-inference-2.13.0-cpu-py311"
    assert weighed("inference", 700, title=cell) == ""
    assert "takes 900 MB" not in weighed("inference", 900, title=cell)
    assert "takes 300 MB compressed, over its ceiling of 295 MB" in weighed("inference", 900, title=cell)
    both = weighed("inference", 1_200, title=cell)
    assert "takes 1200 MB unpacked, over its ceiling of 1150 MB" in both and "takes 400 MB compressed" in both
