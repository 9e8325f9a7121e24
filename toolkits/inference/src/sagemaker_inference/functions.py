"""The user's functions: which there are, whether their signatures fit, and how each is called.

Everything is looked at once, before the model is loaded; a call costs nothing but the call.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from sagemaker_inference import logging

_log = logging.get_logger(__name__)

#: Positional arguments of each function; a context may follow.
ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "pre_model_fn": ("model_dir",),
    "model_fn": ("model_dir",),
    "model_warmup_fn": ("model_dir", "model"),
    "input_fn": ("input_data", "content_type"),
    "predict_fn": ("data", "model"),
    "output_fn": ("prediction", "accept"),
    "transform_fn": ("model", "input_data", "content_type", "accept"),
    # The same for a group of requests: lists of data, content types and accepts in, a list of as many out.
    "batch_predict_fn": ("data", "model"),
    "batch_transform_fn": ("model", "input_data", "content_type", "accept"),
    # A conversation: an async iterator of the client's messages in, an async iterator of ours out.
    "bidirectional_fn": ("messages", "model"),
}

_WHOLE = ("transform_fn", "batch_transform_fn")
_PARTS = ("input_fn", "predict_fn", "output_fn", "batch_predict_fn")

# What people write who remember another framework, too far from the real names to be called misspelt.
_COMMON_MISTAKES = {"load_model": "model_fn", "load_fn": "model_fn", "predict_func": "predict_fn"}


@dataclass(frozen=True)
class Hook:
    """One function, ready to be called with its arguments and then always a context."""

    name: str
    call: Callable[..., Any]
    users: bool
    """From the user's module, not a default."""
    awaitable: bool
    """Its result is awaited."""
    asynchronous: bool
    """It needs an event loop: awaitable, or an async generator."""


def find(module: ModuleType | None) -> dict[str, Callable[..., Any]]:
    """The functions of a user's module by name. Warns of names that look like a misspelt one.

    Raises TypeError for a name that is no function, ValueError for functions that exclude each other.
    """
    found: dict[str, Callable[..., Any]] = {}
    for name in ARGUMENTS:
        function = getattr(module, name, None)
        if function is None:
            continue
        if not callable(function):
            raise TypeError(f"{name} must be a function, and is {type(function).__name__}.")
        found[name] = function
    _check_exclusive(found)
    if module is not None:
        _warn_of_near_misses(module, found)
    return found


def hook(name: str, function: Callable[..., Any], *, users: bool) -> Hook:
    """A function with its signature checked. Raises TypeError that names the function and what it may take."""
    awaitable = _is(function, inspect.iscoroutinefunction)
    asynchronous = awaitable or _is(function, inspect.isasyncgenfunction)
    return Hook(name, adapt(name, function), users, awaitable, asynchronous)


def adapt(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as one that takes its arguments and a context, whether it wants the context or not."""
    return _calling(function, len(ARGUMENTS[name]), _context_way(name, function, len(ARGUMENTS[name])))


def wants_context(name: str, function: Callable[..., Any], count: int) -> bool:
    """Whether a function of count arguments takes a context too. Raises TypeError if it takes neither number."""
    return _context_way(name, function, count) != ""


def _check_exclusive(found: Mapping[str, object]) -> None:
    whole = [name for name in _WHOLE if name in found]
    parts = [name for name in _PARTS if name in found]
    if whole and parts:
        raise ValueError(
            f"{' and '.join(whole)} cannot be used together with {', '.join(parts)}: "
            "transform_fn does the work of all of them. Keep one or the others."
        )


def _warn_of_near_misses(module: ModuleType, found: Mapping[str, object]) -> None:
    for name, value in vars(module).items():
        if name in ARGUMENTS or name.startswith("__") or not inspect.isroutine(value):
            continue
        if getattr(value, "__module__", None) != module.__name__:
            continue
        plain = name.strip("_").lower()
        near = _COMMON_MISTAKES.get(plain) or next(iter(difflib.get_close_matches(plain, ARGUMENTS, 1, 0.74)), None)
        if near and near not in found:
            _log.warning("%s in %s is not called by the server: was %s meant?", name, module.__file__, near)


def _is(function: Callable[..., Any], test: Callable[[object], bool]) -> bool:
    """Whether a function, or the method by which an object is called, is of a kind."""
    return test(function) or test(vars(type(function)).get("__call__"))


def _context_way(name: str, function: Callable[..., Any], count: int) -> str:
    """How a function takes the context: ``""`` not at all, ``"last"`` after count arguments, ``"named"`` by name.

    Names do not matter for a parameter that must be given: count + 1 of them take the context last, whatever the last
    is called. One that has a default takes it only under the name context, for it may mean anything else.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError):  # built-in functions may have no signature
        return ""
    positional = [item for item in parameters if item.kind in (item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD)]
    required = sum(item.default is item.empty for item in positional)
    more = any(item.kind is item.VAR_POSITIONAL for item in parameters)
    named = [item for item in parameters if item.kind is item.KEYWORD_ONLY]
    lacking = [item.name for item in named if item.default is item.empty and item.name != "context"]
    if lacking or required > count + 1 or (len(positional) < count and not more):
        raise TypeError(_wrong_signature(name, function))
    if required == count + 1:
        return "last"
    optional = [item.name for item in positional[count:]]
    if optional[:1] == ["context"]:
        return "last"
    return "named" if "context" in optional or any(item.name == "context" for item in named) else ""


def _calling(function: Callable[..., Any], count: int, way: str) -> Callable[..., Any]:
    """Closures of fixed length: ``*arguments`` would cost each call twice as much."""
    if way == "last":
        return function
    if way == "named":
        return lambda *arguments: function(*arguments[:-1], context=arguments[-1])
    if count == 1:
        return lambda a, _: function(a)
    if count == 2:
        return lambda a, b, _: function(a, b)
    return lambda a, b, c, d, _: function(a, b, c, d)


def _wrong_signature(name: str, function: Callable[..., Any]) -> str:
    arguments = ", ".join(ARGUMENTS.get(name, ()))
    return f"{name}{inspect.signature(function)} must take ({arguments}) or ({arguments}, context)."
