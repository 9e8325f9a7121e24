"""Images -> the graph of stages that builds them. Pure: the same matrix, sources and base give the same plan.

    base-<os> ---> tools                      (the installer, in no image)
        `---> python-<os>-py<NN> ---> <stack> ---> <stack>-<scope>-system ---> <stack>-<scope> ---> <image>
                                      framework    Debian packages             Python packages      toolkits,
                                      packages     of the scope                of the scope         settings

A stage is one folder with one Dockerfile. Images that need the same stage share it, so it is built once. The toolkits
come last: they change most often and are smallest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from slipway import lock
from slipway.base import Base, Pulled, Recipe
from slipway.base import describe as describe_base
from slipway.errors import Fault, LockError, SpecError
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
    lock: str = ""  # name of the lock part that becomes lock.txt
    toolkits: tuple[str, ...] = ()  # whose wheels become wheels/
    wheel_index: str = ""
    image: Image | None = None  # set on the last stage of an image
    hash: str = ""  # over all that decides its content, its parents' hashes included

    @property
    def needs_host(self) -> bool:
        """Whether it reaches for packages, and so gets the host's settings and certificates as secrets."""
        return bool(self.lock) or self.template.startswith(("base", "system"))

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
        chain = self.chain(image)
        names = {name for stage in chain for name in (stage.name, *stage.parents.values())}
        return tuple(stage for stage in self.stages if stage.name in names)

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
    stages: dict[str, Stage] = {}
    for image in chosen:
        for stage in _stages(image, bases[image.os]):
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


def _stages(image: Image, base: Base) -> list[Stage]:
    """The stages of one image, parents first."""
    where: dict[str, Any] = {"os": image.os, "platform": image.platform}
    suffix = "" if image.architecture == "amd64" else f"-{image.architecture}"
    base_name = f"base-{image.os}{suffix}"
    tools_name = f"tools-{image.os}{suffix}"
    python_name = f"python-{image.os}-{naming.python_tag(image.python)}{suffix}"
    below = {"pulled": base.reference} if isinstance(base, Pulled) else {"rootfs": f"rootfs-{base.hash[:12]}.tar"}
    found = [
        Stage(name=base_name, template="base.Dockerfile.j2", values=below, **where),
        Stage(
            name=tools_name,
            template="tools.Dockerfile.j2",
            parents={"base": base_name},
            lock=lock.TOOLS_LOCK,
            **where,
        ),
        Stage(
            name=python_name,
            template="python.Dockerfile.j2",
            parents={"base": base_name},
            values={"python": image.python},
            **where,
        ),
    ]
    top = python_name
    for part in lock.parts(image):
        if part.name.endswith("/common"):
            name = image.stack_id
            purpose = f"{image.framework} {image.version} and what every image of its stack needs."
        else:
            name = f"{image.stack_id}-{image.scope}"
            purpose = f"What {image.scope} adds to {image.stack_id}."
        found.append(
            Stage(
                name=name,
                template="packages.Dockerfile.j2",
                parents={"parent": top, "tools": tools_name},
                values={
                    "purpose": purpose,
                    "python": image.python,
                    "leave_out": list(image.leave_out) if part.name.endswith("/common") else [],
                },
                lock=part.name,
                wheel_index=part.wheel_index,
                **where,
            )
        )
        top = name
        if part.name.endswith("/common") and image.system_packages:
            top = f"{image.stack_id}-{image.scope}-system"
            found.append(
                Stage(
                    name=top,
                    template="system.Dockerfile.j2",
                    parents={"parent": name},
                    values={"packages": list(image.system_packages), "scope": image.scope},
                    extras=SSH if "openssh-server" in image.system_packages else (),
                    **where,
                )
            )
    found.append(
        Stage(
            name=image.id,
            template=f"{image.scope}.Dockerfile.j2",
            parents={"parent": top, "tools": tools_name},
            values={
                "image": {"id": image.id, "processor": image.processor},
                "environment": dict(image.environment),
            },
            toolkits=image.toolkits,
            image=image,
            **where,
        )
    )
    return found


def _hashed(stage: Stage, below: Mapping[str, Stage], sources: Sources) -> Stage:
    data = {
        "template": sources.templates[stage.template],
        "macros": sources.templates.get("install.j2", ""),
        "extras": [sources.templates[name] for name in stage.extras],
        "values": dict(stage.values),
        "platform": stage.platform,
        "parents": {name: below[parent].hash for name, parent in sorted(stage.parents.items())},
        "lock": sources.locks.get(stage.lock, ""),
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
