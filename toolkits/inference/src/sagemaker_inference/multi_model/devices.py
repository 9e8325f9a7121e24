"""Which GPU each model begins with, when there are several."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sagemaker_inference.server import capacity

VISIBLE = "CUDA_VISIBLE_DEVICES"


class Devices:
    """The GPUs that the container sees. A unit's first worker takes the first of the list that it is given."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        count = capacity.gpus(environ)
        listed = environ.get(VISIBLE)
        names = re.split(r"\s*,\s*", listed.strip()) if listed else [str(number) for number in range(count)]
        self._names = names[:count]
        self._users = [0] * count

    def take(self) -> int | None:
        """The device that the fewest models begin with; None where there is no choice."""
        if len(self._names) < 2:
            return None
        device = self._users.index(min(self._users))
        self._users[device] += 1
        return device

    def give_back(self, device: int | None) -> None:
        if device is not None:
            self._users[device] -= 1

    def variables(self, device: int | None) -> dict[str, str]:
        """What a model's environment has beside the container's: all devices, the given one first."""
        if device is None:
            return {}
        return {VISIBLE: ",".join(self._names[device:] + self._names[:device])}
