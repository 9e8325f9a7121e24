"""A model with the functions that serve it, where the kind of the model chooses the defaults."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

from sagemaker_inference.model import Model

from sagemaker_mxnet_serving_container.default_inference_handler import (
    DefaultGluonBlockInferenceHandler,
    DefaultModuleInferenceHandler,
    DefaultMXNetInferenceHandler,
)


class MXNetModel(Model):
    """Loads the model once, and then knows what serves it.

    Raises ValueError at `load` for a model that is neither a module nor a Gluon block, where a default would have to
    serve it.
    """

    def __init__(self, module: types.ModuleType | None) -> None:
        self._defaults = ByKind()
        super().__init__(_with_model_bound(module, self._loaded), self._defaults)

    def load(self, model_dir: str, context: Any) -> None:
        super().load(model_dir, context)
        defaults = [hook.name for hook in (self.input, self.predict, self.output) if not hook.users]
        if not self.whole and defaults:
            self._defaults.choose(self.value, defaults)

    def _loaded(self) -> Any:
        return self.value


class ByKind(DefaultMXNetInferenceHandler):
    """The default functions of a model whose kind is known once it is loaded."""

    def __init__(self) -> None:
        self._model: Any = None
        self._chosen: DefaultMXNetInferenceHandler = self

    def choose(self, model: Any, functions: list[str]) -> None:
        """functions: those that the user did not give. Raises ValueError for a model of neither kind."""
        import mxnet as mx

        if isinstance(model, mx.mod.BaseModule):
            self._chosen = DefaultModuleInferenceHandler()
        elif isinstance(model, mx.gluon.Block):
            self._chosen = DefaultGluonBlockInferenceHandler()
        else:
            raise ValueError(
                f"model_fn gave a {type(model).__name__}, which has no default {', '.join(functions)}. Give a model_fn "
                "that returns an mx.mod.Module or an mx.gluon.Block, or a transform_fn, or those functions."
            )
        self._model = model

    def default_input_fn(self, input_data: Any, content_type: str | None, context: Any = None) -> Any:
        if isinstance(self._chosen, DefaultModuleInferenceHandler):
            return self._chosen.default_input_fn(input_data, content_type, context, model=self._model)
        return self._chosen.default_input_fn(input_data, content_type, context)

    def default_predict_fn(self, data: Any, model: Any, context: Any = None) -> Any:
        return self._chosen.default_predict_fn(data, model, context)

    def default_output_fn(self, prediction: Any, accept: str, context: Any = None) -> Any:
        return self._chosen.default_output_fn(prediction, accept, context)


def _with_model_bound(module: types.ModuleType | None, model: Callable[[], Any]) -> types.ModuleType | None:
    """The user's module; an input_fn that takes the model by name has it filled in, and keeps its other parameters."""
    function = getattr(module, "input_fn", None)
    if module is None or not callable(function) or "model" not in _parameters(function):
        return module
    bound = types.ModuleType(module.__name__)
    vars(bound).update(vars(module), input_fn=bind(function, model))
    return bound


def bind(function: Callable[..., Any], model: Callable[[], Any]) -> Callable[..., Any]:
    """A function without its parameter ``model``, which is what `model` gives at the time of the call."""
    signature = inspect.signature(function)
    others = [item for item in signature.parameters.values() if item.name != "model"]
    place = list(signature.parameters).index("model")
    keyword_only = signature.parameters["model"].kind is inspect.Parameter.KEYWORD_ONLY

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        if keyword_only or len(arguments) < place:
            return function(*arguments, model=model())
        return function(*arguments[:place], model(), *arguments[place:])

    call.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
    return call


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    try:
        return tuple(inspect.signature(function).parameters)
    except (ValueError, TypeError):
        return ()
