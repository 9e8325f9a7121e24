"""The stages of one image, from the base up.

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
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from slipway import lock
from slipway.base import Base, Pulled
from slipway.engine import wheels
from slipway.spec import naming
from slipway.spec.model import Image

LICENCES = ("licences.py.j2",)  # writes the overview of licences into an image
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


def of_image(image: Image, base: Base, locks: Mapping[str, str]) -> list[Stage]:
    """The stages of one image, parents first."""
    found = _floor(image, base, locks)
    tools = found[1].name

    top = found[-1].name

    def add(stage: Stage, **beside: str) -> None:
        nonlocal top
        found.append(replace(stage, parents={"parent": top, **beside}))
        top = stage.name

    parts = lock.parts(image)
    for cell, part in zip(image.ground, parts, strict=False):  # the first parts are the cells' common ones
        purpose = f"{cell.framework} {cell.release} and what every image of its stack needs."
        for stage in _part(cell, part, locks[part.name], purpose):
            add(stage, tools=tools)
    if image.system_packages:
        debian = _debian(image, found[0].name)
        found.append(debian)
        add(_system(image), system=debian.name)
    own = parts[-1]
    if own.name != lock.common(image):
        purpose = f"What {image.scope} adds to {image.stack_id}."
        for stage in _part(image, own, locks[own.name], purpose):
            add(stage, tools=tools)
    values = {
        "image": {"id": image.id, "processor": image.processor},
        "starts": image.toolkit != "none",
        "environment": dict(image.environment),
    }
    add(
        Stage(
            name=image.id,
            template=f"{image.scope}.Dockerfile.j2",
            values=values,
            extras=LICENCES,
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


def _part(cell: Image, part: lock.Part, text: str, purpose: str) -> list[Stage]:
    """The stages of one part of a lock: one for each of the cell's `layers` that it has packages of, then the rest.

    Stacks that pin the same versions of such packages get the same layer, byte for byte.
    """
    name = cell.stack_id if part.name == lock.common(cell) else part.name.replace("/", "-")
    rest = list(wheels.entries(text))
    found: list[Stage] = []
    for patterns in cell.layers:
        chosen = [entry for entry in rest if any(fnmatchcase(entry[0], pattern) for pattern in patterns)]
        if chosen:
            rest = [entry for entry in rest if entry not in chosen]
            names = f"Packages with a layer of their own: {', '.join(patterns)}."
            pins = "".join(f"{pin}\n" for _, pin in chosen)
            held = {package for package, _ in chosen}
            found.append(_packages(cell, part, pins, held, names, f"{name}-{len(found) + 1}"))
    if rest:
        pins = "".join(f"{pin}\n" for _, pin in rest) if found else text
        found.append(_packages(cell, part, pins, {package for package, _ in rest}, purpose, name))
    return found


def _packages(cell: Image, part: lock.Part, pins: str, held: set[str], purpose: str, name: str) -> Stage:
    """A stage that installs pins; `held`: their names."""
    left_out = [path for package, paths in cell.leave_out.items() if package in held for path in paths]
    return Stage(
        name=name,
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


def place(image: Image) -> tuple[str, int | None]:
    return image.file, image.lines[0][0] if image.lines else None
