"""Which commit an image comes from: the last one that changed what decides it.

A commit that touches nothing of an image (docs, another framework) leaves its revision, and so its digest, as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path, PurePosixPath

from slipway import lock, process
from slipway.base import EPOCH
from slipway.errors import ProgramError
from slipway.plan import Plan
from slipway.spec.model import Image

RECIPE = "slipway/base.py"  # how root filesystems are made


@dataclass(frozen=True)
class Revision:
    """A commit and its time (ISO 8601). `commit` ends in `-dirty` when inputs differ from it; `unknown` outside git."""

    commit: str
    created: str


UNKNOWN = Revision("unknown", datetime.fromtimestamp(EPOCH, timezone.utc).isoformat())


def of(image: Image, plan: Plan, project: Path) -> Revision:
    """The revision of an image's inputs: templates, locks, toolkits, and its own lines of the buildspec file."""
    paths = inputs(image, plan)
    files = {cell.file for cell in image.ground}
    try:
        dirty = bool(_git(project, "status", "--porcelain", "--", *paths, *sorted(files)).strip())
        # The lines of a changed file are not those that its commits speak of.
        commits = {"HEAD"} if dirty else _commits(image, paths, project)
        # Commits of one second have one time: what others stand on is not the last, whatever the order by time says.
        tips = _git(project, "merge-base", "--independent", *sorted(commits)).split()
        commit, moment = _git(project, "log", "-1", "--no-walk=sorted", "--format=%H %cI", *tips).split()
    except ProgramError:
        return UNKNOWN
    created = datetime.fromisoformat(moment).astimezone(timezone.utc).isoformat()
    return Revision(f"{commit}-dirty" if dirty else commit, created)


def doubt(project: Path) -> str:
    """Why the commits of images are uncertain here, and what to do; nothing in a whole clone, and outside git."""
    try:
        asked = process.run(["git", "-C", project, "rev-parse", "--is-shallow-repository"], check=False, timeout=60)
    except ProgramError:
        return ""
    if asked.stdout.strip() == "true":
        return "this git clone is shallow, so images may name a later commit than their own: `git fetch --unshallow`"
    if "dubious ownership" in asked.stderr:
        return f"git does not read another user's repository: `git config --global --add safe.directory {project}`"
    return ""


def _commits(image: Image, paths: list[str], project: Path) -> set[str]:
    """The last commit of the files, and of each span of lines."""
    found = _git(project, "log", "-1", "--format=%H", "--", *paths).split()
    for cell in image.ground:
        for first, last in cell.lines:
            span = f"{first},{last}:{cell.file}"
            found += _git(project, "log", "-1", "--format=%H", "--no-patch", "-L", span).split()
    return set(found)


def inputs(image: Image, plan: Plan) -> list[str]:
    """The files and folders of the project that decide an image, besides its lines of the buildspec file."""
    found = {RECIPE, "dockerfiles/install.j2", *(part.file for part in (*lock.parts(image), lock.tools_part()))}
    # A toolkit lies with the project, or beside a file of the user's own; git passes over a path that is not there.
    homes = {"toolkits", *(f"{PurePosixPath(cell.file).parent}/toolkits" for cell in image.ground)}
    for stage in plan.needed(image):
        found |= {f"dockerfiles/{name}" for name in (stage.template, *stage.extras)}
        found |= {f"{home}/{name}" for home in homes for name in stage.toolkits}
    return sorted(found)


def _git(project: Path, *words: str) -> str:
    return process.run(["git", "-C", project, "-c", "log.showSignature=false", *words], timeout=60).stdout
