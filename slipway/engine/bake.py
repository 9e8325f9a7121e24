"""One `docker buildx bake` of a rendered folder: its progress as events, its outcome as data."""

from __future__ import annotations

import base64
import json
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from slipway import process
from slipway.errors import BuildError, DiskError, EngineError, SlipwayError

# The platform stands there when it is not the builder's own.
_STEP = re.compile(r"\[(?P<target>\S+) (?:linux/\S+ )?(?P<stage>\S+) (?P<at>\d+)/(?P<of>\d+)\] (?P<text>.*)", re.DOTALL)
_EXPORT = re.compile(r"\[(?P<target>\S+)\] exporting to")
_UNFIT = re.compile(r"is not a docker command|no builder .* found|failed to find driver|Cannot connect to")
_SHOWN = 30
EXPORT = "export"  # the text of the step that hands an image to the engine


@dataclass
class Step:
    """One step of a stage as it goes: a Dockerfile instruction, or the export of an image."""

    stage: str
    text: str
    started: float = 0.0  # seconds since 1970
    seconds: float = 0.0
    cached: bool = False
    done: bool = False
    error: str = ""
    megabytes: float = 0.0  # moved so far: downloaded, uploaded or exported
    _bytes: dict[str, int] = field(default_factory=dict)
    _said: bytearray = field(default_factory=bytearray)

    @property
    def log(self) -> list[str]:
        """The lines that it printed, without passwords. Blocks may end within a line, or within a character."""
        return _masked(self._said.decode(errors="replace")).splitlines()


@dataclass(frozen=True)
class Exported:
    """What bake says of one image."""

    config_digest: str
    manifest_digest: str


@dataclass(frozen=True)
class Baked:
    """The outcome: every step that was looked at, and each image by its stage's name."""

    steps: tuple[Step, ...]
    images: Mapping[str, Exported]


class Tracker:
    """Reads buildx's `rawjson` progress line by line and keeps the steps. `stages` maps targets to stages' names."""

    def __init__(self, stages: Mapping[str, str] | None = None) -> None:
        self._stages = stages or {}
        self.steps: dict[str, Step] = {}
        self.words: list[str] = []  # what buildx said besides
        self._pending: list[str] = []

    def _stage_of(self, target: str) -> str:
        return self._stages.get(target, target)

    def feed(self, line: str) -> list[Step]:
        """Take one line; returns the steps that it changed. Old buildx spreads a document over many lines."""
        if self._pending or line == "{":
            self._pending.append(line)
            if line != "}":
                return []
            line, self._pending = "\n".join(self._pending), []
        try:
            event = json.loads(line)
        except ValueError:
            event = None
        if not isinstance(event, dict):
            if line.strip():
                self.words.append(line)
            return []
        return self._take(event)

    def _take(self, event: Mapping[str, Any]) -> list[Step]:
        changed: dict[str, Step] = {}
        for vertex in event.get("vertexes") or ():
            step = self._step(vertex)
            if step is not None:
                changed[vertex["digest"]] = step
        for status in event.get("statuses") or ():
            step = self.steps.get(status.get("vertex", ""))
            if step is not None:
                step._bytes[status["id"]] = status.get("current") or 0
                step.megabytes = sum(step._bytes.values()) / 1e6
                changed[status["vertex"]] = step
        for log in event.get("logs") or ():
            step = self.steps.get(log.get("vertex", ""))
            if step is not None:
                step._said += base64.b64decode(log.get("data") or "")
                changed[log["vertex"]] = step
        return list(changed.values())

    def _step(self, vertex: Mapping[str, Any]) -> Step | None:
        step = self.steps.get(vertex["digest"])
        if step is None:
            match = _STEP.match(vertex["name"])
            export = _EXPORT.match(vertex["name"])
            if match is None and export is None:
                return None
            if match is not None:
                step = Step(match["stage"], _short(match["text"]))
            else:
                assert export is not None
                step = Step(self._stage_of(export["target"]), EXPORT)
            self.steps[vertex["digest"]] = step
        if vertex.get("started"):
            step.started = _seconds(vertex["started"])
        step.cached = step.cached or bool(vertex.get("cached"))
        step.error = _masked(vertex.get("error") or "") or step.error
        if vertex.get("completed") and not step.done:
            step.done = True
            step.seconds = 0.0 if step.cached else max(0.0, _seconds(vertex["completed"]) - step.started)
        return step


def bake(
    folder: Path,
    variables: Mapping[str, str],
    on_step: Callable[[Step], None],
    *,
    stages: Mapping[str, str],
    builder: str = "",
    no_cache: bool = False,
    cache: Mapping[str, str] | None = None,
) -> Baked:
    """Bake a rendered folder's default group. `variables` are bake variables, handed over by environment; `stages` maps
    targets to stages; `cache` maps targets to the references of a registry under which their caches are kept.

    Raises BuildError that names the stage and step that failed, or DiskError when a disk was full.
    """
    tracker = Tracker(stages)

    def on_line(line: str) -> None:
        for step in tracker.feed(line):
            on_step(step)

    with tempfile.TemporaryDirectory(prefix="slipway-bake-") as scratch:
        metadata = Path(scratch) / "metadata.json"
        # buildx wants a context before its own name, where docker takes it.
        context = is_context(builder)
        argv: list[str | Path] = ["docker", *(["--context", builder] if context else []), "buildx", "bake"]
        argv += ["--file", "docker-bake.json", "--progress", "rawjson", "--provenance=false"]
        argv += ["--metadata-file", metadata]
        if builder and not context:
            argv += ["--builder", builder]
        if no_cache:
            argv.append("--no-cache")
        argv += _cache_flags(cache or {})
        # Stages between are kept in the builder's cache, not loaded into the engine as images of their own.
        environment = {**variables, "BUILDX_NO_DEFAULT_LOAD": "1"}
        code = process.stream(argv, on_line, cwd=folder, env=environment, check=False, fix="install docker and buildx")
        if code != 0:
            raise _failure(tracker)
        said = json.loads(metadata.read_text(encoding="utf-8"))
    images = {
        stages[target]: Exported(facts["containerimage.config.digest"], facts["containerimage.digest"])
        for target, facts in said.items()
        if isinstance(facts, dict) and "containerimage.config.digest" in facts
    }
    return Baked(tuple(tracker.steps.values()), images)


def _cache_flags(cache: Mapping[str, str]) -> list[str]:
    """Every target may take from every cache: images share stages. `max` keeps the stages between as well."""
    taken = [f"*.cache-from=type=registry,ref={reference}" for reference in cache.values()]
    kept = [f"{target}.cache-to=type=registry,ref={reference},mode=max" for target, reference in cache.items()]
    return [word for value in (*taken, *kept) for word in ("--set", value)]


def is_context(builder: str) -> bool:
    """Whether a builder's name is that of a docker context: another engine, which then gets the images too."""
    if not builder:
        return False
    return process.run(["docker", "context", "inspect", builder], check=False).code == 0


def _failure(tracker: Tracker) -> SlipwayError:
    failed = [step for step in tracker.steps.values() if step.error and "context canceled" not in step.error]
    words = [step.error for step in failed] or tracker.words[-_SHOWN:]
    everything = "\n".join([*words, *tracker.words, *(line for step in failed for line in step.log)])
    if "no space left on device" in everything.lower():
        return DiskError(
            "the engine's disk is full: the build stopped, and nothing was tagged",
            fix="free space, for example with `invoke clean --cache`, then build again",
        )
    if not failed:
        ending = "\n".join(f"    {line}" for line in words)
        kind = EngineError if _UNFIT.search(everything) else BuildError
        return kind(f"the build could not be run:\n{ending}", fix="`invoke doctor` checks engine and builder")
    step = failed[0]
    ending = "\n".join(f"    {line}" for line in (step.log or [step.error])[-_SHOWN:])
    return BuildError(f"the stage {step.stage} failed at {step.text}; its last lines:\n{ending}")


def _masked(text: str) -> str:
    """Text without what stands before the @ of an address: programs print the index or proxy that failed them."""
    return re.sub(r"(\w://)[^\s/@]+@", r"\1****@", text)


def _short(text: str) -> str:
    """A step's instruction without its mounts, on one line."""
    words = re.sub(r"--mount=\S+\s*", "", " ".join(text.split()))
    return words if len(words) <= 100 else words[:97] + "..."


def _seconds(moment: str) -> float:
    # RFC 3339 with nanoseconds; Python 3.10 reads microseconds at most.
    match = re.match(r"(.{19})(\.\d{1,6})?\d*Z?", moment)
    if match is None:
        return 0.0
    return datetime.fromisoformat(f"{match[1]}{(match[2] or '.0').ljust(7, '0')}+00:00").timestamp()
