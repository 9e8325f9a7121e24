"""The page on clients and the tests of clients know each other."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/contract/clients.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("| v")]


def written_in(file: str) -> set[str]:
    tree = ast.parse((ROOT / "tests/integration" / file).read_text(encoding="utf-8"))
    names = (node.name for node in tree.body if isinstance(node, ast.FunctionDef))
    return {f"{file}::{name}" for name in names if name.startswith("test_")}


def test_every_row_names_tests_that_exist_and_every_test_has_a_row() -> None:
    named = [set(re.findall(r"`(test_\w+\.py::\w+)`", tests)) for _, _, tests in ROWS]
    assert all(named), "a row without a test"
    assert set().union(*named) == written_in("test_sdk_v2.py") | written_in("test_sdk_v3.py")


def test_ids_are_not_used_twice() -> None:
    ids = [row[0] for row in ROWS]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(("version", "package"), [("v2", "sagemaker"), ("v3", "sagemaker-train")])
def test_the_locks_hold_the_sdks_that_the_page_names_and_nothing_of_a_host(version: str, package: str) -> None:
    text = (ROOT / f"tests/integration/clients/sdk-{version}.lock").read_text(encoding="utf-8")
    (release,) = re.findall(rf"^{package}==(\d+\.\d+)\.\d+ ", text, flags=re.MULTILINE)
    assert f"{version} is `{package}` {release}" in " ".join(PAGE.split())
    assert not re.search(r"^-|://", text, flags=re.MULTILINE)
    pins = re.findall(r"^[a-z0-9._-]+==\S+ \\\n    --hash=sha256:", text, flags=re.MULTILINE)
    assert len(pins) == len(re.findall(r"^[a-z0-9]", text, flags=re.MULTILINE))
