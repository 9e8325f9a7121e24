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

_INTEGRATION = "mark.integration"
_PYTEST = re.compile(r"^=*\s*\d+ (passed|failed|error|skipped|xfailed|deselected).*")


@dataclass(frozen=True)
class Step:
    """Programs that must all end with 0, run in the project's root. `slow`: part of `check --all` only."""

    name: str
    commands: tuple[tuple[str, ...], ...]
    slow: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: str = "."


@dataclass(frozen=True)
class Outcome:
    """How a step ended: `passed`, `failed`, or `kept` (it passed before on the same files).

    `summary` is pytest's closing line, `tail` the last lines of a step that failed.
    """

    name: str
    status: str
    seconds: float
    summary: str
    log: str
    tail: tuple[str, ...] = ()


def known(project: Path) -> list[Step]:
    """Every step, cheapest first."""
    toolkits = sorted(path.parent.name for path in (project / "toolkits").glob("*/pyproject.toml"))
    sources = {name: project / "toolkits" / name / "src" for name in toolkits}
    tried = [name for name in toolkits if _tests(project, name)]
    contained = [name for name in tried if any(_INTEGRATION in path.read_text() for path in _tests(project, name))]
    return [
        Step(
            "lint",
            (
                _module("ruff", "check", "."),
                _module("ruff", "format", "--check", "."),
                *(_module("ruff", "check", f"toolkits/{name}") for name in toolkits),
                (_beside_python("shellcheck"), "run", ".ci/run"),
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
                (_pytest(f"tests/toolkits/{name}", "-m", "not integration"),),
                environment=_python_path(name, sources),
            )
            for name in tried
        ),
        Step("golden", (_pytest("tests/golden"),)),
        # Integration tests start from these images. GPU images are built where they are released.
        Step("images", (_module("invoke", "build", "--all", "--processor", "cpu"),)),
        Step("integration", (_pytest("tests/integration", "-m", "not slow"),)),
        *(
            Step(
                f"toolkit {name} in containers",
                (_pytest(f"tests/toolkits/{name}", "-m", "integration"),),
                environment=_python_path(name, sources),
            )
            for name in contained
        ),
        # A verdict that is on file for the same image and checks is not made again.
        Step("contract", (_module("invoke", "verify", "--all", "--processor", "cpu"),)),
        Step("slow", (_pytest("tests/integration", "-m", "slow"),), slow=True),
    ]


def run(step: Step, project: Path, state: Path, on_line: Callable[[str], None]) -> Outcome:
    """Run a step to its end, or to its first program that fails; the whole output goes to its log."""
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


def _beside_python(program: str) -> str:
    """A program of the virtual environment, which need not be on PATH."""
    beside = Path(sys.executable).with_name(program)
    return str(beside) if beside.is_file() else program
