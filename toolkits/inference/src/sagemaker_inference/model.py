"""A model with the functions that serve it: the user's where there are any, else the handler's defaults."""

from __future__ import annotations

import asyncio
from types import ModuleType
from typing import Any

from sagemaker_inference import functions, logging
from sagemaker_inference.default_inference_handler import DefaultInferenceHandler
from sagemaker_inference.functions import Hook

_log = logging.get_logger(__name__)


class Model:
    """Functions, checked when it is made, and the loaded model, once ``load`` was called."""

    def __init__(self, module: ModuleType | None, handler: Any = None) -> None:
        """handler: has the defaults, see DefaultInferenceHandler.

        Raises TypeError or ValueError for wrong functions, NotImplementedError where one is lacking.
        """
        handler = handler or DefaultInferenceHandler()
        found = functions.find(module)

        def own(name: str) -> Hook | None:
            return functions.hook(name, found[name], users=True) if name in found else None

        def default(name: str) -> Hook | None:
            function = getattr(handler, f"default_{name}", None)
            return functions.hook(name, function, users=False) if function else None

        def needed(name: str) -> Hook:
            hook = own(name) or default(name)
            if hook is None:
                raise NotImplementedError(f"Please provide a {name}: {type(handler).__name__} has no default for it.")
            return hook

        self.value: Any = None
        self.pre_model, self.warmup = (own(name) or default(name) for name in ("pre_model_fn", "model_warmup_fn"))
        self.model = needed("model_fn")
        self.transform, self.batch_transform = own("transform_fn"), own("batch_transform_fn")
        self.input, self.predict, self.output = (needed(name) for name in ("input_fn", "predict_fn", "output_fn"))
        self.batch_predict = own("batch_predict_fn")
        self.bidirectional = own("bidirectional_fn")
        if self.bidirectional and (self.bidirectional.awaitable or not self.bidirectional.asynchronous):
            raise TypeError("bidirectional_fn must be an async generator: async def, with yield for each message.")
        self._names = tuple(found)
        # A model that can answer nothing must not become ready. Without a way to load one either, load() says more.
        loads = self.model.users or not _is_bare(handler, "default_model_fn")
        answers = self.whole or self.batch_predict or self.predict.users or self.bidirectional
        if loads and not answers and _is_bare(handler, "default_predict_fn"):
            handler.default_predict_fn(None, None)

    @property
    def whole(self) -> bool:
        """Whether one function makes the answer out of the body."""
        return bool(self.transform or self.batch_transform)

    @property
    def batches(self) -> bool:
        """Whether the user has a function for groups of requests."""
        return bool(self.batch_predict or self.batch_transform)

    @property
    def only_batches(self) -> bool:
        """Whether even one request goes to the function for groups, for want of another."""
        single = self.transform or (self.predict.users and not self.whole)
        return self.batches and not single

    @property
    def asynchronous(self) -> bool:
        if self.whole:
            used = [self.transform, self.batch_transform]
        else:
            used = [self.input, self.predict, self.output, self.batch_predict]
        return any(hook.asynchronous for hook in used if hook)

    def describe(self) -> str:
        """Which functions are the user's, for the log."""
        return f"User functions: {', '.join(self._names) or 'none'}; the rest are defaults."

    def load(self, model_dir: str, context: Any) -> None:
        """pre_model_fn, model_fn, model_warmup_fn, once each, in this order."""
        if self.pre_model:
            _finished(self.pre_model, self.pre_model.call(model_dir, context))
        self.value = _finished(self.model, self.model.call(model_dir, context))
        if self.warmup:
            _finished(self.warmup, self.warmup.call(model_dir, self.value, context))


def _finished(hook: Hook, result: Any) -> Any:
    """The result of a function that runs before there are requests; an async one has an event loop of its own."""
    return asyncio.run(result) if hook.awaitable else result


def _is_bare(handler: Any, name: str) -> bool:
    """Whether a default only raises, since no toolkit of a framework has given another."""
    return getattr(type(handler), name, None) is getattr(DefaultInferenceHandler, name)
