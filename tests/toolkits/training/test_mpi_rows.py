"""Every row about MPI, TensorFlow and MXNet jobs names tests that exist, and every row that is not built says why."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TESTS = ROOT / "tests"
FOLDERS = {
    "mpi": ("toolkits/training", "integration"),
    "tensorflow-training": ("toolkits/tensorflow-training", "toolkits/training", "integration"),
    "mxnet-training": ("toolkits/mxnet-training", "integration"),
}


def rows(document: str):
    """(document, id, kind, row, last cell) of each table row."""
    for line in (ROOT / "docs" / "contract" / f"{document}.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("| ") and cells[0] != "id":
            yield (document, *cells)


ROWS = [row for document in FOLDERS for row in rows(document)]


def functions(document: str, name: str) -> set[str]:
    """Tests of a file. Two folders may have files of one name."""
    paths = [TESTS / folder / name for folder in FOLDERS[document]]
    return {
        node.name
        for path in paths
        if path.exists()
        for node in ast.parse(path.read_text()).body
        if hasattr(node, "name")
    }


def test_ids_are_unique():
    ids = [(row[0], row[1]) for row in ROWS]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("row", ROWS, ids=[f"{row[0]}:{row[1]}" for row in ROWS])
def test_row(row):
    document, identity, kind, text, last = row
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*-\d+", identity)
    assert kind in ("platform", "reference", "ours")
    assert text.endswith(".")
    if identity.startswith("not-"):
        assert last.endswith(".")
        return
    named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", last)
    assert named
    assert last == " ".join(f"`{file}::{function}`" for file, function in named)
    for file, function in named:
        assert function in functions(document, file), f"{file}::{function} does not exist"
