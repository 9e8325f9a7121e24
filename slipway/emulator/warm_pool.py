"""The cache folder of a warm pool: what one job leaves there, the next one of the same pool finds.

Source of the rules: the SageMaker developer guide, "Train Using SageMaker Managed Warm Pools" (persistent cache).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from slipway.engine.docker import Mount
from slipway.errors import InputError
from slipway.files import locked, naming_full_disk

CACHE = "/opt/ml/sagemaker/warmpoolcache"
VARIABLE = "SAGEMAKER_MANAGED_WARMPOOL_CACHE_DIRECTORY"


@contextlib.contextmanager
def held(pool: Path | None) -> Iterator[None]:
    """Hold a pool for one job, as an instance runs one job at a time. Raises InputError when another has it."""
    if pool is None:
        yield
        return

    def refuse() -> None:
        raise InputError(f"another job runs in the warm pool {pool.name}", fix="wait for its end, or name another pool")

    with locked(pool.with_name(f".{pool.name}.lock"), waiting=refuse):
        yield


def mount(pool: Path, host: str) -> Mount:
    """A host's own part of the cache, which any user of the container may write."""
    folder = pool / host
    with naming_full_disk(folder):
        folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o777)
    return Mount(folder.resolve(), CACHE)
