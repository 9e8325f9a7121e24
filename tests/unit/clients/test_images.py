"""What is known of an image by its name, its push and its labels."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from slipway import cuda
from slipway.clients import images, instances
from slipway.clients.accelerate import Config
from slipway.errors import NotFoundError

from .conftest import OURS, pushed


def test_a_name_in_the_grammar_says_much() -> None:
    reference = (
        "763104351884.dkr.ecr.us-east-1.amazonaws.com/huggingface-pytorch-training"
        ":2.8.0-transformers4.56.2-gpu-py312-cu129-ubuntu22.04"
    )
    assert images.facts(reference, ()) == images.Facts(
        reference=reference,
        framework="huggingface-pytorch",
        scope="training",
        version="2.8.0",
        transformers="4.56.2",
        processor="gpu",
        python="py312",
        cuda="12.9",
        region="us-east-1",
    )


@pytest.mark.parametrize("reference", ["mine", "host:5000/mine", "host/mine:latest", "host/mine@sha256:" + "a" * 64])
def test_other_names_say_nothing(reference: str) -> None:
    found = images.facts(reference, ())
    assert (found.version, found.processor, found.ours) == ("", "", False)


def test_an_image_is_ours_by_its_push_under_every_name_of_it() -> None:
    push = pushed()
    names = [
        push.uri,
        push.uri.replace("-debian12-v1", ""),
        f"{push.registry}/{push.repository}@{push.manifest_digest}",
    ]
    for name in names:
        found = images.facts(name, [push])
        assert (found.ours, found.version, found.reference) == (True, "2.13.0", name)
    assert not images.facts(OURS.replace("-debian12-v1", "-ubuntu24.04"), [push]).ours


@pytest.mark.parametrize("end", ["-debian12", "-debian12-v3", "-debian13-arm64-v1", "-debian12-dev"])
def test_an_image_is_ours_by_its_whole_tag(end: str) -> None:
    assert images.facts(f"host/team/pytorch-training:2.13.0-cpu-py311{end}", ()).ours
    assert not images.facts(f"host/team/pytorch:2.13.0-cpu-py311{end}", ()).ours


def test_an_image_is_ours_by_its_label() -> None:
    labels = {images.OURS: "true", cuda.ARCHITECTURES: "sm_80 compute_90"}
    found = images.facts("mine", (), lambda reference: labels)
    assert found.ours
    assert found.architectures == ("sm_80", "compute_90")


def test_the_newest_image_that_fits() -> None:
    pushes = [pushed("2.9.1", 3), pushed("2.13.0", 1), pushed("2.13.0", 2), pushed("2.13.0", 4, framework="tensorflow")]
    assert images.newest(Config(), pushes).tag.startswith("2.13.0-cpu-py311-debian12-v2")
    chosen = Config(pytorch_version="2.9", given=frozenset({"pytorch_version"}))
    assert images.newest(chosen, pushes).version == "2.9.1"


def test_the_versions_that_accelerate_writes_are_nobodys_choice() -> None:
    given = frozenset({"pytorch_version", "transformers_version", "py_version"})
    assert images.newest(Config(given=given), [pushed()]).version == "2.13.0"


def test_processor_and_region_decide_among_equals() -> None:
    gpu, other = pushed("2.12.0", processor="gpu"), pushed("2.13.0", region="eu-west-1")
    pushes = [pushed("2.11.0"), gpu, other]
    assert images.newest(Config(ec2_instance_type="ml.p4d.24xlarge"), pushes) == gpu
    assert images.newest(Config(ec2_instance_type="ml.m5.xlarge", region="eu-west-1"), pushes) == other
    assert images.newest(Config(ec2_instance_type="ml.m5.xlarge"), pushes).version == "2.11.0"


def test_nothing_fits() -> None:
    chosen = Config(py_version="py39", given=frozenset({"py_version"}))
    with pytest.raises(NotFoundError, match="no pushed image fits"):
        images.newest(chosen, [pushed()])


@pytest.mark.parametrize(
    ("instance", "architectures", "cuda", "runs"),
    [
        ("ml.p3.2xlarge", (), "13.0", False),
        ("ml.p3.2xlarge", (), "12.6", True),
        ("ml.g4dn.xlarge", (), "13.0", True),
        ("ml.p3.2xlarge", ("sm_70",), "13.0", True),
        ("ml.g5.xlarge", ("sm_80",), "", True),  # sm_80 runs on sm_86
        ("ml.g5.xlarge", ("sm_89",), "", False),
        ("ml.p5.48xlarge", ("sm_80",), "", False),
        ("ml.p5.48xlarge", ("sm_80", "compute_80"), "", True),
        ("ml.p5.48xlarge", ("sm_90a",), "", True),
    ],
)
def test_what_cuda_code_runs_on(instance: str, architectures: tuple[str, ...], cuda: str, runs: bool) -> None:
    gpu = instances.gpu(instance)
    assert gpu is not None
    assert instances.runs(gpu, architectures, cuda) is runs


@pytest.mark.parametrize(
    ("instance", "gpu", "cpu_only"),
    [
        ("ml.p3.16xlarge", True, False),
        ("ml.p6-b200.48xlarge", True, False),
        ("ml.m5.xlarge", False, True),
        ("ml.c7i.large", False, True),
        ("ml.t3.medium", False, True),
        ("ml.trn1.32xlarge", False, False),
        ("local", False, False),
    ],
)
def test_which_instances_have_gpus(instance: str, gpu: bool, cpu_only: bool) -> None:
    assert bool(instances.gpu(instance)) is gpu
    assert instances.cpu_only(instance) is cpu_only


def test_the_instances_with_efa_are_those_that_the_toolkit_knows() -> None:
    path = Path(__file__).parents[3] / "toolkits/training/src/sagemaker_training/fabric.py"
    fabric = runpy.run_path(str(path))
    types = [f"ml.{family}.{size}" for family, sizes in fabric["_EFA"].items() for size in sizes]
    others = ["ml.g5.xlarge", "ml.p4d.2xlarge", "ml.m5.24xlarge", "local", "ml.p5"]
    assert {name for name in [*types, *others] if instances.efa(name)} == set(types)
    assert not any(fabric["has_efa"](name) for name in others)


@pytest.mark.parametrize(
    ("hosts", "instance", "labels", "warned"),
    [
        (2, "ml.p4d.24xlarge", {}, True),
        (2, "ml.p4d.24xlarge", {images.EFA: "true"}, False),
        (1, "ml.p4d.24xlarge", {}, False),
        (2, "ml.p3.16xlarge", {}, False),
    ],
)
def test_hosts_that_could_use_efa_are_warned_of(
    hosts: int, instance: str, labels: dict[str, str], warned: bool
) -> None:
    reference = OURS.replace("2.13.0-cpu", "2.7.1-gpu").replace("py311-", "py311-cu126-")
    found = images.facts(reference, (), lambda name: labels)
    told = images.warnings(found, Config(num_machines=hosts, given=frozenset()), instance)
    assert any("EFA" in what and "examples/efa" in fix for _, what, fix in told) is warned
