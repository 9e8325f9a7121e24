"""Stacks that stand on another framework's: what they take over, what they add, and which layers images share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from slipway import base, build, lock, plan, render, settings
from slipway.errors import SpecError
from slipway.plan import Plan
from slipway.spec import load
from slipway.spec.model import Image
from slipway.spec.select import Selector, select

from .conftest import SPEC, lock_all

UPPER = """\
framework: upper
family: tall
toolkits:
  training: [more]
environment:
  training: {UPPER: "1"}
stacks:
  "5.1":
    stands-on: {framework: small, stack: "1.2"}
    library: extra==5.1.0
    scopes: [training]
    packages:
      common: [helper]
      training: [tables]
    system-packages:
      training: [make]
"""
LOWER = SPEC.replace("    scopes: [training]\n", "    scopes: [training]\n    system-packages: {training: [git]}\n", 1)
ID = "upper-training-1.2.0-extra5.1.0-cpu-py311"
STACK = "upper-1.2.0-extra5.1.0-cpu-py311"
BELOW = "small-1.2.0-cpu-py311"

Write = Callable[[str, str], Path]


@pytest.fixture
def tall(project: Path, write: Write) -> Path:
    write("toolkits/more/pyproject.toml", '[project]\nname = "more"\n')
    write("buildspec/small.yml", LOWER)
    write("buildspec/upper.yml", UPPER)
    lock_all(project)
    return project


def planned(project: Path) -> Plan:
    return plan.plan(load.load(project).buildable, load.read_sources(project), {"debian12": base.of("debian12")})


def cell(project: Path) -> Image:
    return next(image for image in load.load(project).images if image.id == ID)


def test_it_takes_over_all_that_it_does_not_add_to(tall: Path) -> None:
    image = cell(tall)
    assert image.tag == "1.2.0-extra5.1.0-cpu-py311-debian12"
    assert image.repository == "upper-training"
    assert image.toolkits == ("training", "more")
    assert image.system_packages == ("git", "make")
    assert image.environment == {"UPPER": "1"}
    assert image.packages == {"common": ("extra==5.1.0", "helper"), "training": ("boto3", "tables")}
    assert image.wheel_index == "https://wheels.example/cpu"
    assert [cell.framework for cell in image.ground] == ["small", "upper"]
    excluded = [image.excluded for image in load.load(tall).images if image.framework == "upper" and image.excluded]
    assert excluded == ["stands on an excluded image: no machine of this architecture builds here"]


def test_its_locks_are_bound_by_those_below(tall: Path) -> None:
    parts = {part.name: part for part in lock.parts(cell(tall))}
    assert list(parts) == [f"{BELOW}/common", f"{STACK}/common", f"{STACK}/training"]
    assert parts[f"{STACK}/common"].under == (f"{BELOW}/common",)
    assert parts[f"{STACK}/training"].under == (f"{BELOW}/common", f"{STACK}/common")
    assert "pip" not in parts[f"{STACK}/common"].requirements


def test_it_shares_the_layers_below(tall: Path) -> None:
    made = planned(tall)
    image = next(image for image in made.images if image.id == ID)
    names = [stage.name for stage in made.chain(image)]
    assert names[:4] == ["base-debian12", "python-debian12-py311", BELOW, STACK]
    assert names[4:] == [f"{STACK}-training-system", f"{STACK}-training", ID]
    assert {image.framework for image in made.shared(made.stage(BELOW))} == {"small", "upper"}


def test_equal_debian_packages_are_one_stage(tall: Path, write: Write) -> None:
    def debian() -> list[str]:
        return [stage.name for stage in planned(tall).stages if stage.template.startswith("debian")]

    assert len(debian()) == 2
    write("buildspec/upper.yml", UPPER.replace("training: [make]", "training: []"))
    assert len(debian()) == 1


def test_a_familys_name_means_all_its_frameworks(tall: Path, write: Write) -> None:
    write("buildspec/other.yml", UPPER.replace("framework: upper", "framework: other"))
    matrix = load.load(tall)
    chosen = select(matrix, Selector(framework="tall"))
    assert [image.framework for image in chosen] == ["other", "upper"]
    for version in ("5.1", "5.1.0", "1.2.0", "1.2.0-extra5.1.0"):
        assert select(matrix, Selector(framework="upper", version=version)) == chosen[1:]


def test_the_newest_stack_is_that_of_each_processor(project: Path, write: Write) -> None:
    write(
        "buildspec/small.yml",
        SPEC.replace("cpu:\n        architectures: [amd64, arm64]", 'gpu: {cuda: "13.0", cuda-architectures: [sm_80]}'),
    )
    write("buildspec/small.yml", (project / "buildspec/small.yml").read_text().split("excluded:")[0])
    newest = {image.version: image.newest for image in load.load(project).images}
    assert newest == {"1.2.0": True, "1.1.0": True}


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("framework: small", "framework: smal", "there is no framework 'smal' (fix: did you mean small?)"),
        ('stack: "1.2"', 'stack: "1.3"', "small has no stack '1.3' (fix: did you mean 1."),
        ("    library", "    version: 1.2.0\n    library", "version is that of the stack that this one stands on"),
        ("    library", '    python: ["3.12"]\n    library', "the stack below has no Python 3.12 (fix: it has 3.11)"),
        ("scopes: [training]", "scopes: [inference]", "the stack below has no inference images"),
        ("extra==5.1.0", "extra", "'extra' is not a package with its version"),
        ("{framework: small, ", "{framework: upper, ", "upper has no stack '1.2'"),
    ],
)
def test_a_fault_of_the_ground_is_told(tall: Path, write: Write, old: str, new: str, told: str) -> None:
    path = write("buildspec/upper.yml", UPPER.replace(old, new, 1))
    with pytest.raises(SpecError) as caught:
        load.load(tall)
    assert any(told in str(fault) for fault in caught.value.faults), [str(fault) for fault in caught.value.faults]
    assert all(fault.file == f"buildspec/{path.name}" and fault.line for fault in caught.value.faults)


def test_chosen_packages_get_layers_of_their_own(project: Path, write: Write) -> None:
    spec = SPEC.replace("[amd64, arm64]\n", '[amd64, arm64]\n        layers: [["num*"], [small]]\n')
    write("buildspec/small.yml", spec)
    made = planned(project)
    image = next(image for image in made.images if image.version == "1.2.0")
    pins = {stage.name: [line for line in stage.pins.splitlines() if "==" in line] for stage in made.chain(image)}
    assert [line.split("==")[0] for name in (f"{BELOW}-1", f"{BELOW}-2", BELOW) for line in pins[name]] == [
        "numpy",
        "small",
        "pip",
    ]
    write("buildspec/small.yml", spec.replace("num*", "nump"))
    with pytest.raises(SpecError, match="layers name nump, which none of its locks holds"):
        planned(project)


def test_what_is_left_out_goes_where_its_package_comes(project: Path, write: Write) -> None:
    spec = SPEC.replace(
        "[training]\n    packages", "[training]\n    leave-out: {boto3: [boto3/x], numpy: [n/t]}\n    packages", 1
    )
    write("buildspec/small.yml", spec)
    left = {stage.name: stage.values["leave_out"] for stage in planned(project).stages if "leave_out" in stage.values}
    assert left[BELOW] == ["n/t"]
    assert left[f"{BELOW}-training"] == ["boto3/x"]
    write("buildspec/small.yml", spec.replace("leave-out: {boto3:", "leave-out: {boto4:"))
    with pytest.raises(SpecError, match="leave-out names boto4") as caught:
        planned(project)
    assert "boto3" in str(caught.value)


def test_every_target_can_give_the_secrets_of_the_stages_below(tall: Path) -> None:
    made, sources = planned(tall), load.read_sources(tall)
    rendering, _ = build.rendering(made, sources, settings.read(project=tall))
    targets = json.loads(rendering.files["docker-bake.json"])["target"]
    for stage in made.stages:
        given = {secret.split(",")[0] for secret in targets[render.target_name(stage.name)].get("secret", [])}
        below = {f"id=host-{each.name}" for each in made.below(stage) if each.needs_host}
        assert given == (below | {"id=ca"} if below else set())


@pytest.mark.parametrize("toolkit", ["none", "aws"])
def test_a_stack_may_leave_the_toolkits_out(tall: Path, write: Write, toolkit: str) -> None:
    environment = "environment:\n  training: {SAGEMAKER_TRAINING_MODULE: small.training:main, SMALL: x}\n"
    write("buildspec/small.yml", LOWER.replace("stacks:", f"{environment}stacks:"))
    write("buildspec/upper.yml", UPPER.replace("    library:", f"    toolkit: {toolkit}\n    library:"))
    lock_all(tall)
    image = cell(tall)
    assert image.toolkits == ()
    assert ("SAGEMAKER_TRAINING_MODULE" in image.environment) == (toolkit == "aws"), "whose modules have these names"
    assert {"SMALL", "UPPER"} <= image.environment.keys()
    made, sources = planned(tall), load.read_sources(tall)
    rendering, _ = build.rendering(made, sources, settings.read(project=tall))
    text = rendering.files[f"{ID}/Dockerfile"].decode()
    assert "find-links" not in text and "from=tools" not in text
    assert "/run/files/licences.py > /license.txt" in text
    assert ('CMD ["train"]' in text) == (toolkit == "aws"), "nothing answers to it otherwise"
    below = rendering.files["small-training-1.2.0-cpu-py311/Dockerfile"].decode()
    assert 'CMD ["train"]' in below and "find-links" in below


def test_what_people_miss_is_told_with_its_reason(tall: Path, write: Write) -> None:
    said = "    without:\n      tables-gpu: made for other machines alone\n"
    write("buildspec/small.yml", LOWER.replace("    packages:\n", f"{said}    packages:\n", 1))
    assert cell(tall).without == {"tables-gpu": "made for other machines alone"}, "those who stand on it miss it too"
    planned(tall)
    write("buildspec/upper.yml", UPPER.replace("    packages:\n", f"{said.replace('-gpu', '')}    packages:\n", 1))
    with pytest.raises(SpecError) as caught:
        planned(tall)
    assert [fault.what for fault in caught.value.faults] == [f"{ID}: without names tables, which its locks hold"]
