"""Helpers for calling a user's functions."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, Dict, Mapping, Type


def matching_args(fn: Callable[..., Any], dictionary: Mapping[str, Any]) -> Dict[str, Any]:
    """The entries that a function takes by name; all of them when it takes ``**kwargs``."""
    parameters = inspect.signature(fn).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return dict(dictionary)
    by_name = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    return {key: value for key, value in dictionary.items() if key in by_name}


def error_wrapper(fn: Callable[..., Any], error_class: Type[Exception]) -> Callable[..., Any]:
    """The function with every exception turned into one of error_class."""

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return fn(*args, **kwargs)
        except Exception as error:
            raise error_class(error) from error

    return wrapped
