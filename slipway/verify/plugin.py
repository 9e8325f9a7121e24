"""How pytest runs a contract: the checks asked for, in their order, each blocked where what it needs did not pass."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from slipway.engine.docker import Engine
from slipway.errors import (
    DiskError,
    EngineError,
    Fault,
    Interrupted,
    NoDeviceError,
    NotFoundError,
    SlipwayError,
    SpecError,
)
from slipway.records import CheckResult
from slipway.verify.contract import Check, function_of

_LONGEST = 4000


class Verification:
    """A pytest plugin that gathers one result for each of `checks`.

    `known` are the IDs of every contract: a test function of another name is an error. What ends the whole run, because
    it says nothing of the image (the engine died, the disk is full, Ctrl-C), is kept in `stopped_by`.
    """

    def __init__(
        self, checks: Sequence[Check], known: Sequence[str], on_result: Callable[[CheckResult], None] = lambda _: None
    ) -> None:
        self.checks = tuple(checks)
        self.results: dict[str, CheckResult] = {}
        self.stopped_by: SlipwayError | None = None
        self._known = {function_of(id): id for id in known}
        self._on_result = on_result
        self._blocked: dict[str, str] = {}
        self._seconds = 0.0

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        """Keep the functions of the checks asked for, in their order."""
        if session.testsfailed:
            return  # a file cannot be imported: pytest ends here, and says why
        strange = [item for item in items if item.name not in self._known]
        if strange:
            self._refuse(
                "test functions that no contract names",
                [
                    Fault(f"{item.name} is no check", "name it after an id, or move it out", item.location[0])
                    for item in strange
                ],
            )
        by_id = {self._known[item.name]: item for item in items}
        missing = [check for check in self.checks if check.id not in by_id]
        if missing:
            self._refuse(
                "checks without a test function",
                [Fault(f"{check.id} has none", f"write `def {check.function}`") for check in missing],
            )
        items[:] = [by_id[check.id] for check in self.checks]

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Tell Ctrl-C from pytest's own way to give up, which goes by the same exit code."""
        if excinfo.type is KeyboardInterrupt:  # pytest gives up with a subclass of it
            self.stopped_by = Interrupted("the verification was stopped; nothing was filed")

    def _refuse(self, what: str, faults: list[Fault]) -> None:
        self.stopped_by = SpecError(what, faults=faults)
        raise pytest.UsageError(str(self.stopped_by))

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Leave a check out when one that it needs did not pass."""
        check = self._check(item)
        for need in check.needs:
            if need in self._blocked:
                self._blocked[check.id] = self._blocked[need]
                break
            result = self.results.get(need)
            if result is None or result.status != "passed":
                self._blocked[check.id] = need
                break
        if check.id in self._blocked:
            pytest.skip(f"blocked by {self._blocked[check.id]}")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Iterator[None]:  # the report, as wrappers hand it on
        report: Any = yield
        check = self._check(item)
        self._seconds += call.duration
        error = call.excinfo.value if call.excinfo else None
        stopped_by = _not_of_the_image(error, call.when, check)
        if stopped_by is not None:
            self.stopped_by = stopped_by
            item.session.shouldstop = str(stopped_by)
        elif call.when == "call" or error is not None:
            self._file(check, report, error)
        if call.when == "teardown":
            self._seconds = 0.0
        return report  # type: ignore[no-any-return]

    def _file(self, check: Check, report: pytest.TestReport, error: BaseException | None) -> None:
        if check.id in self._blocked:
            status, detail = "blocked", ""
        elif report.outcome == "skipped":
            status, detail = "skipped", str(error)
        else:
            status, detail = report.outcome, _seen(error)
        properties: dict[str, Any] = dict(report.user_properties)
        result = CheckResult(
            id=check.id,
            status=status,
            seconds=round(self._seconds, 3),
            reason="" if status == "passed" else check.reason,
            detail=detail,
            fix="" if status == "passed" else check.fix,
            blocked_by=self._blocked.get(check.id, ""),
            numbers=properties.get("numbers", {}),
        )
        if check.id not in self.results or result.status != "passed":
            self.results[check.id] = result
            self._on_result(result)

    def _check(self, item: pytest.Item) -> Check:
        id = self._known[item.name]
        return next(check for check in self.checks if check.id == id)


def _not_of_the_image(error: BaseException | None, when: str, check: Check) -> SlipwayError | None:
    """The error to end with, when what went wrong says nothing of the image.

    A container that cannot start is the image's fault; an engine that is gone is not, nor is a check that breaks while
    it prepares.
    """
    # An image that somebody takes away meanwhile is not to blame either, nor for a host without a GPU.
    if isinstance(error, (DiskError, Interrupted, NotFoundError, NoDeviceError)):
        return error
    if isinstance(error, EngineError):
        return None if _engine_answers() else error
    if isinstance(error, OSError) or (when != "call" and isinstance(error, Exception) and not _of_the_image(error)):
        broken = SlipwayError(f"the check {check.id} itself broke: {type(error).__name__}: {error}")
        broken.__cause__ = error
        return broken
    return None


def _of_the_image(error: Exception) -> bool:
    return isinstance(error, (AssertionError, SlipwayError))


def _engine_answers() -> bool:
    from slipway import settings

    try:
        Engine.connect(settings.read().environment).info()
    except EngineError:
        return False
    return True


def _seen(error: BaseException | None) -> str:
    """What a check saw, without pytest's own account of the assertion below a message."""
    if error is None:
        return ""
    text = str(error) if isinstance(error, (AssertionError, SlipwayError)) else f"{type(error).__name__}: {error}"
    text = re.split(r"\nassert ", text, maxsplit=1)[0]
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " …"
