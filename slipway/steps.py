"""The project's own checks, one step after the other: what `check` runs, and what it keeps of a step that passed."""

from __future__ import annotations

import re
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from slipway import process
from slipway.errors import ProgramError
from slipway.files import sha256_bytes, sha256_file, write_whole

FOLDER = "check"  # below the state folder: a log a step, and the tree that it last passed on
TAIL_LINES = 60
# The toolkits whose packages a toolkit imports, by what its name ends with; a toolkit need not exist yet.
STANDS_ON = {
    "huggingface-inference": ("pytorch-inference", "tensorflow-inference"),
    "-inference": ("inference",),
    "-training": ("training",),
}

# Tests that start many processes or install packages: too long to be run on each Python.
ON_ONE_PYTHON = ("test_installs.py", "test_mpi.py", "test_torch_distributed.py")

_INSTALL = ("install", "--quiet", "--disable-pip-version-check", "--require-hashes")
_WORKFLOW_SCHEMA = ("--quiet", "--builtin-schema", "vendor.github-workflows")
_INTEGRATION = "mark.integration"
_SLOW = "mark.slow"
_SUPPORTED = re.compile(r"Programming Language :: Python :: (3\.\d+)")
_PYTEST = re.compile(r"^=*\s*\d+ (passed|failed|error|skipped|xfailed|deselected).*")


@dataclass(frozen=True)
class Step:
    """Programs that must all end with 0, run in the project's root.

    `slow`: part of `check --all` only. `absent`: what this machine lacks for it; then nothing is run.
    """

    name: str
    commands: tuple[tuple[str, ...], ...]
    slow: bool = False
    absent: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: str = "."


@dataclass(frozen=True)
class Outcome:
    """How a step ended: `passed`, `failed`, `kept` (it passed before on the same files) or `absent` (it was not run).

    `summary` is pytest's closing line, or what was absent; `tail` the last lines of a step that failed.
    """

    name: str
    status: str
    seconds: float
    summary: str
    log: str
    tail: tuple[str, ...] = ()


def known(project: Path, state: Path) -> list[Step]:
    """Every step, cheapest first. `state`: where virtual environments may be made."""
    toolkits = sorted(path.parent.name for path in (project / "toolkits").glob("*/pyproject.toml"))
    sources = {name: project / "toolkits" / name / "src" for name in toolkits}
    tried = [name for name in toolkits if _tests(project, name)]
    contained, slow = (
        [name for name in tried if any(mark in path.read_text() for path in _tests(project, name))]
        for mark in (_INTEGRATION, _SLOW)
    )
    return [
        Step(
            "lint",
            (
                _module("ruff", "check", "."),
                _module("ruff", "format", "--check", "."),
                *(_module("ruff", "check", f"toolkits/{name}") for name in toolkits),
                (_beside_python("shellcheck"), "run", ".ci/run"),
                (_beside_python("check-jsonschema"), *_WORKFLOW_SCHEMA, *_workflows(project)),
            ),
        ),
        Step("types", (_module("mypy"),)),
        *(Step(f"types {name}", (_module("mypy"),), folder=f"toolkits/{name}") for name in toolkits),
        Step("unit", (_pytest("tests/unit"),)),
        # Each in a process of its own, with what an image has beside it: the toolkits are separate programs, and read
        # their environment when imported.
        *(
            Step(
                f"toolkit {name}",
                (_pytest(f"tests/toolkits/{name}", "-m", "not integration and not slow"),),
                environment=_python_path(name, sources),
            )
            for name in tried
        ),
        *_other_pythons(project, state, {name: sources[name] for name in tried if name.endswith("training")}),
        Step("golden", (_pytest("tests/golden"),)),
        # Integration tests start from these images. GPU images are built where they are released.
        Step("images", (_module("invoke", "build", "--all", "--processor", "cpu"),)),
        Step("integration", (_pytest("tests/integration", "-m", "not slow", "--durations", "20"),)),
        *(
            Step(
                f"toolkit {name} in containers",
                (_pytest(f"tests/toolkits/{name}", "-m", "integration and not slow"),),
                environment=_python_path(name, sources),
            )
            for name in contained
        ),
        # A verdict that is on file for the same image and checks is not made again.
        Step("contract", (_module("invoke", "verify", "--all", "--processor", "cpu"),)),
        Step("slow", (_pytest("tests/integration", "-m", "slow"),), slow=True),
        *(
            Step(
                f"toolkit {name}, slow",
                (_pytest(f"tests/toolkits/{name}", "-m", "slow"),),
                slow=True,
                environment=_python_path(name, sources),
            )
            for name in slow
        ),
    ]


def run(step: Step, project: Path, state: Path, on_line: Callable[[str], None]) -> Outcome:
    """Run a step to its end, or to its first program that fails; the whole output goes to its log."""
    if step.absent:
        return Outcome(step.name, "absent", 0.0, step.absent, "")
    started = time.monotonic()
    log_path = state / FOLDER / f"{step.name.replace(' ', '-')}.log"
    log_path.parent.mkdir(parents=True, exist_ok=True)
    tail: deque[str] = deque(maxlen=TAIL_LINES)
    summary = ""
    code = 0
    with log_path.open("w", encoding="utf-8") as log:

        def keep(line: str) -> None:
            nonlocal summary
            log.write(line + "\n")
            tail.append(line)
            on_line(line)
            if _PYTEST.match(line):
                summary = line.strip("= ")

        for command in step.commands:
            keep(f"$ {' '.join(command)}")
            try:
                code = process.stream(
                    command, keep, cwd=project / step.folder, env=step.environment or None, check=False
                )
            except ProgramError as error:
                keep(str(error))
                code = error.exit_code
            if code != 0:
                break
    status = "passed" if code == 0 else "failed"
    seconds = time.monotonic() - started
    return Outcome(step.name, status, seconds, summary, str(log_path), tuple(tail) if code else ())


def tree_hash(project: Path) -> str:
    """One hash over every file that git tracks or would track; empty outside git."""
    listed = process.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"], cwd=project, check=False
    )
    if listed.code != 0:
        return ""
    files = [project / name for name in sorted(set(listed.stdout.split("\0"))) if name]
    lines = [f"{path.relative_to(project)} {sha256_file(path)}" for path in files if path.is_file()]
    return sha256_bytes("\n".join([sys.version, *lines]).encode())


def passed_before(step: Step, state: Path, tree: str) -> bool:
    mark = _mark(step, state)
    return bool(tree) and mark.is_file() and mark.read_text(encoding="utf-8") == tree


def remember(step: Step, state: Path, tree: str) -> None:
    write_whole(_mark(step, state), tree)


def interpreters() -> dict[str, str]:
    """The Pythons of this machine by version, such as `3.9`: of pyenv's the newest patch release, else that on PATH.

    pyenv's shims on PATH do not count: they need not work.
    """
    found = {}
    for minor in range(9, 100):
        version = f"3.{minor}"
        patches = (Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python")
        newest = max(patches, key=lambda path: [int(part) for part in re.findall(r"\d+", path.parts[-3])], default=None)
        program = str(newest or process.find(f"python{version}") or "")
        if program and Path(program).parent.name != "shims":
            found[version] = program
    return found


def _other_pythons(project: Path, state: Path, sources: Mapping[str, Path]) -> list[Step]:
    """Toolkits on the oldest and the newest Python that they support, and on those nearest to these on this machine."""
    supported = {version for name in sources for version in _supported(project / "toolkits" / name)}
    if not supported:
        return []
    own = f"3.{sys.version_info.minor}"
    found = {version: path for version, path in interpreters().items() if version in supported and version != own}
    ends = {end(versions, key=_minor) for versions in (supported, found) if versions for end in (min, max)}
    return [
        _on_python(version, found.get(version, ""), project, state, sources)
        for version in sorted(ends - {own}, key=_minor)
    ]


def _on_python(version: str, program: str, project: Path, state: Path, sources: Mapping[str, Path]) -> Step:
    """The toolkits' tests in an environment of their own, whose pip finds packages the way the host's is told to."""
    name = f"training toolkits on Python {version}"
    if not program:
        return Step(name, (), absent=f"no Python {version} here")
    folder = state / FOLDER / f"python{version}"
    python = (str(folder / "bin" / "python"), "-m")
    tests = [f"tests/toolkits/{toolkit}" for toolkit in sources]
    left_out = [path for toolkit in sources for path in _tests(project, toolkit) if path.name in ON_ONE_PYTHON]
    ignored = [f"--ignore={path.relative_to(project)}" for path in left_out]
    return Step(
        name,
        (
            (program, "-m", "venv", "--clear", str(folder)),
            (*python, "pip", *_INSTALL, "--requirement", "requirements/toolkits.lock"),
            (*python, "pytest", "-q", *tests, *ignored, "-m", "not integration and not slow"),
        ),
        environment={"PYTHONPATH": ":".join(map(str, sources.values()))},
    )


def _supported(toolkit: Path) -> list[str]:
    return _SUPPORTED.findall((toolkit / "pyproject.toml").read_text(encoding="utf-8"))


def _minor(version: str) -> int:
    return int(version.partition(".")[2])


def _tests(project: Path, toolkit: str) -> list[Path]:
    return sorted((project / "tests" / "toolkits" / toolkit).glob("**/test_*.py"))


def _python_path(toolkit: str, sources: Mapping[str, Path]) -> dict[str, str]:
    """PYTHONPATH with a toolkit's own package first, then those that it stands on, as its image has them."""
    below = [part for ending, parts in STANDS_ON.items() if toolkit.endswith(ending) for part in parts]
    return {"PYTHONPATH": ":".join(str(sources[part]) for part in (toolkit, *below) if part in sources)}


def _mark(step: Step, state: Path) -> Path:
    return state / FOLDER / f"{step.name.replace(' ', '-')}.passed"


def _module(name: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", name, *arguments)


def _pytest(*arguments: str) -> tuple[str, ...]:
    return _module("pytest", "-q", *arguments)


def _workflows(project: Path) -> list[str]:
    return sorted(path.relative_to(project).as_posix() for path in project.glob(".github/workflows/*.yml"))


def _beside_python(program: str) -> str:
    """A program of the virtual environment, which need not be on PATH."""
    beside = Path(sys.executable).with_name(program)
    return str(beside) if beside.is_file() else program
