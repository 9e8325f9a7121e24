"""A fault put into each file of the toolkit fails the test that is named for it in tests/toolkits/mutants.tsv."""

from __future__ import annotations

import pytest

from tests.toolkits import mutants


@pytest.fixture(scope="module")
def copied():
    with mutants.copy() as place:
        yield place


KEPT = [one for one in mutants.kept() if one.toolkit == "inference"]


def test_lines_that_are_to_be_changed_are_still_there():
    assert KEPT
    for one in KEPT:
        assert mutants.changed(mutants.source(one.toolkit, one.file).read_text(), one)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", KEPT, ids=lambda one: f"{one.file}: {one.after}")
def test_the_named_test_notices(copied, mutant):
    assert copied.failing(mutant, [mutant.test]) in (mutant.test, mutants.HUNG)
