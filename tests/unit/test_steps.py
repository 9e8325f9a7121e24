"""The project's checks as steps: run whole, summed up, remembered only on the very same files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from invoke.exceptions import Exit

from slipway import steps
from slipway.commands import check as checking
from slipway.steps import Step


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


def run(step: Step, folder: Path) -> steps.Outcome:
    return steps.run(step, folder, folder / ".slipway", lambda line: None)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project under git, in which the command can be run."""
    (tmp_path / "buildspec").mkdir()
    (tmp_path / ".gitignore").write_text(".slipway/\n")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    monkeypatch.chdir(tmp_path)
    for name in ("CI", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_every_step_of_the_project_can_be_run() -> None:
    root = Path(__file__).parents[2]
    found = steps.known(root, root / ".slipway")
    assert len({step.name for step in found}) == len(found)
    for step in found:
        assert (root / step.folder).is_dir()
        for command in step.commands:
            paths = [word for word in command if word.startswith(("tests/", "toolkits/", ".ci/"))]
            assert all((root / path).exists() for path in paths), command


def test_no_test_folder_is_forgotten() -> None:
    root = Path(__file__).parents[2]
    told = {word for step in steps.known(root, root / ".slipway") for command in step.commands for word in command}
    named = {path.parent.relative_to(root).as_posix() for path in root.glob("tests/*/*/test_*.py")}
    for folder in named:
        kind = "/".join(folder.split("/")[:2])
        # Contract tests run inside `verify`; figures have commands of their own.
        assert kind in ("tests/contract", "tests/bench") or kind in told or folder in told, folder


def test_a_toolkit_is_tested_beside_the_packages_that_it_stands_on(tmp_path: Path) -> None:
    names = ("training", "pytorch-training", "inference", "pytorch-inference", "huggingface-inference")
    for name in names:
        (tmp_path / "toolkits" / name).mkdir(parents=True)
        (tmp_path / "toolkits" / name / "pyproject.toml").write_text("")
        (tmp_path / "tests" / "toolkits" / name).mkdir(parents=True)
        (tmp_path / "tests" / "toolkits" / name / "test_one.py").write_text("")
    path = {
        step.name.removeprefix("toolkit "): step.environment["PYTHONPATH"].replace(f"{tmp_path}/toolkits/", "")
        for step in steps.known(tmp_path, tmp_path / ".slipway")
        if step.name.startswith("toolkit ")
    }
    assert path == {
        "training": "training/src",
        "pytorch-training": "pytorch-training/src:training/src",
        "inference": "inference/src",
        "pytorch-inference": "pytorch-inference/src:inference/src",
        # TensorFlow's is not there in this tree.
        "huggingface-inference": "huggingface-inference/src:pytorch-inference/src:inference/src",
    }


def test_each_toolkit_with_integration_tests_is_tested_in_containers(tmp_path: Path) -> None:
    for name, text in {"training": "pytestmark = pytest.mark.integration", "inference": ""}.items():
        (tmp_path / "toolkits" / name).mkdir(parents=True)
        (tmp_path / "toolkits" / name / "pyproject.toml").write_text("")
        (tmp_path / "tests" / "toolkits" / name).mkdir(parents=True)
        (tmp_path / "tests" / "toolkits" / name / "test_one.py").write_text(text)
    found = [step.name for step in steps.known(tmp_path, tmp_path / ".slipway") if step.name.endswith("in containers")]
    assert found == ["toolkit training in containers"]


def test_slow_tests_of_a_toolkit_are_a_slow_step_of_their_own(tmp_path: Path) -> None:
    for name, text in {"training": "", "inference": "@pytest.mark.slow"}.items():
        (tmp_path / "toolkits" / name).mkdir(parents=True)
        (tmp_path / "toolkits" / name / "pyproject.toml").write_text("")
        (tmp_path / "tests" / "toolkits" / name).mkdir(parents=True)
        (tmp_path / "tests" / "toolkits" / name / "test_one.py").write_text(text)
    found = {step.name: step for step in steps.known(tmp_path, tmp_path / ".slipway")}
    assert "not integration and not slow" in found["toolkit inference"].commands[0]
    assert [name for name in found if name.startswith("toolkit") and found[name].slow] == ["toolkit inference, slow"]
    assert found["toolkit inference, slow"].commands[0][-2:] == ("-m", "slow")


TOOLKIT = """
classifiers = [
    "Programming Language :: Python :: 3.9",
    "Programming Language :: Python :: 3.10",
    "Programming Language :: Python :: 3.12",
    "Programming Language :: Python :: 3.99",
]
"""


def on_pythons(folder: Path) -> dict[str, Step]:
    """The steps on other Pythons of a project with one training toolkit, by version."""
    (folder / "toolkits" / "training").mkdir(parents=True)
    (folder / "toolkits" / "training" / "pyproject.toml").write_text(TOOLKIT)
    (folder / "tests" / "toolkits" / "training").mkdir(parents=True)
    for name in ("test_one.py", "test_mpi.py"):
        (folder / "tests" / "toolkits" / "training" / name).write_text("")
    start = "training toolkits on Python "
    found = [step for step in steps.known(folder, folder / "state") if step.name.startswith(start)]
    return {step.name.removeprefix(start): step for step in found}


def test_training_toolkits_are_tested_on_the_oldest_and_the_newest_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pythons = {"3.8": "/old", "3.9": "/nine", "3.10": "/ten", "3.99": "/newest", "3.100": "/unknown"}
    monkeypatch.setattr(steps, "interpreters", lambda: pythons)
    found = on_pythons(tmp_path)
    assert list(found) == ["3.9", "3.99"]
    venv, install, tests = found["3.9"].commands
    folder = str(tmp_path / "state" / "check" / "python3.9")
    assert venv == ("/nine", "-m", "venv", "--clear", folder)
    assert install[0] == tests[0] == f"{folder}/bin/python"
    assert {"--require-hashes", "requirements/toolkits.lock"} <= set(install)
    assert {"tests/toolkits/training", "--ignore=tests/toolkits/training/test_mpi.py"} <= set(tests)
    assert found["3.9"].environment == {"PYTHONPATH": str(tmp_path / "toolkits" / "training" / "src")}


def test_a_python_that_is_not_here_is_absent_and_the_nearest_takes_its_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "interpreters", lambda: {"3.10": "/ten", "3.12": "/twelve"})
    found = on_pythons(tmp_path)
    assert {version: step.absent for version, step in found.items() if step.absent} == {
        "3.9": "no Python 3.9 here",
        "3.99": "no Python 3.99 here",
    }
    assert {"3.10", "3.12"} - {f"3.{sys.version_info.minor}"} == {v for v, step in found.items() if not step.absent}


def test_pythons_are_found_in_pyenv_and_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def program(path: Path) -> str:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o755)
        return str(path)

    versions = tmp_path / ".pyenv" / "versions"
    program(versions / "3.9.7" / "bin" / "python")
    newer = program(versions / "3.9.18" / "bin" / "python")
    program(tmp_path / "bin" / "python3.9")
    ten = program(tmp_path / "bin" / "python3.10")
    program(tmp_path / "shims" / "python3.12")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{tmp_path}/shims")
    assert steps.interpreters() == {"3.9": newer, "3.10": ten}


def test_what_is_absent_is_neither_passed_nor_failed(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = Step("on Python 3.9", (python("raise SystemExit(1)"),), absent="no Python 3.9 here")
    monkeypatch.setattr(steps, "known", lambda *_: [absent])
    for _ in range(2):
        checking.check(everything=True, json=False)
        told = capsys.readouterr().out
        assert "absent" in told
        assert "no Python 3.9 here" in told
        assert "===" not in told


def test_a_step_keeps_its_output_and_pytests_closing_line(tmp_path: Path) -> None:
    outcome = run(Step("unit", (python("print('....'); print('== 4 passed in 0.1s ==')"),)), tmp_path)
    assert (outcome.status, outcome.summary) == ("passed", "4 passed in 0.1s")
    assert "4 passed" in Path(outcome.log).read_text()


def test_a_step_fails_with_its_first_program_that_fails(tmp_path: Path) -> None:
    commands = (python("print('one')"), python("print('two'); raise SystemExit(5)"), python("print('three')"))
    outcome = run(Step("lint", commands), tmp_path)
    assert outcome.status == "failed"
    assert "two" in outcome.tail
    assert "three" not in Path(outcome.log).read_text()


def test_pytest_without_tests_has_failed(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    outcome = run(Step("golden", ((sys.executable, "-m", "pytest", "-q", "empty"),)), tmp_path)
    assert outcome.status == "failed"


def test_a_program_that_is_not_there_has_failed(tmp_path: Path) -> None:
    outcome = run(Step("lint", (("no-such-program",),)), tmp_path)
    assert outcome.status == "failed"
    assert any("no-such-program" in line for line in outcome.tail)


def test_the_tree_hash_follows_every_file_that_git_sees(project: Path) -> None:
    (project / "one.py").write_text("1")
    before = steps.tree_hash(project)
    (project / ".slipway").mkdir()
    (project / ".slipway" / "log").write_text("ignored")
    assert steps.tree_hash(project) == before
    (project / "two.py").write_text("2")
    assert steps.tree_hash(project) != before


def test_outside_git_nothing_is_remembered(tmp_path: Path) -> None:
    step = Step("unit", (python(""),))
    assert steps.tree_hash(tmp_path) == ""
    steps.remember(step, tmp_path, "")
    assert not steps.passed_before(step, tmp_path, "")


def counting(project: Path, name: str, code: int) -> Step:
    count = f"open('.slipway/{name}', 'a').write('x')"
    return Step(name, (python(f"import sys; {count}; print('1 passed in 0.1s'); sys.exit({code})"),))


def runs(project: Path, name: str) -> int:
    path = project / ".slipway" / name
    return len(path.read_text()) if path.exists() else 0


def test_all_steps_run_and_are_told_whatever_fails(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = [counting(project, "first", 3), counting(project, "second", 0)]
    monkeypatch.setattr(steps, "known", lambda *_: chosen)
    with pytest.raises(Exit) as caught:
        checking.check(everything=False, json=False)
    assert caught.value.code == 1
    told = capsys.readouterr()
    assert runs(project, "second") == 1
    assert "1 of 2 steps failed: first" in told.err
    assert told.out.splitlines().count("=== 1 passed in 0.1s ===") == 2


def test_all_goes_on_where_it_broke_off(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = [counting(project, "good", 0), counting(project, "bad", 1)]
    monkeypatch.setattr(steps, "known", lambda *_: chosen)
    for _ in range(2):
        with pytest.raises(Exit):
            checking.check(everything=True, json=False)
    assert (runs(project, "good"), runs(project, "bad")) == (1, 2)
    (project / "changed.py").write_text("new")
    with pytest.raises(Exit):
        checking.check(everything=True, json=False)
    assert runs(project, "good") == 2


def test_without_all_every_step_runs_each_time_but_no_slow_one(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Step("slow", (python("raise SystemExit(1)"),), slow=True)
    monkeypatch.setattr(steps, "known", lambda *_: [counting(project, "good", 0), slow])
    for _ in range(2):
        checking.check(everything=False, json=False)
    assert runs(project, "good") == 2


def test_machines_get_one_document(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(steps, "known", lambda *_: [counting(project, "bad", 1)])
    with pytest.raises(Exit):
        checking.check(everything=False, json=True)
    document = json.loads(capsys.readouterr().out)
    assert document["passed"] is False
    assert [step["status"] for step in document["steps"]] == ["failed"]
