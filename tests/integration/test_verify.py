"""`invoke verify` from outside, on a real image: it passes, and each mutant of it fails exactly the check it names.

A mutant is a small change that a maintainer could commit, tests/contract/mutants/<check>[+variant].Dockerfile. The
checks know nothing of them.
"""

from __future__ import annotations

import ast
import json
import os
import re
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any
from xml.etree import ElementTree

import pytest

from slipway import process, settings
from slipway.engine import images
from slipway.engine.docker import Engine
from slipway.records import Records
from slipway.spec import load
from slipway.spec.select import Selector, select
from slipway.verify import contract as contracts

pytestmark = pytest.mark.integration

PROJECT = Path(__file__).parents[2]
CONTRACTS = {kind: contracts.load(PROJECT, kind) for kind in ("training", "inference", "tensorflow-inference")}
CELLS = {
    "training": Selector(framework="pytorch", scope="training"),
    "inference": Selector(framework="base", scope="inference"),
    "tensorflow-inference": Selector(framework="tensorflow", scope="inference"),
}
"""The image that stands for a kind: the one that people ask for first, and the one that starts most quickly."""
MUTANTS = sorted((PROJECT / "tests/contract/mutants").glob("*.Dockerfile"))


class Answer:
    """How a command ended, and what it said."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    @property
    def verdict(self) -> dict[str, Any]:
        (verdict,) = json.loads(self.out)
        return dict(verdict)

    @property
    def outcomes(self) -> dict[str, str]:
        return {check["id"]: check["status"] for check in self.verdict["checks"]}


Invoke = Callable[..., Answer]


@pytest.fixture
def invoke(tmp_path: Path) -> Invoke:
    """Runs an invoke command with a state folder of its own."""

    def run(*words: str, **environment: str) -> Answer:
        env = {**os.environ, "SLIPWAY_STATE": str(tmp_path / "state"), **environment}
        command = [sys.executable, "-m", "invoke", *words]
        return Answer(subprocess.run(command, cwd=PROJECT, env=env, capture_output=True, text=True, check=False))

    return run


def built(kind: str) -> str:
    """The newest build of the image that stands for a kind: `invoke build` comes first."""
    (cell, *_) = select(load.load(PROJECT), CELLS[kind])
    return Records(settings.read(project=PROJECT).state).build_of(cell.id).reference


@pytest.fixture(scope="module")
def image() -> str:
    return built("training")


def kind_of(mutant: Path) -> str:
    """The first kind that has the mutant's check: those of any image are tried on one that trains."""
    id = mutant.stem.partition("+")[0]
    return next(kind for kind, contract in CONTRACTS.items() if any(check.id == id for check in contract.checks))


@pytest.fixture(scope="module")
def mutate() -> Iterator[Callable[[Path], str]]:
    """Builds a mutant of an image; they go at the end."""
    repository, made = f"slipway-mutant-{secrets.token_hex(4)}", []

    def build(mutant: Path) -> str:
        reference = f"{repository}:{mutant.stem.replace('+', '_')}"
        options = ["--quiet", "--provenance=false", "--load", "--build-arg", f"IMAGE={built(kind_of(mutant))}"]
        process.run(["docker", "buildx", "build", *options, "--file", mutant, "--tag", reference, mutant.parent])
        made.append(reference)
        return reference

    yield build
    if made:
        process.run(["docker", "image", "rm", "--force", *made], check=False)


def containers(function: ast.FunctionDef) -> set[str]:
    """The fixtures that start a container among a check's arguments."""
    names = {argument.arg for argument in function.args.args}
    return {name for name in names if name in ("looked", "tried") or name.endswith(("job", "hosted", "ended"))}


CONTAINERS = {
    node.name: containers(node)
    for path in (PROJECT / "tests/contract").rglob("test_*.py")
    for node in ast.parse(path.read_text()).body
    if isinstance(node, ast.FunctionDef)
}


def neighbours(contract: contracts.Contract, id: str) -> list[str]:
    """All checks that look at the containers that a check and what it needs look at."""
    started = {name for check in contract.choose([id]) for name in CONTAINERS[check.function]}
    return [check.id for check in contract.checks if CONTAINERS[check.function] <= started]


# `check` verifies every image anyhow: one kind shows what a verdict is worth the second time.
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[] if kind == "inference" else [pytest.mark.slow]) for kind in CONTRACTS]
)
def test_a_good_image_passes_every_check_and_is_not_checked_twice(invoke: Invoke, kind: str, tmp_path: Path) -> None:
    image, contract = built(kind), CONTRACTS[kind]
    files = ["--junit", str(tmp_path / "junit.xml"), "--html", str(tmp_path / "report.html")]
    first = invoke("verify", "--image", image, "--json", *files)
    assert first.code == 0, first.err
    assert first.outcomes == {check.id: "passed" for check in contract.checks}
    assert first.verdict["passed"] and first.verdict["run_now"]
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot().find("testsuite")
    assert suite is not None and suite.get("tests") == str(len(contract.checks)) and suite.get("failures") == "0"
    page = (tmp_path / "report.html").read_text()
    assert all(f"<code>{check.id}</code>" in page for check in contract.checks) and "1 of 1 images passed" in page

    again = invoke("verify", "--image", image, "--json")
    assert again.code == 0 and not again.verdict["run_now"]
    assert again.verdict["at"] == first.verdict["at"]
    assert "not run again" in again.err


# Their mutants start a server or a job each, through parts that the mutants of the other groups go through as well.
SLOW_GROUPS = {
    *("accounts", "batches", "errors", "job", "model", "output", "packages", "requirements", "rest", "stopping"),
    *("streams", "types", "users"),
}


def tried() -> list[Any]:
    """Every mutant; most of them, beyond the first of some groups of checks, only when there is time for everything."""
    seen: set[str] = set()
    found = []
    for path in MUTANTS:
        group = path.stem.partition(".")[0]
        slow = group in seen or group in SLOW_GROUPS
        found.append(pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if slow else []))
        seen.add(group)
    return found


@pytest.mark.parametrize("mutant", tried())
def test_a_mutant_fails_its_check_alone(mutant: Path, invoke: Invoke, mutate: Callable[[Path], str]) -> None:
    id, contract = mutant.stem.partition("+")[0], CONTRACTS[kind_of(mutant)]
    wanted = [word for check in neighbours(contract, id) for word in ("--check", check)]
    answer = invoke("verify", "--image", mutate(mutant), "--json", *wanted)
    by_status = {status: {i for i, s in answer.outcomes.items() if s == status} for status in answer.outcomes.values()}
    assert by_status.pop("failed", set()) == {id}, json.dumps(answer.verdict["checks"], indent=1)
    blocked = by_status.pop("blocked", set())
    assert by_status.keys() <= {"passed"}
    assert {check["blocked_by"] for check in answer.verdict["checks"] if check["id"] in blocked} <= {id}
    assert answer.code == 8
    (failed,) = (check for check in answer.verdict["checks"] if check["id"] == id)
    assert failed["detail"]
    assert (failed["reason"], failed["fix"]) == (contract.check(id).reason, contract.check(id).fix)


def test_a_part_of_the_checks_files_no_verdict(invoke: Invoke, image: str, tmp_path: Path) -> None:
    answer = invoke("verify", "--image", image, "--json", "--check", "labels.few")
    assert answer.code == 0 and list(answer.outcomes) == ["labels.few"]
    assert Records(tmp_path / "state").verdicts() == []


def test_a_failure_is_filed_and_says_what_to_do(
    invoke: Invoke, mutate: Callable[[Path], str], engine: Engine, tmp_path: Path
) -> None:
    mutant = mutate(next(path for path in MUTANTS if path.stem == "programs.train+uninstalled"))
    answer = invoke("verify", "--image", mutant)
    assert answer.code == 8
    for said in (
        "failed programs.train",
        "the toolkit package slipway-training is not installed",
        CONTRACTS["training"].check("programs.train").fix,
        "blocked by programs.train",
    ):
        assert said in answer.out
    (verdict,) = Records(tmp_path / "state").verdicts()
    assert not verdict.passed and verdict.config_digest == images.config_digest(engine, mutant)
    again = invoke("verify", "--image", mutant)
    assert again.code == 8 and "not run again" in again.err and "failed programs.train" in again.out


def test_unknown_names_are_answered_with_the_nearest(invoke: Invoke, image: str) -> None:
    no_check = invoke("verify", "--image", image, "--check", "channel.content")
    assert no_check.code == 2 and "channels.content" in no_check.err
    no_cell = invoke("verify", "--only", "pytorch-training-2.13.0-cpu-py31")
    assert no_cell.code == 2 and "pytorch-training-2.13.0-cpu-py311" in no_cell.err
    not_built = invoke("verify", "--only", "pytorch-training-2.13.0-cpu-py311")
    assert not_built.code == 16 and "invoke build --only pytorch-training-2.13.0-cpu-py311" in not_built.err
    not_there = invoke("verify", "--image", "slipway-test/nothing:here")
    assert not_there.code == 16 and "docker pull slipway-test/nothing:here" in not_there.err
    for wrong in (["--image", image, "--framework", "pytorch"], ["--image", ""], ["--image", image, "--junit", "docs"]):
        answer = invoke("verify", *wrong)
        assert answer.code == 2 and "Traceback" not in answer.err


def test_no_engine_is_said_so(invoke: Invoke) -> None:
    answer = invoke("verify", "--image", "any", DOCKER_HOST="tcp://127.0.0.1:1")
    assert answer.code == 5 and "engine" in answer.err and "Traceback" not in answer.err


def test_nothing_is_left_behind(invoke: Invoke, mutate: Callable[[Path], str], tmp_path: Path) -> None:
    image = mutate(next(path for path in MUTANTS if path.stem == "labels.few"))
    assert invoke("verify", "--image", image, "--check", "job.completes").code == 0
    assert process.run(["docker", "ps", "--all", "--quiet", "--filter", f"ancestor={image}"]).stdout == ""
    left = sorted(path.relative_to(tmp_path).as_posix() for path in (tmp_path / "state").rglob("*") if path.is_file())
    assert all(re.fullmatch(r"state/logs/verify-[\w.-]+\.log", name) for name in left), left


def test_ctrl_c_in_a_job_files_nothing_and_leaves_nothing(mutate: Callable[[Path], str], tmp_path: Path) -> None:
    image = mutate(next(path for path in MUTANTS if path.stem == "labels.few"))
    command = [sys.executable, "-m", "invoke", "verify", "--image", image]
    env = {**os.environ, "SLIPWAY_STATE": str(tmp_path / "state")}
    with subprocess.Popen(command, cwd=PROJECT, env=env, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        # The checks of the files come last before the first job.
        said = "".join(iter_until(running.stderr, "files.leftovers"))
        running.send_signal(signal.SIGINT)
        said += running.stderr.read()
    assert running.returncode == 130, said
    assert "Traceback" not in said
    assert Records(tmp_path / "state").verdicts() == []
    assert process.run(["docker", "ps", "--all", "--quiet", "--filter", f"ancestor={image}"]).stdout == ""
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["logs"]


def iter_until(stream: IO[str], word: str) -> Iterator[str]:
    """The lines of a stream up to the one that holds a word."""
    for line in stream:
        yield line
        if word in line:
            return
