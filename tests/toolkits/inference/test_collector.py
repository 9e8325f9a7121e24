"""The garbage collector around imports."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from sagemaker_inference import collector


@pytest.fixture(autouse=True)
def thaw() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_what_an_import_makes_is_not_looked_at_again() -> None:
    with collector.importing():
        made = [[] for _ in range(1000)]
    assert gc.get_freeze_count() >= len(made)
    assert not any(item is made[0] for item in gc.get_objects())


def test_thresholds_come_back_when_the_import_fails() -> None:
    former = gc.get_threshold()
    with pytest.raises(ImportError), collector.importing():
        assert gc.get_threshold() != former
        raise ImportError("of the user's")
    assert gc.get_threshold() == former
