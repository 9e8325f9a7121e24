"""When the garbage collector looks: seldom while modules are imported, and never again at what they made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_SELDOM = (100_000, 50, 100)
"""A framework's import makes half a million objects that all stay: a tenth of its time is the collector's."""


@contextmanager
def importing() -> Iterator[None]:
    """For a block that imports user code or a framework."""
    former = gc.get_threshold()
    gc.set_threshold(*_SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*former)
        gc.freeze()
