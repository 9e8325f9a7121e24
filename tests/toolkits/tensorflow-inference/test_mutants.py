"""A fault put into each file of the toolkit fails the test that is named for it in tests/toolkits/mutants.tsv."""

from __future__ import annotations

import pytest

from tests.toolkits import mutants

KEPT = mutants.of("tensorflow-inference")

#: Files with logic for which no fault is kept yet.
WITHOUT_A_FAULT = [
    "keras_export.py",
]


@pytest.fixture(scope="module")
def copied():
    with mutants.copy() as place:
        yield place


def test_each_file_with_logic_has_a_fault():
    assert mutants.lacking("tensorflow-inference") == WITHOUT_A_FAULT


@pytest.mark.slow
@pytest.mark.parametrize("mutant", KEPT, ids=lambda one: f"{one.file}: {one.after}")
def test_the_named_test_notices(copied, mutant):
    assert copied.failing(mutant, [mutant.test]) in (mutant.test, mutants.HUNG)
