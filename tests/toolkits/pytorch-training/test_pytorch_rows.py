"""Every row of docs/contract/pytorch-training.md names tests that exist, and every row that is not built says why."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOLDERS = [ROOT / "tests" / name for name in ("toolkits/pytorch-training", "toolkits/training", "integration")]
DOCUMENT = ROOT / "docs" / "contract" / "pytorch-training.md"


def rows():
    """(id, kind, row, last cell) of each table row."""
    for line in DOCUMENT.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("| ") and cells[0] != "id":
            yield tuple(cells)


ROWS = list(rows())


def functions(name):
    """Tests of a file. Two folders may have files of one name."""
    found = [path for path in (folder / name for folder in FOLDERS) if path.exists()]
    return {node.name for path in found for node in ast.parse(path.read_text()).body if hasattr(node, "name")}


def test_rows_are_many_and_their_ids_unique():
    ids = [row[0] for row in ROWS]
    assert len(ids) == len(set(ids))
    assert len(ids) > 40


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_row(row):
    assert len(row) == 4
    identity, kind, text, last = row
    assert re.fullmatch(r"[a-z]+-\d+", identity)
    assert kind in ("platform", "reference", "ours")
    assert text.endswith(".")
    if identity.startswith("not-"):
        assert last.endswith(".")
        return
    named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", last)
    assert named
    assert last == " ".join(f"`{file}::{function}`" for file, function in named)
    for file, function in named:
        assert function in functions(file), f"{file}::{function} does not exist"
