"""A buildspec file of a team's own, outside the project: its cells stand on the project's, its locks lie beside it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from invoke.exceptions import Exit

from slipway import base, lock, plan, revision, settings
from slipway.commands import locks, matrix
from slipway.errors import SpecError
from slipway.spec import load
from slipway.spec.model import Image
from slipway.spec.select import Selector

from .conftest import ROOT, SPEC, TOOLKIT, pin

OWN = """\
framework: team
toolkits:
  training: [team-tools]
stacks:
  "1":
    stands-on: {framework: small, stack: "1.2"}
    scopes: [training]
    packages:
      training: [helper==3.0]
    system-packages:
      training: [jq]
"""
ID = "team-training-1.2.0-cpu-py311"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """The file, with a toolkit beside it, in a folder that is no part of the project."""
    folder = tmp_path / "team"
    toolkit = folder / "toolkits" / "team-tools"
    toolkit.mkdir(parents=True)
    (toolkit / "pyproject.toml").write_text(
        TOOLKIT.replace("small-toolkit", "team-tools")
        .replace("[project.scripts]", "")
        .replace('train = "small_toolkit:train"', "")
    )
    (toolkit / "team_tools.py").write_text('"""Ours."""\n')
    path = folder / "team.yml"
    path.write_text(OWN)
    return path


def cell(project: Path, own: Path) -> Image:
    return next(image for image in load.load(project, own).images if image.id == ID)


def locked(project: Path, own: Path) -> None:
    """The locks of the file's own stack, as `invoke lock` would write them."""
    texts = dict(load.read_sources(project, own).locks)
    for part in lock.parts(cell(project, own)):
        if part.name in texts:
            continue
        pins = "".join(pin(requirement) for requirement in part.requirements if requirement != "boto3")
        texts[part.name] = f"# inputs: {part.inputs(texts)}\n{pins}"
        lock.write(project, part, "", texts[part.name])


def test_its_images_join_the_matrix_and_take_all_from_below(project: Path, own: Path) -> None:
    image = cell(project, own)
    assert image.below is not None and image.below.framework == "small"
    assert (image.toolkits, image.system_packages) == (("training", "team-tools"), ("jq",))
    assert image.file == str(own)
    assert not any(image.framework == "team" for image in load.load(project).images), "only where it is named"


def test_its_locks_and_toolkits_lie_beside_it(project: Path, own: Path) -> None:
    parts = lock.parts(cell(project, own))
    assert [part.file for part in parts] == [
        "buildspec/locks/small-1.2.0-cpu-py311/common.txt",
        f"{own.parent}/locks/team-1.2.0-cpu-py311/common.txt",
        f"{own.parent}/locks/team-1.2.0-cpu-py311/training.txt",
    ]
    with pytest.raises(Exit):
        matrix.plan(Selector(framework="team"), False, buildspec=str(own))
    locked(project, own)
    assert sorted(path.name for path in own.parent.rglob("*.txt")) == ["common.txt", "training.txt"]
    sources = load.read_sources(project, own)
    made = plan.plan([cell(project, own)], sources, {"debian12": base.of("debian12")})
    assert made.stage(ID).toolkits == ("training", "team-tools")
    below = plan.plan(load.load(project).buildable, load.read_sources(project), {"debian12": base.of("debian12")})
    shared = {stage.name: stage.hash for stage in below.stages}
    assert made.stage("small-1.2.0-cpu-py311").hash == shared["small-1.2.0-cpu-py311"], "it shares their layers"


def test_its_commit_is_that_of_all_that_decides_it_where_git_knows_that(project: Path, own: Path) -> None:
    def git(*words: str) -> str:
        who = ("-c", "user.name=someone", "-c", "user.email=someone@example.org")
        return subprocess.run(["git", *who, *words], cwd=project, check=True, capture_output=True, text=True).stdout

    def commit(file: Path) -> str:
        git("add", "--all")
        git("commit", "--quiet", "--message", "more")
        made = plan.plan([cell(project, file)], load.read_sources(project, file), {"debian12": base.of("debian12")})
        return revision.of(cell(project, file), made, project).commit

    git("init", "--quiet")
    locked(project, own)
    assert commit(own) == "unknown", "it lies outside the repository"
    inside = Path(shutil.copytree(own.parent, project / "teams" / "ours")) / own.name
    first = commit(inside)
    assert len(first) == 40
    for name in ("team.yml", "locks/team-1.2.0-cpu-py311/training.txt", "toolkits/team-tools/team_tools.py"):
        path = inside.parent / name
        path.write_text(path.read_text() + "# more\n")
        seen = commit(inside)
        assert (seen != first) == (name != "team.yml"), f"{name}: words below the stack decide nothing"
        first = seen


def test_only_its_own_locks_are_made(
    project: Path, own: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(project)
    resolved = []

    def resolve(part: lock.Part, *_: object, **__: object) -> str:
        resolved.append(part.name)
        return f"{pin('helper==3.0')}"

    monkeypatch.setattr(lock, "resolve", resolve)
    before = {path: path.read_bytes() for path in project.rglob("*.txt")}
    locks.lock(Selector(framework="team"), False, False, True, buildspec=str(own))
    assert resolved == ["team-1.2.0-cpu-py311/common", "team-1.2.0-cpu-py311/training"]
    assert {path: path.read_bytes() for path in project.rglob("*.txt")} == before
    assert json.loads(capsys.readouterr().out)[1]["lock"] == "team-1.2.0-cpu-py311/training"


def test_the_setting_is_relative_to_where_it_is_given(
    project: Path, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(own.parent)
    assert settings.read({"buildspec": "team.yml"}, project=project, environment={}).own == own
    (project / "slipway.yml").write_text("buildspec: ../team/team.yml\n")
    found = settings.read(project=project, environment={}).own
    assert found is not None and found.resolve() == own
    assert settings.read({"buildspec": ""}, project=project, environment={}).own is None


def test_faults_name_the_file_by_its_whole_path(project: Path, own: Path) -> None:
    own.write_text(OWN.replace('stack: "1.2"', 'stack: "9.9"'))
    with pytest.raises(SpecError) as caught:
        load.load(project, own)
    assert [(fault.file, fault.line) for fault in caught.value.faults] == [(str(own), 6)]
    own.write_text(SPEC)
    with pytest.raises(SpecError, match="declared in two files"):
        load.load(project, own)
    with pytest.raises(SpecError, match="does not exist"):
        load.load(project, own.with_name("other.yml"))


def test_a_toolkit_of_the_projects_name_is_refused(project: Path, own: Path) -> None:
    (own.parent / "toolkits" / "team-tools").rename(own.parent / "toolkits" / "training")
    with pytest.raises(SpecError, match="has the name of a toolkit of Slipway"):
        load.read_sources(project, own)


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*/*.yml")), ids=lambda path: path.parent.name)
def test_the_examples_load_beside_the_matrix(path: Path) -> None:
    known = {image.id for image in load.load(ROOT).images}
    added = [image for image in load.load(ROOT, path).images if image.id not in known]
    assert added and all(image.file == f"examples/{path.parent.name}/{path.name}" for image in added)
    assert any(not image.excluded and image.processor == "cpu" for image in added)
