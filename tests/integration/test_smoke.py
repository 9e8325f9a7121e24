"""`invoke smoke` from outside: real images pass on the CPU, each broken framework fails the step that it breaks, and a
GPU that is not there is no verdict.

A mutant breaks one thing of a framework in an image that is whole otherwise, tests/smoke/mutants/<module>-<step>.py.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slipway import process, settings
from slipway.records import Build, Records
from slipway.spec import load
from slipway.spec.select import Selector, select
from slipway.verify import contract as contracts
from slipway.verify import smoke_hash

pytestmark = pytest.mark.integration

PROJECT = Path(__file__).parents[2]
STEPS = [check.id for check in contracts.steps(PROJECT).checks]
MUTANTS = sorted(path.stem for path in (PROJECT / "tests/smoke/mutants").glob("*-*.py"))
NO_TRANSFORMERS = {"serving.pipeline"}
# No image has a compiler, and MXNet's has neither Triton nor XLA.
NOT_RUN = {
    "pytorch": {"compiling.code", *NO_TRANSFORMERS},
    "tensorflow": NO_TRANSFORMERS,
    "mxnet": {"compiling.code", "device.memory", "device.transfer", *NO_TRANSFORMERS},
    "huggingface-pytorch": {"compiling.code"},
    "huggingface-tensorflow": set[str](),
}
MODULES = {"torch": "pytorch", "tensorflow": "tensorflow", "mxnet": "mxnet"}


def built(framework: str) -> Build:
    """The newest build of a framework's training image: `invoke build` comes first."""
    (cell, *_) = select(load.load(PROJECT), Selector(framework=framework, scope="training"))
    return Records(settings.read(project=PROJECT).state).build_of(cell.id)


class Answer:
    """How a command ended, and what it said."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    @property
    def run(self) -> dict[str, Any]:
        (one,) = json.loads(self.out)["run"]
        return dict(one)

    @property
    def outcomes(self) -> dict[str, str]:
        return {step["id"]: step["status"] for step in self.run["steps"]}


Invoke = Callable[..., Answer]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder of its own, which knows the builds."""
    folder = tmp_path / "state"
    shutil.copytree(settings.read(project=PROJECT).state / "builds", folder / "builds")
    return folder


@pytest.fixture
def invoke(state: Path) -> Invoke:
    def run(*words: str) -> Answer:
        command = [sys.executable, "-m", "invoke", "smoke", *words]
        env = {**os.environ, "SLIPWAY_STATE": str(state)}
        return Answer(subprocess.run(command, cwd=PROJECT, env=env, capture_output=True, text=True, check=False))

    return run


@pytest.fixture(scope="module")
def mutate() -> Iterator[Callable[[str], str]]:
    """Builds the image of a mutant; they go at the end."""
    repository, made = f"slipway-smoke-mutant-{secrets.token_hex(4)}", []
    folder = PROJECT / "tests/smoke/mutants"

    def build(mutant: str) -> str:
        module, _, step = mutant.partition("-")
        framework = MODULES[module] if step not in NO_TRANSFORMERS else f"huggingface-{MODULES[module]}"
        reference = f"{repository}:{mutant}"
        arguments = [f"--build-arg=IMAGE={built(framework).reference}", f"--build-arg=MUTANT={mutant}"]
        options = ["--quiet", "--provenance=false", "--load", "--tag", reference]
        process.run(["docker", "buildx", "build", *options, *arguments, folder])
        made.append(reference)
        return reference

    yield build
    if made:
        process.run(["docker", "image", "rm", "--force", *made], check=False)


@pytest.mark.parametrize(
    "framework",
    ["pytorch", *(pytest.param(name, marks=pytest.mark.slow) for name in NOT_RUN if name != "pytorch")],
)
def test_a_good_image_passes_on_the_cpu(framework: str, invoke: Invoke, state: Path) -> None:
    build = built(framework)
    answer = invoke("--only", build.image, "--json")
    assert answer.code == 0, answer.err + answer.out
    wanted = {step: "skipped" if step in NOT_RUN[framework] else "passed" for step in STEPS}
    assert answer.outcomes == wanted
    for step in answer.run["steps"]:
        if step["status"] == "passed":
            assert step["numbers"]["device"] and step["numbers"]["framework"]
        else:
            assert step["detail"]
    records = Records(state)
    filed = records.smoke_of(build.config_digest, smoke_hash(PROJECT), "cpu")
    assert filed is not None and filed.passed and filed.at == answer.run["at"]
    assert records.smoke_of(build.config_digest, smoke_hash(PROJECT)) is None


def test_a_broken_framework_fails_the_step_and_is_not_filed(
    invoke: Invoke, mutate: Callable[[str], str], state: Path
) -> None:
    step = "training.step"
    answer = invoke("--image", mutate(f"mxnet-{step}"), "--step", step, "--json")
    assert answer.outcomes == {step: "failed"}, answer.err
    assert answer.code == 8 and step in answer.err
    assert "the loss is" in answer.run["steps"][0]["detail"]
    assert not (state / "smokes").exists(), "a part proves nothing"


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_fails_the_step_that_it_breaks(mutant: str, mutate: Callable[[str], str]) -> None:
    step = mutant.partition("-")[2]
    # Without the command, which reads the whole image for its digest.
    options = ["--inside", mutate(mutant), "--device", "cpu", "-k", f"test_{step.replace('.', '_')}", "-rA"]
    answer = process.run([sys.executable, "-m", "pytest", "tests/smoke", *options], cwd=PROJECT, check=False)
    # To pytest, a step that broke before there was anything to judge is an error.
    found = {word: int(count) for count, word in re.findall(r"(\d+) (\w+)", answer.stdout.splitlines()[-1])}
    assert answer.code == 1 and found.get("deselected") == len(STEPS) - 1, answer.stdout
    assert found.get("failed", 0) + found.get("error", 0) == 1, answer.stdout


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this host has a GPU")
def test_no_gpu_is_not_run_and_nothing_is_filed(invoke: Invoke, state: Path) -> None:
    answer = invoke("--only", built("pytorch").image, "--device", "cuda")
    assert answer.code == 23 and "NOT RUN on cuda" in answer.err and "Traceback" not in answer.err
    assert "passed" not in answer.out
    assert not (state / "smokes").exists()


def test_what_cannot_be_tried_is_said(invoke: Invoke) -> None:
    no_framework = invoke("--framework", "base", "--scope", "training")
    assert no_framework.code == 16 and "no framework is installed" in no_framework.err
    no_step = invoke("--only", built("pytorch").image, "--step", "numerics.precison")
    assert no_step.code == 2 and "numerics.precision" in no_step.err
    no_device = invoke("--only", built("pytorch").image, "--device", "gpu")
    assert no_device.code == 2 and "cuda" in no_device.err
