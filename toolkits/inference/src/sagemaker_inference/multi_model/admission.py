"""Whether one more model fits into memory, judged before it is loaded.

Refusing early spares the models that serve: a load that overruns the container's limit may take one of them down. The
estimate is what the files of the model take on disk, and what a unit was seen to take beyond its files. A model that
has the container to itself may always try.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from sagemaker_inference import memory
from sagemaker_inference.multi_model import refusal
from sagemaker_inference.multi_model.model import Model

_MB = 1_000_000


@dataclass(frozen=True)
class _Need:
    """Bytes that a model is expected to take: its files, and what its processes take beside them."""

    files: int
    beside: int

    @property
    def total(self) -> int:
        return self.files + self.beside


class Admission:
    """Keeps account of loads under way, which have not taken yet what they will take."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._loading: dict[Model, _Need] = {}
        self._overhead: int | None = None

    async def admit(self, model: Model, others: bool) -> None:
        """Lets a load begin. others: whether other models could make room. Raises Refusal with 507."""
        async with self._lock:
            files = await asyncio.to_thread(memory.size_on_disk, model.source.folder)
            need = _Need(files, self._overhead or 0)
            free = await asyncio.to_thread(memory.free)
            if others and free is not None:
                free = max(0, free - await self._outstanding())
                if need.total > free:
                    raise refusal.no_memory(
                        f"Model {model.source.name!r} needs about {need.total / _MB:.0f} MB of memory "
                        f"({files / _MB:.0f} MB are its files), and {free / _MB:.0f} MB are free."
                    )
            self._loading[model] = need

    async def learn(self, model: Model) -> None:
        """Measures a model that was loaded: what the least greedy takes beyond its files, every other will take."""
        used = await model.used()
        beyond = max(0, used - self._loading[model].files)
        self._overhead = beyond if self._overhead is None else min(beyond, self._overhead)

    def settle(self, model: Model) -> None:
        """Ends the account of a load."""
        self._loading.pop(model, None)

    async def _outstanding(self) -> int:
        """Bytes that loads under way are still going to take."""
        loading = list(self._loading.items())
        taken = await asyncio.gather(*(model.used() for model, _ in loading))
        return sum(max(0, need.total - now) for (_, need), now in zip(loading, taken, strict=True))
