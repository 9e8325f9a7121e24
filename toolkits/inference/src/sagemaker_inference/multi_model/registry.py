"""The models of the container by name, and the rules of loading and unloading them."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import logging
import os
import time
from collections.abc import Mapping

from sagemaker_inference.multi_model import names, refusal
from sagemaker_inference.multi_model.admission import Admission
from sagemaker_inference.multi_model.devices import Devices
from sagemaker_inference.multi_model.model import Limits, Model, State
from sagemaker_inference.multi_model.refusal import Refusal
from sagemaker_inference.multi_model.unit import Source, UnitFailed

logger = logging.getLogger(__name__)

_LISTED = (State.SERVING, State.RESTARTING, State.DEAD)
# What the system is short of when it refuses a process, a file or a folder.
_SHORT_OF_RESOURCES = (errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOSPC)


class Registry:
    """The models. handler: the framework's functions, for every unit. root: a private folder for all units."""

    def __init__(self, handler: str, root: str, environ: Mapping[str, str], limits: Limits) -> None:
        self._handler = handler
        self._root = root
        self._environ = environ
        self._limits = limits
        self._models: dict[str, Model] = {}
        self._folders = itertools.count(1)
        self._admission = Admission()
        self._devices = Devices(environ)

    async def load(self, name: str, url: str) -> None:
        """Returns when the model serves. Raises Refusal; then nothing of the load is left."""
        if name in self._models:
            raise refusal.conflict(f"Model {name!r} {self._models[name].state.value}.")
        if not os.path.exists(url):
            raise refusal.not_found(f"Model {name!r} cannot be loaded: there is no {url}.")
        if not os.path.isdir(url):
            raise refusal.bad_request(f"Model {name!r} cannot be loaded: {url} is no folder.")
        started = time.monotonic()
        # Nothing is awaited between the question above and this: of several loads of a name one comes here.
        model = self._models[name] = self._new(name, url)
        try:
            await self._admission.admit(model, others=len(self._models) > 1)
            await model.load()
            await self._admission.learn(model)
        except BaseException as error:
            await model.kill()
            self._forget(name)
            if isinstance(error, (Refusal, UnitFailed, OSError)):
                cause = _refusal(name, error)
                logger.error("%s", cause.message)
                raise cause from error
            raise
        finally:
            self._admission.settle(model)
        logger.info("model %r is loaded from %s, in %.1f s", name, url, time.monotonic() - started)

    async def unload(self, name: str) -> None:
        """Returns when the model's memory and sockets are given back. Raises Refusal."""
        await self.get(name).unload()
        self._forget(name)
        logger.info("model %r is unloaded", name)

    def _new(self, name: str, url: str) -> Model:
        device = self._devices.take()
        environ = {**self._environ, **self._devices.variables(device)}
        folder = os.path.join(self._root, str(next(self._folders)))
        return Model(Source(name, url, self._handler, device), folder, environ, self._limits)

    def _forget(self, name: str) -> None:
        self._devices.give_back(self._models.pop(name).source.device)

    def get(self, name: str) -> Model:
        """A model that is loaded, or was until it died. Raises Refusal."""
        model = self._models.get(name)
        if model is None:
            raise refusal.not_found(f"Model {name!r} is not loaded.")
        if model.state in (State.LOADING, State.UNLOADING):
            raise refusal.not_found(f"Model {name!r} is not loaded: it {model.state.value}.")
        return model

    def models(self) -> list[Model]:
        """All models, those too that are being loaded or unloaded."""
        return list(self._models.values())

    def page(self, limit: int, after: str) -> tuple[list[Model], str | None]:
        """Models in the order of their names, from behind a name; and the token of the next page, if there is one."""
        known = sorted(name for name, model in self._models.items() if model.state in _LISTED and name > after)
        shown = known[:limit]
        return [self._models[name] for name in shown], names.token(shown[-1]) if len(known) > limit else None

    async def close(self, grace: float) -> None:
        """Ends every model: those that serve finish their requests, for at most a grace in seconds."""
        models = self.models()
        unloading = asyncio.gather(*(model.unload() for model in models if model.state in _LISTED))
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(unloading, grace)
        await asyncio.gather(*(model.kill() for model in models))


def _refusal(name: str, error: Refusal | UnitFailed | OSError) -> Refusal:
    if isinstance(error, Refusal):
        return error
    text = f"Model {name!r} cannot be loaded: {error}"
    short = error.end.out_of_memory if isinstance(error, UnitFailed) else error.errno in _SHORT_OF_RESOURCES
    return refusal.no_memory(text) if short else refusal.failed(text)
