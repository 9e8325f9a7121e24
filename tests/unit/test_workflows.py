"""The workflows of .github: their run blocks, run from the parsed YAML with bash as GitHub runs them.

`./run ci-matrix` is the real command. What takes long (release, rescan, outdated, check) is recorded by a stand-in of
`./run`; its words are then read by the real front door, so that no workflow uses a command or option that is not there.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from invoke.collection import Collection
from invoke.parser import Parser, ParserContext

import tasks
from slipway import settings

from .conftest import ROOT

FOLDER = ROOT / ".github/workflows"
NAMES = sorted(path.name for path in FOLDER.glob("*.yml"))
SELECT = "--framework pytorch --processor cpu"
EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")
RUN = """\
#!{python}
import json, os, subprocess, sys
with open({calls!r}, "a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
if sys.argv[1] == "ci-matrix":
    sys.exit(subprocess.run([{python!r}, "-m", "invoke", *sys.argv[1:]], cwd={root!r}).returncode)
print("told by", sys.argv[1])
"""


def workflow(name: str) -> dict[Any, Any]:
    loaded: dict[Any, Any] = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))
    return loaded


def steps(name: str) -> list[tuple[str, dict[str, Any]]]:
    return [(job, step) for job, body in workflow(name)["jobs"].items() for step in body["steps"]]


BLOCKS = [(name, job, step.get("name")) for name in NAMES for job, step in steps(name) if "run" in step]


@dataclass
class Runner:
    """A checkout in which blocks are run. `known`: values of expressions."""

    folder: Path
    known: dict[str, str]

    def run(self, name: str, job: str, title: str | None) -> dict[str, str]:
        """One step; returns the outputs that it set."""
        (step,) = [step for where, step in steps(name) if where == job and step.get("name") == title]
        assert not EXPRESSION.search(step["run"]), "text of others would become part of the script"
        given = {**workflow(name).get("env", {}), **step.get("env", {})}
        output = self.folder.parent / "output"
        output.write_text("")
        environment = {
            **os.environ,
            **{key: EXPRESSION.sub(lambda found: self.known[found[1]], value) for key, value in given.items()},
            "PATH": f"{self.folder.parent}/bin:{os.environ['PATH']}",
            "GITHUB_OUTPUT": str(output),
            "GITHUB_STEP_SUMMARY": str(self.folder.parent / "summary"),
        }
        bash = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        done = subprocess.run(bash, cwd=self.folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return dict(line.split("=", 1) for line in output.read_text().splitlines())

    @property
    def calls(self) -> list[list[str]]:
        path = self.folder.parent / "calls"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    folder = tmp_path / "checkout"
    (folder / ".ci").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    stand_in = RUN.format(python=sys.executable, calls=str(tmp_path / "calls"), root=str(ROOT))
    sudo = '#!/bin/sh\nwhile case $1 in -*) true ;; *) false ;; esac; do shift; done\nexec "$@"\n'
    ci = '#!/bin/sh\nexec ./run check "$@"\n'
    for path, text in ((folder / "run", stand_in), (folder / ".ci/run", ci), (tmp_path / "bin/sudo", sudo)):
        path.write_text(text)
        path.chmod(0o755)
    known = {
        "vars.SLIPWAY_LEDGER || 'releases'": "releases",
        "vars.SLIPWAY_CACHE": "",
        "inputs.select": SELECT,
        "inputs.notes": "two words; $(touch bad)",
        "secrets.SIGNING_KEY_PASSWORD": "0pen",
        "matrix.select": SELECT,
    }
    return Runner(folder, known)


@pytest.fixture
def upstream(runner: Runner) -> Path:
    """The repository that the checkout came from; the checkout has a document of the ledger that this one lacks."""
    bare = runner.folder.parent / "upstream.git"
    subprocess.run(["git", "init", "--quiet", "--bare", bare], check=True)
    for words in (
        ["init", "--quiet", "--initial-branch", "main"],
        ["remote", "add", "origin", str(bare)],
        ["config", "push.autoSetupRemote", "true"],
    ):
        subprocess.run(["git", *words], cwd=runner.folder, check=True)
    (runner.folder / "releases").mkdir()
    (runner.folder / "releases/000001.json").write_text("{}")
    return bare


def kept(upstream: Path) -> list[str]:
    """The files on its main branch; none before the first push."""
    words = ["git", "--git-dir", str(upstream), "ls-tree", "-r", "--name-only", "main"]
    return subprocess.run(words, capture_output=True, text=True).stdout.split()


def read_by_the_front_door(words: list[str]) -> None:
    """Raises what invoke raises for a command or an option that does not exist."""
    if words != ["engine-start"]:  # of ./run itself
        Parser(contexts=Collection.from_module(tasks).to_contexts(), initial=ParserContext()).parse_argv(words)


@pytest.mark.parametrize("name", NAMES)
def test_it_is_thin_pinned_and_asks_for_little(name: str) -> None:
    parsed = workflow(name)
    assert parsed["permissions"] == {"contents": "read"}, "jobs ask for more, each for its own"
    for job in parsed["jobs"].values():
        assert job["timeout-minutes"] <= 180
        granted = job.get("permissions", {})
        (checkout,) = [step for step in job["steps"] if "actions/checkout@" in step.get("uses", "")]
        kept = checkout.get("with", {}).get("persist-credentials", True)
        assert kept == (granted.get("contents") == "write"), "a token that stays in .git is there for every later step"
        assert ("id-token" in granted) == any("aws-actions" in step.get("uses", "") for step in job["steps"])
    for _, step in steps(name):
        if "uses" in step:
            assert re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|[0-9a-f]{40})", step["uses"])
        else:
            assert len(step["run"].strip().splitlines()) <= 4
            assert "./run " in step["run"] or ".ci/run" in step["run"] or "git " in step["run"]


@pytest.mark.parametrize("name", NAMES)
def test_its_blocks_pass_shellcheck(name: str, tmp_path: Path) -> None:
    scripts = []
    for at, (_, step) in enumerate(steps(name)):
        if "run" in step:
            scripts.append(tmp_path / f"{at}.bash")
            scripts[-1].write_text("#!/bin/bash\nset -eo pipefail\n" + step["run"])
    program = Path(sys.executable).with_name("shellcheck")
    checked = subprocess.run([program, *scripts], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("name", NAMES)
def test_its_variables_are_settings(name: str) -> None:
    known = {setting.variable for setting in settings.KNOWN}
    asked = {key for key in workflow(name).get("env", {}) if key.startswith("SLIPWAY_")}
    assert asked <= known


@pytest.mark.parametrize(("name", "job", "title"), BLOCKS)
def test_each_block_runs_and_says_what_is_understood(
    runner: Runner, upstream: Path, name: str, job: str, title: str | None
) -> None:
    """None goes untested: also the block that someone adds tomorrow."""
    runner.run(name, job, title)
    assert runner.calls or kept(upstream), "it neither calls ./run nor pushes"
    for call in runner.calls:
        read_by_the_front_door(call)


def test_a_change_is_checked(runner: Runner) -> None:
    runner.run("check.yml", "check", "Check")
    assert runner.calls == [["check"]]


def test_the_night_looks_again_and_ahead(runner: Runner) -> None:
    runner.run("nightly.yml", "rescan", "Look again")
    runner.run("nightly.yml", "outdated", "Look for newer versions")
    assert runner.calls == [["rescan"], ["outdated", "--all"]]
    assert (runner.folder.parent / "summary").read_text() == "told by rescan\ntold by outdated\n"


def test_the_night_runs_the_slow_tests_too(runner: Runner) -> None:
    runner.run("nightly.yml", "check", "Check all of it")
    assert runner.calls == [["check", "--all"]]
    by_change, by_night = (workflow(name)["jobs"]["check"] for name in ("check.yml", "nightly.yml"))
    assert by_night["steps"][:-1] == by_change["steps"][:-1], "on the same machine, with the same programs"
    assert by_night["timeout-minutes"] > by_change["timeout-minutes"]


def test_what_could_not_be_scanned_fails_the_night(runner: Runner) -> None:
    (runner.folder / "run").write_text("#!/bin/sh\nexit 22\n")
    with pytest.raises(AssertionError):
        runner.run("nightly.yml", "rescan", "Look again")


def test_jobs_get_each_image_once_and_the_release_gets_their_digests(runner: Runner) -> None:
    jobs = workflow("release.yml")["jobs"]
    outputs = runner.run("release.yml", "plan", "Lay the images out as jobs")
    matrix = json.loads(outputs["matrix"])
    images = [image for entry in matrix["include"] for image in entry["images"]]
    assert sorted(images) == ["pytorch-inference-2.13.0-cpu-py311", "pytorch-training-2.13.0-cpu-py311"]
    used = set(EXPRESSION.findall(json.dumps(jobs["stage"])))
    assert {f"matrix.{key}" for key in matrix["include"][0]} >= {one for one in used if one.startswith("matrix.")}
    for entry in matrix["include"]:
        runner.known["matrix.select"] = entry["select"]
        runner.run("release.yml", "stage", "Build, prove and push by digest")
    runner.run("release.yml", "release", "Sign, replicate and name")
    asked = [call for call in runner.calls if call[0] == "release"]
    assert [call[1] for call in asked] == ["--stage", "--framework"]
    assert asked[-1] == ["release", *SELECT.split(), "--notes", "two words; $(touch bad)"], "text stays text"
    for call in runner.calls:
        read_by_the_front_door(call)
    assert jobs["stage"]["needs"] == "plan" and jobs["release"]["needs"] == "stage"
    (given,) = [step["with"] for _, step in steps("release.yml") if "upload-artifact" in step.get("uses", "")]
    (taken,) = [step["with"] for _, step in steps("release.yml") if "download-artifact" in step.get("uses", "")]
    assert re.fullmatch(taken["pattern"].replace("*", ".*"), EXPRESSION.sub("0", given["name"]))
    assert {path.split("/")[0] for path in given["path"].split()} == {taken["path"]} == {".slipway"}
    assert {Path(path).name for path in given["path"].split()} >= {"builds", "verdicts", "sboms", "releases"}


def test_the_ledger_is_committed_where_it_is_a_folder(runner: Runner, upstream: Path) -> None:
    (runner.folder / "releases/000002.json").write_text("{}")
    runner.run("release.yml", "release", "Keep the ledger")
    assert kept(upstream) == ["releases/000001.json", "releases/000002.json"]
