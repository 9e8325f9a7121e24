"""Images -> the graph of stages that builds them. Pure: the same matrix, sources and base give the same plan.

    base-<os> ---> tools                      (the installer, in no image)
        |---> debian-<scope>-…                (Debian packages of the scope, which every stack takes as the same layer)
        `---> python-<os>-py<NN> ---> <stack> ---> <stack>-<scope>-system ---> <stack>-<scope> ---> <image>
                                      framework    Debian packages             Python packages      toolkits,
                                      packages     of the scope                of the scope         settings

A stage is one folder with one Dockerfile. Images that need the same stage share it, so it is built once. The toolkits
come last: they change most often and are smallest. A stack that stands on another one comes right above it. Packages
that a stack names under `layers` have stages of their own below it, <stack>-1, <stack>-2 …
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from slipway import lock
from slipway.base import Base, Pulled, Recipe
from slipway.base import describe as describe_base
from slipway.engine import wheels
from slipway.errors import Fault, LockError, SpecError, nearest
from slipway.spec import naming
from slipway.spec.model import Image, Sources

SSH = ("sshd.j2", "ssh_config.j2")  # what lets the hosts of a job reach each other, beside openssh-server


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One folder with one Dockerfile. `parents` maps the names in its FROM and --mount lines to other stages."""

    name: str
    template: str
    os: str
    platform: str
    parents: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    extras: tuple[str, ...] = ()  # templates that become files/
    lock: str = ""  # name of the lock part that it installs
    pins: str = ""  # what becomes lock.txt: that part, or the packages of it that are this stage's
    toolkits: tuple[str, ...] = ()  # whose wheels become wheels/
    wheel_index: str = ""
    image: Image | None = None  # set on the last stage of an image
    hash: str = ""  # over all that decides its content, its parents' hashes included

    @property
    def needs_host(self) -> bool:
        """Whether it reaches for packages, and so gets the host's settings and certificates as secrets."""
        return bool(self.lock) or self.template.startswith(("base", "debian"))

    @property
    def takes_wheels(self) -> bool:
        """Whether wheels that the host already has may serve it."""
        return self.template.startswith("packages")


@dataclass(frozen=True)
class Plan:
    """Stages, parents before children, and the images that they end in."""

    stages: tuple[Stage, ...]
    bases: Mapping[str, Base]  # by OS name

    @property
    def images(self) -> tuple[Image, ...]:
        return tuple(stage.image for stage in self.stages if stage.image is not None)

    def stage(self, name: str) -> Stage:
        return next(stage for stage in self.stages if stage.name == name)

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
        return tuple(image for image in self.images if stage in self.chain(image))


def plan(images: Iterable[Image], sources: Sources, bases: Mapping[str, Base]) -> Plan:
    """The graph for these images.

    Raises SpecError that names every image whose base cannot carry it, LockError that names every image whose locks are
    missing or out of date.
    """
    chosen = tuple(images)
    _refuse_unfit(chosen, bases)
    _refuse_unlocked(chosen, sources)
    _refuse_idle(chosen, sources)
    stages: dict[str, Stage] = {}
    for image in chosen:
        for stage in _stages(image, bases[image.os], sources.locks):
            if stage.name not in stages:
                stages[stage.name] = _hashed(stage, stages, sources)
    return Plan(tuple(stages.values()), bases)


def _refuse_unfit(images: tuple[Image, ...], bases: Mapping[str, Base]) -> None:
    """A bootstrapped base is of one architecture and carries one Python; what a pulled one has is seen in the build."""
    fix = "exclude the cell, or set base to an image by digest that has it"
    faults = []
    for image in images:
        base = bases[image.os]
        if isinstance(base, Recipe) and image.python != base.python:
            what = f"{image.id}: {image.os} carries Python {base.python}, not {image.python}"
            faults.append(Fault(what, fix, *_place(image)))
        if isinstance(base, Recipe) and image.architecture != base.architecture:
            what = f"{image.id}: the bootstrap makes {base.architecture}, not {image.architecture}"
            faults.append(Fault(what, fix, *_place(image)))
    if faults:
        raise SpecError("the base cannot carry these images", faults=faults)


def _place(image: Image) -> tuple[str, int | None]:
    return image.file, image.lines[0][0] if image.lines else None


def _refuse_unlocked(images: tuple[Image, ...], sources: Sources) -> None:
    faults = [
        Fault(f"{image.id}: {what}", "", *_place(image))
        for image in images
        for what in lock.faults(image, sources.locks)
    ]
    if faults:
        frameworks = " ".join(sorted({f"--framework {image.framework}" for image in images}))
        raise LockError("locks are missing or out of date", faults=faults, fix=f"run `invoke lock {frameworks}`")


def _refuse_idle(images: tuple[Image, ...], sources: Sources) -> None:
    """What a stack leaves out must belong to a package of its locks: a wrong name would leave out nothing."""
    faults = {}
    for cell in (cell for image in images for cell in image.ground):
        folders = [f"{each.framework}-{each.release}-" for each in cell.ground]  # of every processor and Python
        texts = (text for name, text in sources.locks.items() if name.startswith(tuple(folders)))
        held = {name for text in texts for name, _ in wheels.entries(text)}
        for package in cell.leave_out:
            if package not in held:
                what = f"{cell.stack_id}: leave-out names {package}, which none of its locks holds"
                faults[what] = Fault(what, nearest(package, held), *_place(cell))
    if faults:
        raise SpecError("leave-out would leave out nothing", faults=list(faults.values()))


def _stages(image: Image, base: Base, locks: Mapping[str, str]) -> list[Stage]:
    """The stages of one image, parents first."""
    found = _floor(image, base, locks)
    tools = found[1].name

    top = found[-1].name

    def add(stage: Stage, **beside: str) -> None:
        nonlocal top
        found.append(replace(stage, parents={"parent": top, **beside}))
        top = stage.name

    for cell in image.ground:
        for stage in _common(cell, locks):
            add(stage, tools=tools)
    if image.system_packages:
        debian = _debian(image, found[0].name)
        found.append(debian)
        add(_system(image), system=debian.name)
    own = lock.parts(image)[-1]
    if own.name != lock.common(image):
        purpose = f"What {image.scope} adds to {image.stack_id}."
        add(_packages(image, own, locks[own.name], purpose, own.name), tools=tools)
    values = {"image": {"id": image.id, "processor": image.processor}, "environment": dict(image.environment)}
    add(
        Stage(
            name=image.id,
            template=f"{image.scope}.Dockerfile.j2",
            values=values,
            toolkits=image.toolkits,
            image=image,
            os=image.os,
            platform=image.platform,
        ),
        tools=tools,
    )
    return found


def _floor(image: Image, base: Base, locks: Mapping[str, str]) -> list[Stage]:
    """What every image has below its packages: the base, the installer beside it, and Python."""
    suffix = "" if image.architecture == "amd64" else f"-{image.architecture}"
    bottom = f"base-{image.os}{suffix}"
    below = {"pulled": base.reference} if isinstance(base, Pulled) else {"rootfs": f"rootfs-{base.hash[:12]}.tar"}
    return [
        Stage(name=bottom, template="base.Dockerfile.j2", values=below, os=image.os, platform=image.platform),
        Stage(
            name=f"tools-{image.os}{suffix}",
            template="tools.Dockerfile.j2",
            parents={"base": bottom},
            lock=lock.TOOLS_LOCK,
            pins=locks[lock.TOOLS_LOCK],
            os=image.os,
            platform=image.platform,
        ),
        Stage(
            name=f"python-{image.os}-{naming.python_tag(image.python)}{suffix}",
            template="python.Dockerfile.j2",
            parents={"base": bottom},
            values={"python": image.python},
            os=image.os,
            platform=image.platform,
        ),
    ]


def _common(cell: Image, locks: Mapping[str, str]) -> list[Stage]:
    """The stages of a stack's common packages: one for each of its `layers`, then one for the rest."""
    part = next(part for part in lock.parts(cell) if part.name == lock.common(cell))
    rest = wheels.entries(locks[part.name])
    found = []
    for number, patterns in enumerate(cell.layers, start=1):
        chosen = [entry for entry in rest if any(fnmatchcase(entry[0], pattern) for pattern in patterns)]
        rest = [entry for entry in rest if entry not in chosen]
        if not chosen:
            what = f"{cell.stack_id}: no package of its lock is called {' or '.join(patterns)}"
            raise SpecError("a layer would be empty", faults=[Fault(what, "correct `layers`", *_place(cell))])
        pins = "".join(f"{text}\n" for _, text in chosen)
        purpose = f"Packages that {cell.framework} {cell.release} stands on: {', '.join(patterns)}."
        found.append(_packages(cell, part, pins, purpose, f"{cell.stack_id}-{number}"))
    whole = "".join(f"{text}\n" for _, text in rest) if cell.layers else locks[part.name]
    purpose = f"{cell.framework} {cell.release} and what every image of its stack needs."
    return [*found, _packages(cell, part, whole, purpose, cell.stack_id)]


def _packages(cell: Image, part: lock.Part, pins: str, purpose: str, name: str) -> Stage:
    held = {name for name, _ in wheels.entries(pins)}
    left_out = [path for package, paths in cell.leave_out.items() if package in held for path in paths]
    return Stage(
        name=name.replace("/", "-"),
        template="packages.Dockerfile.j2",
        values={"purpose": purpose, "python": cell.python, "leave_out": left_out},
        lock=part.name,
        pins=pins,
        wheel_index=part.wheel_index,
        os=cell.os,
        platform=cell.platform,
    )


def _debian(image: Image, base: str) -> Stage:
    """The Debian packages of a scope. Scopes of different stacks that name the same ones share it."""
    key = hashlib.sha256(" ".join(image.system_packages).encode()).hexdigest()[:6]
    return Stage(
        name=f"debian-{image.scope}-{key}{base.removeprefix('base')}",
        template="debian.Dockerfile.j2",
        parents={"parent": base},
        values={"packages": list(image.system_packages)},
        extras=SSH if "openssh-server" in image.system_packages else (),
        os=image.os,
        platform=image.platform,
    )


def _system(image: Image) -> Stage:
    return Stage(
        name=f"{image.stack_id}-{image.scope}-system",
        template="system.Dockerfile.j2",
        values={"scope": image.scope},
        os=image.os,
        platform=image.platform,
    )


def _hashed(stage: Stage, below: Mapping[str, Stage], sources: Sources) -> Stage:
    data = {
        "template": sources.templates[stage.template],
        "macros": sources.templates.get("install.j2", ""),
        "extras": [sources.templates[name] for name in stage.extras],
        "values": dict(stage.values),
        "platform": stage.platform,
        "parents": {name: below[parent].hash for name, parent in sorted(stage.parents.items())},
        "lock": stage.pins,
        "toolkits": {
            name: {
                path: hashlib.sha256(content).hexdigest() for path, content in sorted(sources.toolkits[name].items())
            }
            for name in stage.toolkits
        },
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
