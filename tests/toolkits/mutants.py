"""Small faults put into a toolkit's files, to see that a test fails: drawn by chance, or as kept in mutants.tsv.

    python -m tests.toolkits.mutants inference server/wire.py server/dispatch.py [--each 3] [--seed 1]

draws mutants of these files of the toolkit (without files: of all), runs the tests that may notice, and prints a line
of mutants.tsv for each, with the test that failed. Where none did, either a test is too weak, or the change means
nothing. A toolkit's `test_mutants.py` holds what is kept. Toolkits and tests are copied; the working tree stays as it
is.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
KEPT = Path(__file__).with_name("mutants.tsv")
SECONDS = 300
"""For the tests of one mutant; a mutant that makes them hang was noticed."""
HUNG = "(it hangs)"

_FLIPPED = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not",
    ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
_LOGIC = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.If, ast.IfExp, ast.For, ast.Try, ast.comprehension)
_WITHOUT = ("__main__.py", "_version.py")
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?::\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Mutant:
    """A changed line. file: below the toolkit's package; before: a line that is there once, without indentation."""

    toolkit: str
    file: str
    before: str
    after: str
    test: str = ""

    def __str__(self) -> str:
        return "\t".join((self.toolkit, self.file, self.before, self.after, self.test))


@dataclass(frozen=True)
class Copy:
    """A copy of the toolkits and their tests, in which one file at a time is changed."""

    root: Path

    def failing(self, mutant: Mutant, tests: Sequence[str]) -> str:
        """The first test that fails with a mutant; empty when none does."""
        path = self.root / source(mutant.toolkit, mutant.file).relative_to(ROOT)
        text = path.read_text(encoding="utf-8")
        path.write_text(changed(text, mutant), encoding="utf-8")
        try:
            return self.run(mutant.toolkit, tests)
        finally:
            path.write_text(text, encoding="utf-8")

    def noticing(self, toolkit: str, file: str) -> list[str]:
        """The test files that may notice a change: all that need no container, those of its own part first."""
        folder = self.root / "tests" / "toolkits" / toolkit
        names = sorted(path.name for path in folder.glob("test_*.py"))
        *parts, name = Path(file).with_suffix("").parts
        part = parts[0] if parts else ""

        def far(test: str) -> tuple[bool, bool, str]:
            near = part in test if part else not test.startswith(("test_server", "test_multi_model"))
            return name.strip("_") not in test, not near, test

        return sorted((name for name in names if "container" not in name and name != "test_mutants.py"), key=far)

    def run(self, toolkit: str, tests: Sequence[str]) -> str:
        """The first test that fails as the files are; empty when none does."""
        from slipway import steps

        step = next(step for step in steps.known(self.root, self.root / ".state") if step.name == f"toolkit {toolkit}")
        words = ["-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=1", "-m", "not integration and not slow"]
        try:
            done = subprocess.run(
                [sys.executable, "-m", "pytest", *words, *(f"tests/toolkits/{toolkit}/{test}" for test in tests)],
                cwd=self.root,
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONDONTWRITEBYTECODE": "1", **step.environment},
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return HUNG
        if done.returncode == 0:
            return ""
        found = _FAILED.search(done.stdout)
        if not found:
            raise RuntimeError(f"pytest ended with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
        return found[1].rpartition("/")[2]


@contextlib.contextmanager
def copy() -> Iterator[Copy]:
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        root = Path(scratch)
        left_out = shutil.ignore_patterns("__pycache__", ".*_cache", "*.egg-info")
        shutil.copytree(ROOT / "toolkits", root / "toolkits", ignore=left_out)
        shutil.copytree(ROOT / "tests" / "toolkits", root / "tests" / "toolkits", ignore=left_out)
        shutil.copytree(ROOT / "docs" / "contract", root / "docs" / "contract")
        shutil.copy(ROOT / "pyproject.toml", root)
        for path in (root / "tests").glob("**/serving.py"):
            # What never comes is given up sooner: many mutants make clients wait.
            path.write_text(path.read_text(encoding="utf-8").replace("BOUND = 60.0", "BOUND = 15.0"), encoding="utf-8")
        yield Copy(root)


def kept() -> list[Mutant]:
    """Those of mutants.tsv."""
    return [Mutant(*line.split("\t")) for line in KEPT.read_text(encoding="utf-8").splitlines() if line]


def of(toolkit: str) -> list[Mutant]:
    """Those of mutants.tsv for a toolkit. Raises ValueError where a line that is to be changed is not there once."""
    found = [one for one in kept() if one.toolkit == toolkit]
    for one in found:
        changed(source(one.toolkit, one.file).read_text(encoding="utf-8"), one)
    return found


def lacking(toolkit: str) -> list[str]:
    """Files of a toolkit's package that have logic and no row in mutants.tsv."""
    package = source(toolkit, "__init__.py").parent
    have = {one.file for one in of(toolkit)}
    files = {path.relative_to(package).as_posix(): path for path in package.rglob("*.py")}
    return sorted(
        name
        for name, path in files.items()
        if name not in have and path.name not in _WITHOUT and has_logic(path.read_text(encoding="utf-8"))
    )


def has_logic(text: str) -> bool:
    """Whether a file decides or does anything: one of names and constants alone needs no mutant."""
    return any(isinstance(node, _LOGIC) for node in ast.walk(ast.parse(text)))


def changed(text: str, mutant: Mutant) -> str:
    """A file's text with the mutant's line. Raises ValueError unless the line is there once."""
    lines = text.split("\n")
    found = [number for number, line in enumerate(lines) if line.strip() == mutant.before]
    if len(found) != 1:
        raise ValueError(f"{mutant.file} has the line {len(found)} times: {mutant.before}")
    line = lines[found[0]]
    lines[found[0]] = line[: len(line) - len(line.lstrip())] + mutant.after
    return "\n".join(lines)


def drawn(toolkit: str, file: str, count: int, chance: random.Random) -> list[Mutant]:
    """As many mutants of a file as it has places for, of lines that are there once."""
    text = source(toolkit, file).read_text(encoding="utf-8")
    lines = [line.strip() for line in text.split("\n")]
    found = []
    for number, start, end, replacement in _places(text):
        line = text.split("\n")[number - 1]
        after = (line[:start] + replacement + line[end:]).strip()
        if lines.count(line.strip()) == 1:
            found.append(Mutant(toolkit, file, line.strip(), after))
    return chance.sample(found, min(count, len(found)))


def _places(text: str) -> Iterator[tuple[int, int, int, str]]:
    """Line, first and last column, and what is put there; on lines of ASCII, since columns are counted in bytes."""
    tree = ast.parse(text)
    typed = {id(inner) for node in ast.walk(tree) for inner in _annotations(node)}
    for node in ast.walk(tree):
        if id(node) in typed or getattr(node, "lineno", 0) != getattr(node, "end_lineno", -1):
            continue
        line = text.split("\n")[node.lineno - 1]
        if not line.isascii():
            continue
        code = line[node.col_offset : node.end_col_offset]
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _FLIPPED:
            left, right = node.left, node.comparators[0]
            if left.end_col_offset and left.end_lineno == right.lineno:
                yield node.lineno, left.end_col_offset, right.col_offset, f" {_FLIPPED[type(node.ops[0])]} "
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            yield node.lineno, node.col_offset, node.end_col_offset or 0, f"({code} + 1)"
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
            yield node.lineno, node.col_offset, node.end_col_offset or 0, str(not node.value)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield node.lineno, node.col_offset, node.operand.col_offset, ""
        elif isinstance(node, ast.BoolOp):
            word, other = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            if f" {word} " in code and len(node.values) == 2:
                yield node.lineno, node.col_offset, node.end_col_offset or 0, code.replace(f" {word} ", f" {other} ", 1)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield node.lineno, node.col_offset, node.end_col_offset or 0, "pass"


def _annotations(node: ast.AST) -> Iterator[ast.AST]:
    for field in ("annotation", "returns"):
        if isinstance(inner := getattr(node, field, None), ast.AST):
            yield from ast.walk(inner)


def source(toolkit: str, file: str) -> Path:
    """A file of a toolkit's package."""
    (package,) = (path for path in (ROOT / "toolkits" / toolkit / "src").iterdir() if (path / "__init__.py").is_file())
    return package / file


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("toolkit")
    parser.add_argument("files", nargs="*")
    parser.add_argument("--each", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    package = source(given.toolkit, "__init__.py").parent
    files = given.files or sorted(path.relative_to(package).as_posix() for path in package.rglob("*.py"))
    chance = random.Random(given.seed)
    survived = 0
    with copy() as place:
        for file in files:
            for mutant in drawn(given.toolkit, file, given.each, chance):
                test = place.failing(mutant, place.noticing(given.toolkit, file))
                if test and test != HUNG and place.run(given.toolkit, [test]):
                    raise SystemExit(f"{test} fails without a mutant, too")
                survived += not test
                told = Mutant(mutant.toolkit, mutant.file, mutant.before, mutant.after, test or "SURVIVED")
                print(told, flush=True)
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
