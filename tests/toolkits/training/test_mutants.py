"""A fault put into a file of a training toolkit fails the test that is named for it in tests/toolkits/mutants.tsv."""

from __future__ import annotations

import pytest

from tests.toolkits import mutants

TOOLKITS = ("training", "pytorch-training", "tensorflow-training", "mxnet-training")
KEPT = [one for toolkit in TOOLKITS for one in mutants.of(toolkit)]


@pytest.fixture(scope="module")
def copied():
    with mutants.copy() as place:
        yield place


@pytest.mark.parametrize("toolkit", TOOLKITS[1:])
def test_each_file_with_logic_has_a_fault(toolkit):
    assert mutants.lacking(toolkit) == []


@pytest.mark.slow
@pytest.mark.parametrize("mutant", KEPT, ids=lambda one: f"{one.toolkit}/{one.file}: {one.after}")
def test_the_named_test_notices(copied, mutant):
    assert copied.failing(mutant, [mutant.test]) in (mutant.test, mutants.HUNG)
