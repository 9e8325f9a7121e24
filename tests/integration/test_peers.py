"""A second opinion: container-structure-test and hadolint say of images and Dockerfiles what our checks say, where both
look. tests/integration/peers/ holds what they are asked.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slipway import process, settings
from slipway.records import Records
from slipway.spec import load
from slipway.spec.select import Selector, select
from slipway.verify import contract as contracts

pytestmark = pytest.mark.integration

PROJECT = Path(__file__).parents[2]
PEERS = PROJECT / "tests/integration/peers"
BIN = Path(sys.executable).parent  # where the locked packages put their programs
BROKEN = {"programs.train", "labels.present", "files.leftovers"}

Build = Callable[[str], str]


@pytest.fixture(scope="module")
def image() -> str:
    """The training image without a framework, the one that starts most quickly: `invoke build` comes first."""
    (cell, *_) = select(load.load(PROJECT), Selector(framework="base", scope="training"))
    return Records(settings.read(project=PROJECT).state).build_of(cell.id).reference


@pytest.fixture(scope="module")
def build(image: str) -> Iterator[Build]:
    """Builds a Dockerfile of the folder on the good image; they go at the end."""
    repository, made = f"slipway-peers-{secrets.token_hex(4)}", []

    def make(name: str) -> str:
        reference = f"{repository}:{name.lower()}"
        options = ["--quiet", "--provenance=false", "--load", "--build-arg", f"IMAGE={image}", "--tag", reference]
        process.run(["docker", "buildx", "build", *options, "--file", PEERS / f"{name}.Dockerfile", PEERS])
        made.append(reference)
        return reference

    yield make
    if made:
        process.run(["docker", "image", "rm", "--force", *made], check=False)


def theirs(image: str) -> dict[str, bool]:
    """What container-structure-test says, by the ID of our check."""
    program = BIN / "container-structure-test"
    config = PEERS / "training.yaml"
    answer = process.run([program, "test", "--image", image, "--config", config, "--output", "json"], check=False)
    results = json.loads(answer.stdout)["Results"]
    return {_id(result["Name"]): bool(result["Pass"]) for result in results}


def _id(name: str) -> str:
    """`Command Test: programs.shell`; a test of metadata has no name."""
    return "labels.present" if name == "Metadata Test" else name.rpartition(": ")[2]


def ours(image: str, ids: list[str], state: Path) -> dict[str, bool]:
    """What our checks say of the same."""
    wanted = [word for id in ids for word in ("--check", id)]
    done = subprocess.run(
        [sys.executable, "-m", "invoke", "verify", "--image", image, "--json", *wanted],
        cwd=PROJECT,
        env={**os.environ, "SLIPWAY_STATE": str(state)},
        capture_output=True,
        text=True,
        check=False,
    )
    (verdict,) = json.loads(done.stdout)
    return {check["id"]: check["status"] == "passed" for check in verdict["checks"] if check["id"] in ids}


@pytest.mark.slow
def test_container_structure_test_agrees(image: str, build: Build, tmp_path: Path) -> None:
    known = {check.id for check in contracts.load(PROJECT, "training").checks}
    for one, wrong in ((image, set[str]()), (build("broken"), BROKEN)):
        said = theirs(one)
        assert len(said) >= 7 and said.keys() <= known
        assert {id for id, passed in said.items() if not passed} == wrong
        assert ours(one, list(said), tmp_path) == said


@pytest.mark.parametrize(
    ("rule", "check"),
    [pytest.param("DL3009", "files.leftovers"), pytest.param("DL3025", "ending.stop", marks=pytest.mark.slow)],
)
def test_what_hadolint_finds_in_a_dockerfile_our_check_finds_in_its_image(
    rule: str, check: str, build: Build, tmp_path: Path
) -> None:
    answer = process.run([BIN / "hadolint", "--format", "json", PEERS / f"{rule}.Dockerfile"], check=False)
    assert [found["code"] for found in json.loads(answer.stdout)] == [rule]
    assert ours(build(rule), [check], tmp_path) == {check: False}
