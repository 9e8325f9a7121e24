"""What DescribeTrainingJob says of a job's way: its secondary statuses, each with the time of its begin."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Transition:
    """A secondary status of the service's, `seconds` after the job's start, and why it came."""

    status: str
    seconds: float
    message: str


@dataclass
class History:
    """The statuses so far."""

    started: float = field(default_factory=time.monotonic)
    transitions: list[Transition] = field(default_factory=list)

    def seconds(self) -> float:
        return time.monotonic() - self.started

    def has(self, status: str) -> bool:
        return any(transition.status == status for transition in self.transitions)

    def seconds_since(self, status: str) -> float:
        """Seconds since a status first came; 0 when it has not."""
        times = [transition.seconds for transition in self.transitions if transition.status == status]
        return self.seconds() - times[0] if times else 0.0

    def enter(self, status: str, message: str = "") -> None:
        self.transitions.append(Transition(status, round(self.seconds(), 3), message))
