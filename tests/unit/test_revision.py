"""An image's commit is the last one that changed what decides it, in a repository with a history of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from slipway import base, plan, revision
from slipway.revision import Revision
from slipway.spec import load

from .conftest import SPEC, lock_all

NEWEST = "small-training-1.2.0-cpu-py311"
OLDER = "small-training-1.1.0-cpu-py311"

Write = Callable[[str, str], Path]


class Repository:
    """The project under git. Commits are a minute apart, so that their order is certain."""

    def __init__(self, project: Path) -> None:
        self.project = project
        self.minute = 0
        self.git("init", "--quiet")
        self.commit()

    def git(self, *words: str, cwd: Path | None = None) -> str:
        moment = f"2026-01-01T00:{self.minute:02}:00+02:00"
        names = {"GIT_AUTHOR_DATE": moment, "GIT_COMMITTER_DATE": moment, "GIT_CONFIG_GLOBAL": os.devnull}
        who = {f"GIT_{role}_{what}": "someone" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        return subprocess.run(
            ["git", *words],
            cwd=cwd or self.project,
            env={**os.environ, **names, **who},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()

    def commit(self) -> str:
        self.minute += 1
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", f"minute {self.minute}")
        return self.git("rev-parse", "HEAD")

    def of(self, image_id: str, project: Path | None = None) -> Revision:
        root = project or self.project
        image = next(image for image in load.load(root).images if image.id == image_id)
        made = plan.plan([image], load.read_sources(root), {"debian12": base.of("debian12")})
        return revision.of(image, made, root)


@pytest.fixture
def repository(project: Path) -> Repository:
    return Repository(project)


def test_the_time_is_the_commits_in_utc(repository: Repository) -> None:
    assert repository.of(NEWEST) == Revision(repository.git("rev-parse", "HEAD"), "2025-12-31T22:01:00+00:00")


@pytest.mark.parametrize("name", ["README.md", "docs/x.md", "buildspec/other.txt", "dockerfiles/unused.Dockerfile.j2"])
def test_a_commit_that_decides_nothing_leaves_it(repository: Repository, write: Write, name: str) -> None:
    before = repository.of(NEWEST)
    write(name, "words")
    repository.commit()
    assert repository.of(NEWEST) == before


@pytest.mark.parametrize(
    "name",
    [
        "toolkits/training/small_toolkit.py",
        "toolkits/training/new.py",
        "dockerfiles/training.Dockerfile.j2",
        "dockerfiles/install.j2",
        "dockerfiles/tools.Dockerfile.j2",
        "buildspec/locks/small-1.2.0-cpu-py311/common.txt",
        "buildspec/locks/small-1.2.0-cpu-py311/training.txt",
        "buildspec/locks/tools.txt",
        "slipway/base.py",
    ],
)
def test_a_commit_of_an_input_moves_it(repository: Repository, write: Write, name: str) -> None:
    path = repository.project / name
    write(name, (path.read_text() if path.exists() else "") + "# more\n")
    commit = repository.commit()
    write("README.md", "later")
    repository.commit()
    assert repository.of(NEWEST).commit == commit


def test_a_lock_of_another_stack_leaves_it(repository: Repository, write: Write) -> None:
    before = repository.of(NEWEST)
    name = "buildspec/locks/small-1.1.0-cpu-py311/common.txt"
    write(name, (repository.project / name).read_text() + "# more\n")
    commit = repository.commit()
    assert repository.of(NEWEST) == before
    assert repository.of(OLDER).commit == commit


def test_its_own_lines_of_the_file_move_it_and_other_stacks_do_not(repository: Repository, write: Write) -> None:
    newest, older = repository.of(NEWEST), repository.of(OLDER)
    changed = SPEC.replace("    version: 1.1.0\n", "    version: 1.1.0\n    supported-until: 2027-01-01\n")
    write("buildspec/small.yml", changed)
    commit = repository.commit()
    assert repository.of(NEWEST) == newest
    assert repository.of(OLDER).commit == commit != older.commit


@pytest.mark.parametrize("place", ['  "1.2":', '  "1.1":', "excluded:"], ids=["above", "between", "below"])
def test_a_stack_that_is_added_to_the_file_leaves_it(repository: Repository, write: Write, place: str) -> None:
    newest, older = repository.of(NEWEST), repository.of(OLDER)
    added = SPEC[SPEC.index('  "1.1":') : SPEC.index("excluded:")].replace("1.1", "1.0")
    write("buildspec/small.yml", SPEC.replace(place, added + place))
    lock_all(repository.project)
    repository.commit()
    assert (repository.of(NEWEST), repository.of(OLDER)) == (newest, older)


@pytest.mark.parametrize(
    "name", ["toolkits/training/small_toolkit.py", "toolkits/training/new.py", "buildspec/small.yml"]
)
def test_what_is_not_committed_is_dirty(repository: Repository, write: Write, name: str) -> None:
    path = repository.project / name
    write(name, (path.read_text() if path.exists() else "") + "# more\n" * 20)
    head = repository.git("rev-parse", "HEAD")
    assert repository.of(NEWEST).commit == f"{head}-dirty"
    repository.commit()
    assert not repository.of(NEWEST).commit.endswith("-dirty")


def test_a_stack_at_the_end_of_a_file_that_grew_is_dirty_not_unknown(repository: Repository, write: Write) -> None:
    added = SPEC[SPEC.index('  "1.1":') : SPEC.index("excluded:")].replace("1.1", "1.3")
    write("buildspec/small.yml", SPEC.replace("excluded:", "# words\n" * 40 + added + "excluded:"))
    lock_all(repository.project)
    assert repository.of("small-training-1.3.0-cpu-py311").commit.endswith("-dirty")


def test_words_outside_the_inputs_are_not_dirty(repository: Repository, write: Write) -> None:
    before = repository.of(NEWEST)
    write("notes.txt", "x")
    assert repository.of(NEWEST) == before


def test_outside_git_it_is_unknown(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(project.parent))
    image = load.load(project).images[0]
    made = plan.plan([image], load.read_sources(project), {"debian12": base.of("debian12")})
    assert revision.of(image, made, project) == revision.UNKNOWN
    assert revision.doubt(project) == ""
    monkeypatch.setenv("PATH", "")
    assert revision.of(image, made, project) == revision.UNKNOWN


def test_a_project_below_its_repositorys_root_is_the_same(repository: Repository, tmp_path: Path) -> None:
    outer = tmp_path / "outer"
    outer.mkdir()
    repository.project.rename(outer / "inner")
    (outer / "inner" / ".git").rename(outer / ".git")
    repository.project = outer
    commit = repository.commit()
    assert repository.of(NEWEST, outer / "inner").commit == commit


def test_a_shallow_clone_is_noticed(repository: Repository, write: Write, tmp_path: Path) -> None:
    write("README.md", "words")
    repository.commit()
    clone = tmp_path / "clone"
    repository.git("clone", "--quiet", "--depth", "1", f"file://{repository.project}", str(clone))
    assert "git fetch --unshallow" in revision.doubt(clone)
    assert revision.doubt(repository.project) == ""


def test_a_repository_that_git_refuses_is_noticed(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")  # git's own switch for its own tests
    assert f"safe.directory {repository.project}" in revision.doubt(repository.project)


def test_a_persons_own_git_settings_are_no_matter(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    # A signature that nobody can check: git says so among the log's lines, where it is asked to show signatures.
    commit = repository.git("cat-file", "commit", "HEAD").replace(
        "\n\n", "\ngpgsig -----BEGIN SSH SIGNATURE-----\n x\n\n", 1
    )
    signed = subprocess.run(
        ["git", "hash-object", "-t", "commit", "-w", "--stdin"],
        cwd=repository.project,
        input=commit + "\n",
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    repository.git("reset", "--quiet", "--soft", signed)
    before = repository.of(NEWEST)
    assert before.commit == signed
    (repository.project.parent / "config").write_text(
        "[log]\n\tshowSignature = true\n\tdecorate = full\n[color]\n\tui = always\n[status]\n\tshort = false\n"
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(repository.project.parent / "config"))
    assert repository.of(NEWEST) == before
