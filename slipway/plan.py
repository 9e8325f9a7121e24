"""Images -> the graph of stages that builds them. Pure: the same matrix, sources and base give the same plan.

What the stages of one image are, `stages.py` says. Images that need the same stage share it, so it is built once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

from slipway import cuda, lock, toolkits
from slipway.base import Base, Recipe
from slipway.base import describe as describe_base
from slipway.engine import wheels
from slipway.errors import Fault, LockError, SpecError, nearest
from slipway.spec.model import Image, Sources
from slipway.stages import Stage, place
from slipway.stages import of_image as stages_of


@dataclass(frozen=True)
class Plan:
    """Stages, parents before children, and the images that they end in."""

    stages: tuple[Stage, ...]
    bases: Mapping[str, Base]  # by OS name

    @property
    def images(self) -> tuple[Image, ...]:
        return tuple(stage.image for stage in self.stages if stage.image is not None)

    @cached_property
    def _by_name(self) -> dict[str, Stage]:
        return {stage.name: stage for stage in self.stages}

    @cached_property
    def _holders(self) -> dict[str, list[Image]]:
        """By a stage's name: the images that hold it."""
        found: dict[str, list[Image]] = {}
        for image in self.images:
            for stage in self.chain(image):
                found.setdefault(stage.name, []).append(image)
        return found

    def stage(self, name: str) -> Stage:
        return self._by_name[name]

    def input_hash(self, image: Image) -> str:
        """What decides the image: equal hashes, equal content."""
        return self.stage(image.id).hash

    def chain(self, image: Image) -> tuple[Stage, ...]:
        """The stages whose layers the image holds, lowest first."""
        found = [self.stage(image.id)]
        while below := found[0].parents.get("parent") or found[0].parents.get("base"):
            found.insert(0, self.stage(below))
        return tuple(found)

    def needed(self, image: Image) -> tuple[Stage, ...]:
        """The stages that the image is made with: its own, and those that lend it files, in the plan's order."""
        return self.below(self.stage(image.id))

    def below(self, stage: Stage) -> tuple[Stage, ...]:
        """All stages that a stage stands on or takes files from, and itself, in the plan's order."""
        names, open_ = set(), [stage.name]
        while open_:
            name = open_.pop()
            if name not in names:
                names.add(name)
                open_ += self.stage(name).parents.values()
        return tuple(each for each in self.stages if each.name in names)

    def shared(self, stage: Stage) -> tuple[Image, ...]:
        """The images that hold a stage."""
        return tuple(self._holders.get(stage.name, ()))


def plan(images: Iterable[Image], sources: Sources, bases: Mapping[str, Base]) -> Plan:
    """The graph for these images.

    Raises SpecError that names every image whose base cannot carry it, or with a package that an upper layer replaces;
    LockError that names every image whose locks are missing or out of date.
    """
    chosen = tuple(images)
    _refuse_unfit(chosen, bases)
    _refuse_unlocked(chosen, sources)
    _refuse_idle(chosen, sources)
    _refuse_other_builds(chosen, sources)
    _refuse_replaced(chosen, sources)
    files = {
        name: {path: hashlib.sha256(content).hexdigest() for path, content in sorted(sources.toolkits[name].items())}
        for name in {name for image in chosen for name in image.toolkits}
    }
    stages: dict[str, Stage] = {}
    for image in chosen:
        for stage in stages_of(image, bases[image.os], sources.locks):
            if stage.name not in stages:
                stages[stage.name] = _hashed(stage, stages, sources, files)
    return Plan(tuple(stages.values()), bases)


def _refuse_unfit(images: tuple[Image, ...], bases: Mapping[str, Base]) -> None:
    """A bootstrapped base is of one architecture and carries one Python; what a pulled one has is seen in the build."""
    fix = "exclude the cell, or set base to an image by digest that has it"
    faults = []
    for image in images:
        base = bases[image.os]
        if isinstance(base, Recipe) and image.python != base.python:
            what = f"{image.id}: {image.os} carries Python {base.python}, not {image.python}"
            faults.append(Fault(what, fix, *place(image)))
        if isinstance(base, Recipe) and image.architecture != base.architecture:
            what = f"{image.id}: the bootstrap makes {base.architecture}, not {image.architecture}"
            faults.append(Fault(what, fix, *place(image)))
    if faults:
        raise SpecError("the base cannot carry these images", faults=faults)


def _refuse_unlocked(images: tuple[Image, ...], sources: Sources) -> None:
    faults = [
        Fault(f"{image.id}: {what}", "", *place(image))
        for image in images
        for what in lock.faults(image, sources.locks)
    ]
    if faults:
        frameworks = " ".join(sorted({f"--framework {image.framework}" for image in images}))
        raise LockError("locks are missing or out of date", faults=faults, fix=f"run `invoke lock {frameworks}`")


def _refuse_idle(images: tuple[Image, ...], sources: Sources) -> None:
    """What a stack leaves out, or gives a layer of its own, must be of its locks: a wrong name would do nothing.

    What it says to be without must not be.
    """
    faults = {}
    # Scopes, processors and what stands on a stack say the same of it.
    cells = {(cell.stack_id, cell.layers, *cell.leave_out): cell for image in images for cell in image.ground}
    for cell in cells.values():
        folders = [f"{each.framework}-{each.release}-" for each in cell.ground]  # of every processor and Python
        texts = (text for name, text in sources.locks.items() if name.startswith(tuple(folders)))
        held = {name for text in texts for name, _ in wheels.entries(text)}
        for patterns in cell.layers:
            if not any(fnmatchcase(name, pattern) for name in held for pattern in patterns):
                what = f"{cell.stack_id}: layers name {' and '.join(patterns)}, which none of its locks holds"
                faults[what] = Fault(what, "correct the names, or remove the layer", *place(cell))
        for package in cell.leave_out:
            if package not in held:
                what = f"{cell.stack_id}: leave-out names {package}, which none of its locks holds"
                faults[what] = Fault(what, nearest(package, held), *place(cell))
    for image in (image for image in images if image.without):
        names = {name for part in lock.parts(image) for name, _ in wheels.entries(sources.locks[part.name])}
        for package in names.intersection(image.without):
            what = f"{image.id}: without names {package}, which its locks hold"
            faults[what] = Fault(what, "take it out of without", *place(image))
    if faults:
        raise SpecError("buildspec/ and its locks contradict each other", faults=list(faults.values()))


def _refuse_other_builds(images: tuple[Image, ...], sources: Sources) -> None:
    """No CPU build of a framework in a GPU image, nor the reverse: locks tell without a build, and without a GPU."""
    faults = [
        Fault(f"{image.id}: {what}", "name the framework's build for this processor, or correct cuda", *place(image))
        for image in images
        for what in cuda.faults(image, *(sources.locks[lock.common(cell)] for cell in image.ground))
    ]
    if faults:
        raise SpecError("locks and processors do not fit each other", faults=faults)


def _refuse_replaced(images: tuple[Image, ...], sources: Sources) -> None:
    """No package twice in an image: the upper layer would hide the lower one's files, which are pulled all the same."""
    own = {
        name: toolkits.read(name, sources.toolkits[name].get("pyproject.toml")).distribution.replace("_", "-")
        for name in {name for image in images for name in image.toolkits}
    }
    faults = {}
    for image in images:
        held: dict[str, str] = {}  # by package: the file that pins it
        for part in lock.parts(image):
            file = part.file
            for package, _ in wheels.entries(sources.locks[part.name]):
                lower = held.setdefault(package, file)
                if lower != file:
                    what = f"{file} holds {package}, which {lower} holds too"
                    faults[what] = Fault(what, "take it out of what adds it, and run `invoke lock`", *place(image))
        for name in image.toolkits:
            if own[name] in held:
                what = f"{image.id}: the toolkit {name} would replace {own[name]} of {held[own[name]]}"
                faults[what] = Fault(what, f"take {own[name]} out of its packages, or the toolkit", *place(image))
    if faults:
        raise SpecError("a layer replaces what a lower one holds", faults=list(faults.values()))


def _hashed(
    stage: Stage, below: Mapping[str, Stage], sources: Sources, files: Mapping[str, Mapping[str, str]]
) -> Stage:
    """The stage with its hash. `files`: of each toolkit the hashes of its files."""
    data = {
        "template": sources.templates[stage.template],
        "macros": sources.templates.get("install.j2", ""),
        "extras": [sources.templates[name] for name in stage.extras],
        "values": dict(stage.values),
        "platform": stage.platform,
        "parents": {name: below[parent].hash for name, parent in sorted(stage.parents.items())},
        "lock": stage.pins,
        "toolkits": {name: files[name] for name in stage.toolkits},
    }
    digest = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
    return replace(stage, hash=digest)


def describe(built: Plan) -> dict[str, Any]:
    """The plan for machines."""
    return {
        "bases": {os: describe_base(base) for os, base in built.bases.items()},
        "stages": [
            {
                "name": stage.name,
                "parents": dict(stage.parents),
                "hash": stage.hash,
                "image": stage.image.id if stage.image else None,
                "shared_by": [image.id for image in built.shared(stage)],
            }
            for stage in built.stages
        ],
    }
