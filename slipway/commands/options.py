"""Options that several commands share, written once: the selectors of images."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from slipway.spec.select import Selector

SELECTORS = {
    "framework": "as named in buildspec/, e.g. pytorch",
    "version": "full version, or a stack's name such as 2.13",
    "scope": "training | inference",
    "processor": "cpu | gpu",
    "python": "3.11 or py311",
    "only": "one image's ID, as `invoke list` shows it",
    "all": "every image that is not excluded",
}


def selecting(body: Callable[..., None]) -> Callable[..., None]:
    """Give a task the selector options; its body gets them as one `selector` after the context."""
    own = list(inspect.signature(body).parameters.values())
    context, rest = own[0], [parameter for parameter in own[1:] if parameter.name != "selector"]
    keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
    options = [inspect.Parameter(name, keyword, default=False if name == "all" else "") for name in SELECTORS]

    @functools.wraps(body)
    def task(context: Any, **given: Any) -> None:
        everything = given.pop("all", False)
        names = [name for name in SELECTORS if name != "all"]
        selector = Selector(everything=everything, **{name: given.pop(name, "") for name in names})
        body(context, selector, **given)

    task.__signature__ = inspect.Signature([context, *options, *rest])  # type: ignore[attr-defined]
    return task
