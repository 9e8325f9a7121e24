"""Rows of the pages in docs/contract: what each promises, and the tests that fail when it is broken.

A page has tables with the columns `id | kind | row | tests`, and says in a sentence that begins with "Tests are in"
which folders hold the tests that it names by file and function. `tests/unit/test_contract_rows.py` reads every such
page, so a new one needs no code.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "contract"

KINDS = ("platform", "reference", "ours")
HEADER = ("id", "kind", "row", "tests")

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_ID = re.compile(r"[A-Za-z0-9]+(-[a-z0-9]+)*-\d+[a-z]?")
_FOLDERS = re.compile(r"Tests are in ([^;:.]+)")
_NAMED = re.compile(r"`(test_\w+\.py)::(test_\w+)`")


@dataclass(frozen=True)
class Row:
    """One row of a page. tests: its last cell, which for a row that is not built (`not-…`) says why in a sentence."""

    page: str
    cells: tuple[str, ...]

    @property
    def identity(self) -> str:
        return self.cells[0]

    def faults(self) -> list[str]:
        """What is wrong with it, in words; nothing where it is right."""
        if len(self.cells) != len(HEADER):
            return [f"{len(self.cells)} cells, not {len(HEADER)}"]
        identity, kind, text, tests = self.cells
        found = [] if _ID.fullmatch(identity) else ["its id is not words and a number, joined by hyphens"]
        found += [] if kind in KINDS else [f"its kind is not one of {', '.join(KINDS)}"]
        found += [] if text.endswith(".") else ["its text is no sentence"]
        if identity.startswith("not-"):
            return found + ([] if tests.endswith(".") else ["it is not built, and does not say why"])
        named = _NAMED.findall(tests)
        if not named or tests != " ".join(f"`{file}::{function}`" for file, function in named):
            found.append("its last cell is no list of `test_file.py::test_function`")
        return found + [f"{file}::{name} does not exist" for file, name in named if name not in _tests(self.page, file)]


def pages() -> list[str]:
    """The pages that have such tables, by their names without ending."""
    return sorted(path.stem for path in FOLDER.glob("*.md") if _rows(path.stem))


def rows(*names: str) -> list[Row]:
    """The rows of these pages, or of all."""
    return [row for name in names or pages() for row in _rows(name)]


@cache
def _rows(page: str) -> tuple[Row, ...]:
    found: list[Row] = []
    inside = False
    for line in (FOLDER / f"{page}.md").read_text(encoding="utf-8").splitlines():
        cells = tuple(cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|"))
        if not line.startswith("|"):
            inside = False
        elif cells == HEADER:
            inside = True
        elif inside and set("".join(cells)) - {"-"}:
            found.append(Row(page, cells))
    return tuple(found)


@cache
def _tests(page: str, file: str) -> frozenset[str]:
    """The tests of a file, wherever it is in the page's folders: two folders may have files of one name."""
    text = " ".join((FOLDER / f"{page}.md").read_text(encoding="utf-8").split())
    named = _FOLDERS.search(text)
    folders = re.findall(r"`([^`]+)`", named[1]) if named else []
    assert folders, f"docs/contract/{page}.md says nowhere that its tests are in `tests/...`"
    paths = [path for folder in folders if (path := ROOT / folder / file).is_file()]
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in paths]
    return frozenset(node.name for tree in trees for node in tree.body if isinstance(node, _FUNCTIONS))
