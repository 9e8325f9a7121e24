"""The selectors as options of a task."""

from __future__ import annotations

import inspect

from invoke.context import Context
from invoke.tasks import Task

import tasks
from slipway.commands.options import SELECTORS, selecting
from slipway.spec.select import Selector


def body(c: Context, selector: Selector, size: str = "x", json: bool = False) -> None:
    """Do it."""
    seen.append((selector, size, json))


seen: list[tuple[Selector, str, bool]] = []


def test_a_task_takes_the_selectors_and_its_own_options() -> None:
    assert list(inspect.signature(selecting(body)).parameters) == ["c", *SELECTORS, "size", "json"]
    assert selecting(body).__doc__ == "Do it."


def test_the_body_gets_one_selector() -> None:
    seen.clear()
    selecting(body)(Context(), framework="a", all=True, json=True, only="")
    selecting(body)(Context(), size="y")
    assert seen == [(Selector(framework="a", everything=True), "x", True), (Selector(), "y", False)]


def test_every_selector_is_an_option() -> None:
    axes = {name for name in SELECTORS if name != "all"}
    assert axes == set(inspect.signature(Selector).parameters) - {"everything"}


def test_every_option_of_every_task_says_what_it_is() -> None:
    made = [value for value in vars(tasks).values() if isinstance(value, Task)]
    assert made
    for task in made:
        assert (task.body.__doc__ or "").strip(), f"{task.name} has no line of help"
        assert [argument.name for argument in task.get_arguments() if not argument.help] == [], task.name
