"""Every row of docs/contract names tests that exist, and every row that is not built says why."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.toolkits import rows

# A page that loses its table would be held by nothing.
PAGES = {
    "huggingface-inference",
    "inference",
    "mpi",
    "multi-model",
    "mxnet-inference",
    "mxnet-training",
    "pytorch-inference",
    "pytorch-training",
    "serving",
    "tensorflow-inference",
    "tensorflow-training",
    "training",
}

ROWS = rows.rows()


def test_no_page_has_lost_its_rows() -> None:
    assert set(rows.pages()) >= PAGES


@pytest.mark.parametrize("page", rows.pages())
def test_ids_are_used_once(page: str) -> None:
    assert [identity for identity, n in Counter(row.identity for row in rows.rows(page)).items() if n > 1] == []


@pytest.mark.parametrize("row", ROWS, ids=[f"{row.page}:{row.identity}" for row in ROWS])
def test_row(row: rows.Row) -> None:
    assert row.faults() == []


PAGE = """\
# A page

Tests are in `tests/unit/` and
`tests/none/`; more words.

| id | kind | row | tests |
|---|---|---|---|
| good-1 | ours | It holds. | `test_contract_rows.py::test_row` |
| not-good-2 | ours | It does not. | Nobody asked. |
{row}

| other | table |
|---|---|
| is | left alone |
"""


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ("| bad-1 | ours | It holds. | `test_contract_rows.py::test_gone` |", "test_gone does not exist"),
        ("| bad-1 | ours | It holds. | `test_gone.py::test_row` |", "test_gone.py::test_row does not exist"),
        ("| bad-1 | ours | It holds. | |", "no list of"),
        ("| bad-1 | ours | It holds. | see `test_contract_rows.py::test_row` |", "no list of"),
        ("| bad-1 | hers | It holds. | `test_contract_rows.py::test_row` |", "kind"),
        ("| bad | ours | It holds. | `test_contract_rows.py::test_row` |", "id"),
        ("| bad-1 | ours | It holds | `test_contract_rows.py::test_row` |", "no sentence"),
        ("| not-bad-1 | ours | It does not. | no |", "does not say why"),
        ("| bad-1 | ours | It | holds. | `test_contract_rows.py::test_row` |", "5 cells"),
    ],
)
def test_a_bad_row_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: str, fault: str) -> None:
    (tmp_path / f"{tmp_path.name}.md").write_text(PAGE.format(row=row))
    monkeypatch.setattr(rows, "FOLDER", tmp_path)
    first, second, bad = rows.rows(tmp_path.name)
    assert first.faults() == second.faults() == []
    (told,) = bad.faults()
    assert fault in told
