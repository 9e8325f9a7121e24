"""The project's own contracts: checks, their functions, their mutants and their document belong together."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from slipway.verify import contract, report

PROJECT = Path(__file__).parents[3]
CHECKS = PROJECT / "tests/contract"
KINDS = contract.kinds(PROJECT)

FUNCTIONS = [
    node.name
    for path in sorted(CHECKS.rglob("test_*.py"))
    for node in ast.parse(path.read_text(encoding="utf-8")).body
    if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
]


def all_checks() -> list[contract.Check]:
    return [check for kind in KINDS for check in contract.load(PROJECT, kind).checks]


def test_there_is_a_training_contract() -> None:
    assert "training" in KINDS


def test_every_check_has_a_function_and_every_function_a_check() -> None:
    assert sorted(FUNCTIONS) == sorted({check.function for check in all_checks()})


def test_every_check_has_a_mutant_and_every_mutant_a_check() -> None:
    mutants = {path.stem.partition("+")[0] for path in (CHECKS / "mutants").glob("*.Dockerfile")}
    assert mutants == {check.id for check in all_checks()}


def test_the_checks_know_nothing_of_the_mutants() -> None:
    for path in CHECKS.rglob("*"):
        if path.is_file() and path.suffix in (".py", ".yml", ".sh") and path.parent.name != "mutants":
            assert "mutant" not in path.read_text(encoding="utf-8").lower(), path


def test_the_document_is_up_to_date() -> None:
    wanted = report.register([contract.load(PROJECT, kind) for kind in KINDS])
    again = "run `invoke checks --markdown > docs/contract/checks.md`"
    assert (PROJECT / "docs/contract/checks.md").read_text(encoding="utf-8") == wanted, again


EDIT = re.compile(r"edit\.py (?P<module>[\w.]+) <<'EDIT'\n(?P<old>.*?)=======\n(?P<new>.*?)EDIT\n", re.DOTALL)
EDITS = [
    (path.stem, found)
    for path in sorted((CHECKS / "mutants").glob("*.Dockerfile"))
    for found in EDIT.finditer(path.read_text(encoding="utf-8"))
    if not found["module"].startswith("torch.")  # not ours: edit.py itself holds it to its text
]


@pytest.mark.parametrize(("mutant", "edit"), EDITS, ids=[name for name, _ in EDITS])
def test_a_mutants_edit_fits_the_toolkit_as_it_is(mutant: str, edit: re.Match[str]) -> None:
    module = edit["module"] if edit["module"].startswith("sagemaker_") else f"sagemaker_training.{edit['module']}"
    (source,) = PROJECT.glob(f"toolkits/*/src/{module.replace('.', '/')}.py")
    text = source.read_text(encoding="utf-8")
    assert text.count(edit["old"]) == 1, f"adapt tests/contract/mutants/{mutant}.Dockerfile to {source.name}"
    compile(text.replace(edit["old"], edit["new"]), str(source), "exec")
