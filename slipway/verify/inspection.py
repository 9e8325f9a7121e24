"""A look inside one container of an image: its programs, packages and files, before any job."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slipway.engine.docker import ContainerSpec, Engine, Mount

FOLDER = "/run/slipway-probe"


@dataclass(frozen=True)
class Inspection:
    """What look.sh found. `programs`: path by name, empty where PATH has none; `facts`: see look.py and licences.py."""

    programs: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    said: str = ""


def look(engine: Engine, image: str, probe: Path) -> Inspection:
    """Run look.sh in a container of the image, as root and without network. Raises EngineError if it has no shell."""
    spec = ContainerSpec(
        image=image,
        name="look",
        entrypoint=("/bin/sh", f"{FOLDER}/look.sh"),
        mounts=(Mount(probe.resolve(), FOLDER, read_only=True),),
        user="0",
    )
    with engine.run() as run:
        container = run.create(spec)
        output = container.attach()
        container.start()
        text = b"".join(block for _, block in output).decode("utf-8", "replace")
    programs: dict[str, str] = {}
    facts: dict[str, Any] = {}
    others = []
    for line in text.splitlines():
        kind, _, rest = line.partition("\t")
        if kind == "program":
            name, _, path = rest.partition("\t")
            programs[name] = path
        elif kind == "facts":
            facts |= json.loads(rest)
        else:
            others.append(line)
    return Inspection(programs, facts, "\n".join(others))
