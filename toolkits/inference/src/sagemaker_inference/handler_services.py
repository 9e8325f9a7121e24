"""Handler services: a module, or a file, that says how a model is served.

Its form is one of these, looked for in this order:

- a function ``service(settings, place)`` that returns a Service,
- a class with ``initialize(context)`` and ``handle(data, context)``,
- a function ``handle(data, context)``, called once with data None before the first request.

The last two are those of Multi Model Server and TorchServe.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from types import ModuleType
from typing import Any

from sagemaker_inference import collector, logging, modules
from sagemaker_inference.context import Context
from sagemaker_inference.default_handler_service import DefaultHandlerService
from sagemaker_inference.function_service import FunctionService
from sagemaker_inference.old_service import OldService
from sagemaker_inference.service import Place, Service
from sagemaker_inference.settings import Settings
from sagemaker_inference.transformer import Transformer

_log = logging.get_logger(__name__)

_CLASS_NAMES = ("HandlerService", "DefaultHandlerService")

# What may not be overridden for the quick way to serve: these run with each request.
_ON_THE_PATH: dict[type, tuple[str, ...]] = {
    Transformer: ("transform", "handle_error", "_default_transform_fn", "_run_handler_function", "_transform_one"),
    DefaultHandlerService: ("handle",),
}


def load(settings: Settings, place: Place, handler_service: str) -> Service:
    """The loaded service; SAGEMAKER_HANDLER wins over handler_service."""
    named = settings.handler or handler_service
    modules.prepare_path(settings, place.model_dir)
    with collector.importing():
        module, attribute = _import(named)
    make = getattr(module, "service", None)
    if attribute is None and inspect.isfunction(make):
        made: Service = make(settings, place)
        return made
    instance = _instance(module, attribute, named)
    transformer = getattr(instance, "_service", None)
    if isinstance(transformer, Transformer):
        transformer.use(settings)
    context = Context(place)
    if hasattr(instance, "initialize"):
        instance.initialize(context)
    else:
        instance.handle(None, context)
    if isinstance(instance, DefaultHandlerService) and isinstance(transformer, Transformer) and transformer.is_loaded:
        _log.info(transformer.served.describe())
        if _unchanged(instance, DefaultHandlerService) and _unchanged(transformer, Transformer):
            return FunctionService(transformer.served, settings, place)
        if transformer.served.asynchronous:
            raise TypeError(f"{named} replaces the way functions are called, which then cannot be async.")
    return OldService(instance, settings, place)


def _import(named: str) -> tuple[ModuleType, str | None]:
    """The module, and the name behind a colon."""
    path, _, attribute = named.partition(":")
    if not path.endswith(".py") and "/" not in path:
        return importlib.import_module(path), attribute or None
    if not os.path.isfile(path):
        raise FileNotFoundError(f"The handler service {path} is no file.")
    folder, name = os.path.split(os.path.abspath(path))
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(name.removesuffix(".py"), path)
    if spec is None or spec.loader is None:
        raise ImportError(f"The handler service {path} is no Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module, attribute or None


def _instance(module: ModuleType, attribute: str | None, named: str) -> Any:
    """Something with ``handle``."""
    if attribute:
        return _made(getattr(module, attribute))
    classes = {name: value for name, value in vars(module).items() if _is_service_class(value)}
    own = [name for name, value in classes.items() if value.__module__ == module.__name__]
    # What a module defines itself is meant before what it only imports.
    chosen = own if len(own) == 1 else [name for name in _CLASS_NAMES if name in own]
    if chosen:
        return classes[chosen[0]]()
    if inspect.isfunction(getattr(module, "handle", None)):
        return module
    imported = [name for name in _CLASS_NAMES if name in classes]
    if imported and not own:
        return classes[imported[0]]()
    found = ", ".join(own) or "none"
    raise TypeError(
        f"{named} holds no handler service: it must have a function service(settings, place), one class with "
        f"initialize(context) and handle(data, context) (found: {found}), or a function handle(data, context)."
    )


def _made(value: Any) -> Any:
    if inspect.isclass(value):
        return value()
    return _Function(value) if inspect.isroutine(value) else value


def _is_service_class(value: object) -> bool:
    return inspect.isclass(value) and callable(getattr(value, "handle", None))


def _unchanged(instance: object, kind: type) -> bool:
    return all(getattr(type(instance), name) is getattr(kind, name) for name in _ON_THE_PATH[kind])


class _Function:
    """A function in the place of a service."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
