"""Options read one after the other, so that a user hears of all their faults at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from slipway.errors import Fault, InputError

Read = TypeVar("Read")


class Reading:
    """The faults so far. A value that cannot be read is replaced, and nothing is done with it: `close` raises."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []

    def take(self, read: Callable[[], Read], otherwise: Read) -> Read:
        try:
            return read()
        except InputError as error:
            self.faults.extend(error.faults or [Fault(error.message, error.fix)])
            return otherwise

    def close(self, what: str) -> None:
        """Raises InputError with every fault."""
        if self.faults:
            raise InputError(what, faults=self.faults)
