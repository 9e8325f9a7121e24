"""The probe of the smoke steps, run inside an image or beside a framework on this host, and what it reported.

Nothing but the standard library is imported until an engine is asked for, so that a host without Docker needs only a
framework and pytest.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipway import process
from slipway.errors import NoDeviceError

if TYPE_CHECKING:
    from slipway.engine.docker import Engine, Mount

FOLDER = "/run/slipway-smoke"
_MARK = "smoke\t"
_SHM = 1 << 30  # bytes: loaders hand their batches over in shared memory
_LIMIT = 600.0  # seconds, after which a probe on this host hangs


@dataclass(frozen=True)
class Observation:
    """What one step measured; or why it broke, or what the image lacks for it."""

    numbers: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""
    absent: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Report:
    """All that a probe reported. `said`: what else it printed; `code`: its exit code."""

    start: Mapping[str, Any]
    steps: Mapping[str, Observation]
    said: str
    code: int

    def observed(self, step: str) -> Observation:
        """A step's observation; of one that the probe did not come to report, how it ended."""
        if step in self.steps:
            return self.steps[step]
        tail = "\n".join(self.said.splitlines()[-20:])
        return Observation(error=f"the probe ended with exit code {self.code} before this step had ended:\n{tail}")


def inside(
    engine: Engine,
    image: str,
    probe: Path,
    device: str,
    steps: Sequence[str] = (),
    *,
    mounts: Sequence[Mount] = (),
    environment: Mapping[str, str] | None = None,
) -> Report:
    """Run the probe in one container of an image, without network, with all GPUs for the device cuda.

    Raises NoDeviceError when the engine or its host has none, EngineError when the container does not start.
    """
    from slipway.engine.docker import ContainerSpec, Mount

    command = (f"{FOLDER}/probe", *_arguments(device, steps))
    spec = ContainerSpec(
        image=image,
        name="smoke",
        entrypoint=("python3", *command),
        environment=environment or {},
        mounts=(Mount(probe.resolve(), f"{FOLDER}/probe", read_only=True), *mounts),
        user="0",
        shm_bytes=_SHM,
        gpus=device == "cuda",
    )
    with engine.run() as run:
        container = run.create(spec)
        output = container.attach()
        container.start()
        text = b"".join(block for _, block in output).decode("utf-8", "replace")
        return parse(text.splitlines(), container.wait().code)


def bare(
    probe: Path, device: str, steps: Sequence[str] = (), *, environment: Mapping[str, str] | None = None
) -> Report:
    """Run the probe with the Python that runs this. Raises NoDeviceError, ProgramError."""
    done = process.run(
        [sys.executable, probe, *_arguments(device, steps)], env=environment, timeout=_LIMIT, check=False
    )
    return parse([*done.stdout.splitlines(), *done.stderr.splitlines()], done.code)


def parse(lines: Iterable[str], code: int) -> Report:
    """Tell the probe's reports from what frameworks print. Raises NoDeviceError when it found no device to run on."""
    start: dict[str, Any] = {}
    steps: dict[str, Observation] = {}
    others = []
    for line in lines:
        if not line.startswith(_MARK):
            others.append(line)
            continue
        found = json.loads(line[len(_MARK) :])
        if "no_device" in found:
            raise NoDeviceError(found["no_device"], fix="run it on a host with an NVIDIA GPU and its driver")
        if "step" in found:
            step = found.pop("step")
            steps[step] = Observation(**found)
        else:
            start = found
    return Report(start, steps, "\n".join(others), code)


def in_words(numbers: Mapping[str, Any]) -> str:
    """Numbers on one line: `first_loss 1.1, last_loss 0.2`."""

    def word(value: Any) -> str:
        return f"{value:.3g}" if isinstance(value, float) else str(value)

    return ", ".join(f"{name} {word(value)}" for name, value in numbers.items() if value != "")


def _arguments(device: str, steps: Sequence[str]) -> list[str]:
    return [f"--device={device}", *steps]
