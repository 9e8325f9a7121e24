"""A fault put into each file of the toolkit fails the test that is named for it in tests/toolkits/mutants.tsv."""

from __future__ import annotations

import pytest

from tests.toolkits import mutants

KEPT = mutants.of("inference")

#: Files with logic for which no fault is kept yet.
WITHOUT_A_FAULT = [
    "cgroup.py",
    "cli/serve.py",
    "model_server.py",
    "multi_model/__init__.py",
    "multi_model/link.py",
    "multi_model/metrics.py",
    "multi_model/processes.py",
    "multi_model/router.py",
    "multi_model/unit.py",
    "overlay.py",
    "requirement_lines.py",
    "server/unit.py",
    "server/worker.py",
]


@pytest.fixture(scope="module")
def copied():
    with mutants.copy() as place:
        yield place


def test_each_file_with_logic_has_a_fault():
    assert mutants.lacking("inference") == WITHOUT_A_FAULT


@pytest.mark.slow
@pytest.mark.parametrize("mutant", KEPT, ids=lambda one: f"{one.file}: {one.after}")
def test_the_named_test_notices(copied, mutant):
    assert copied.failing(mutant, [mutant.test]) in (mutant.test, mutants.HUNG)
