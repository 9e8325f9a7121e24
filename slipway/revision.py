"""Which commit an image comes from: the last one that changed what decides it.

A commit that touches nothing of an image (docs, another framework) leaves its revision, and so its digest, as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from slipway import process
from slipway.base import EPOCH
from slipway.errors import ProgramError
from slipway.plan import Plan
from slipway.spec.model import Image

RECIPE = "slipway/base.py"  # how root filesystems are made


@dataclass(frozen=True)
class Revision:
    """A commit and its time (ISO 8601). `commit` ends in `-dirty` when inputs differ from it; outside git: `unknown`."""

    commit: str
    created: str


UNKNOWN = Revision("unknown", datetime.fromtimestamp(EPOCH, timezone.utc).isoformat())


def of(image: Image, plan: Plan, project: Path) -> Revision:
    """The revision of an image's inputs: templates, locks, toolkits, and its own lines of the buildspec file."""
    paths = inputs(image, plan)
    try:
        commits = _git(project, "log", "-1", "--format=%H", "--", *paths).split()
        for first, last in image.lines:
            span = f"{first},{last}:{image.file}"
            commits += _git(project, "log", "-1", "--format=%H", "--no-patch", "-L", span).split()[:1]
        if not commits:
            return UNKNOWN
        newest = _git(project, "log", "-1", "--no-walk=sorted", "--format=%H %cI", *set(commits)).split()
        dirty = _git(project, "status", "--porcelain", "--", *paths, image.file)
    except ProgramError:
        return UNKNOWN
    commit, moment = newest
    created = datetime.fromisoformat(moment).astimezone(timezone.utc).isoformat()
    return Revision(f"{commit}-dirty" if dirty.strip() else commit, created)


def inputs(image: Image, plan: Plan) -> list[str]:
    """The files and folders of the project that decide an image, besides its lines of the buildspec file."""
    chain = plan.chain(image)
    stages = [*chain, *(plan.stage(parent) for stage in chain for parent in stage.parents.values())]
    found = {RECIPE, "dockerfiles/install.j2"}
    for stage in stages:
        found.add(f"dockerfiles/{stage.template}")
        found |= {f"toolkits/{name}" for name in stage.toolkits}
        if stage.lock:
            found.add(f"buildspec/locks/{stage.lock}.txt")
    return sorted(found)


def _git(project: Path, *words: str) -> str:
    return process.run(["git", "-C", project, *words], timeout=60).stdout
