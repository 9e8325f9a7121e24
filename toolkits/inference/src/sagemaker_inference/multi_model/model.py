"""The life of one model: loaded, served, restarted when its unit dies, unloaded."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sagemaker_inference.multi_model import refusal
from sagemaker_inference.multi_model.unit import End, Source, Unit, UnitFailed

logger = logging.getLogger(__name__)

# Seconds before the first restart in a row, the second, and so on; the last value holds from there on.
_BACK_OFF = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0)

# For what the supervisor of a unit answers by itself.
_OWN_ANSWER_SECONDS = 2.0


class State(enum.Enum):
    LOADING = "is being loaded"
    SERVING = "is loaded"
    RESTARTING = "is being restarted"
    DEAD = "is dead"
    UNLOADING = "is being unloaded"


@dataclass(frozen=True)
class Limits:
    """load_seconds: for one load; None is no limit. drain_seconds: between SIGTERM and SIGKILL. restarts: in a row."""

    load_seconds: float | None
    drain_seconds: float
    restarts: int


class Model:
    """A model that the router knows. ``load`` comes first; ``use`` around each request; ``unload`` comes last."""

    def __init__(self, source: Source, folder: str, environ: Mapping[str, str], limits: Limits) -> None:
        self.source = source
        self.state = State.LOADING
        self._folder = folder
        self._environ = environ
        self._limits = limits
        self._unit: Unit | None = None
        self._watch: asyncio.Task[None] | None = None
        self._deaths = 0
        self._end = End("")
        self._requests = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def load(self) -> None:
        """Returns when the model serves. Raises UnitFailed, OSError; ``kill`` takes away what is left then."""
        os.mkdir(self._folder, 0o700)
        await self._start()
        self._watch = asyncio.create_task(self._keep_alive())

    async def unload(self) -> None:
        """Lets running requests finish, and ends the model. On return all that it had is given back."""
        await self._leave()
        await self._idle.wait()
        await self._stop(self._limits.drain_seconds)

    async def kill(self) -> None:
        """Ends the model at once. On return all that it had is given back."""
        await self._leave()
        await self._stop(0.0)

    async def used(self) -> int:
        """Bytes of memory that the model takes now."""
        return await self._unit.used() if self._unit else 0

    async def get(self, path: str) -> str | None:
        """What the model's server itself says at a path; None when it does not serve, or does not answer soon."""
        if self.state is not State.SERVING or self._unit is None:
            return None
        with contextlib.suppress(asyncio.TimeoutError):
            content = await asyncio.wait_for(self._unit.get(path), _OWN_ANSWER_SECONDS)
            return content.decode() if content is not None else None
        return None

    @contextlib.contextmanager
    def use(self) -> Iterator[Unit]:
        """The unit for one request. Raises Refusal when it cannot serve now."""
        if self.state is State.DEAD:
            raise refusal.unavailable(f"Model {self.source.name!r} is not served any more: {self._end.reason}")
        if self.state is State.RESTARTING:
            raise refusal.unavailable(f"Model {self.source.name!r} is being restarted: {self._end.reason}")
        if self.state is not State.SERVING or self._unit is None:
            raise refusal.not_found(f"Model {self.source.name!r} is not loaded: it {self.state.value}.")
        self._requests += 1
        self._idle.clear()
        try:
            yield self._unit
        finally:
            self._requests -= 1
            if not self._requests:
                self._idle.set()

    def answered(self) -> None:
        """A request was served: deaths before it do not count any more."""
        self._deaths = 0

    async def _start(self) -> None:
        unit = self._unit = await Unit.start(self.source, self._folder, self._environ)
        await unit.ready(self._limits.load_seconds)
        self.state = State.SERVING

    async def _leave(self) -> None:
        """Takes no more requests, and restarts nothing any more."""
        self.state = State.UNLOADING
        if self._watch:
            self._watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watch

    async def _stop(self, grace: float) -> None:
        if self._unit:
            await self._unit.stop(grace)
            self._unit = None
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    async def _keep_alive(self) -> None:
        """Restarts the unit when it ends, as often as the limits allow."""
        while self._unit and self.state is not State.DEAD:
            self._end = await self._unit.wait()
            self.state = State.RESTARTING
            while self.state is State.RESTARTING:
                await self._unit.stop(0.0)
                await self._restart()

    async def _restart(self) -> None:
        name = self.source.name
        self._deaths += 1
        if self._end.for_good or self._deaths > self._limits.restarts:
            self.state = State.DEAD
            logger.error("model %r is not served any more: %s", name, self._end.reason)
            return
        pause = _BACK_OFF[min(self._deaths, len(_BACK_OFF)) - 1]
        logger.warning("model %r died and is restarted in %g s: %s", name, pause, self._end.reason)
        await asyncio.sleep(pause)
        try:
            await self._start()
        except UnitFailed as failure:
            self._end = failure.end
        except OSError as error:
            self._end = End(f"The model's server cannot be started: {error}.")
