"""From a framework to the URI of an image that was pushed: what goes into `image_uri` of a job's configuration."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from slipway.errors import NotFoundError, UsageError, nearest
from slipway.records import Push, Records
from slipway.release import tags
from slipway.settings import Settings


@dataclass(frozen=True)
class Standing:
    """What a user of an image should know of it today. `supported_until` is a date; empty where none was set."""

    supported_until: str
    ended: bool
    newer: str  # the URI of a newer patch release or a newer build of the same; empty: there is none
    yanked: str = ""  # why it was taken back; empty: it was not
    passed_over: tuple[str, ...] = ()  # newer ones of the same that were taken back: URI and reason

    def notes(self) -> list[str]:
        """The same in sentences."""
        told = [f"it was yanked: {self.yanked}"] if self.yanked else []
        if self.ended:
            told.append(f"its framework version was supported until {self.supported_until}: move on")
        elif self.supported_until:
            told.append(f"its framework version is supported until {self.supported_until}")
        told += [f"newer, but taken back: {one}" for one in self.passed_over]
        if self.newer:
            told.append(f"newer: {self.newer}")
        return told


def standing(push: Push, pushes: Sequence[Push], supported_until: str, today: datetime.date) -> Standing:
    """How an image stands among all that were pushed to the same repository."""
    line = tags.version_key(push.version.split("-")[0])[0][0][:2]
    alike = [
        other
        for other in pushes
        if (other.registry, other.repository) == (push.registry, push.repository)
        and (other.processor, other.python) == (push.processor, push.python)
        and tags.version_key(other.version.split("-")[0])[0][0][:2] == line
    ]
    best = max((other for other in alike if not other.yanked), key=age, default=push)
    later = [other for other in alike if other.yanked and age(other)[:2] > age(push)[:2]]
    newer = best.uri if age(best)[:2] > age(push)[:2] else ""
    ended = bool(supported_until) and datetime.date.fromisoformat(supported_until) < today
    passed_over = tuple(f"{other.uri}: {other.yanked}" for other in sorted(later, key=age))
    return Standing(supported_until, ended, newer, push.yanked, passed_over)


def known(settings: Settings) -> list[Push]:
    """What the ledger holds, and of images that it does not know, what was pushed from here."""
    from slipway.release import ledger, stores

    released = ledger.Ledger(stores.of(settings)).history().pushes()
    images = {push.image for push in released}
    return released + [push for push in Records(settings.state).pushes() if push.image not in images]


def as_of(pushes: Sequence[Push], date: str) -> list[Push]:
    """The pushes of a day (`2026-11-30`: its end) or an instant, and those before. Raises UsageError."""
    try:
        day = re.fullmatch(r"\d{4}-\d\d-\d\d", date)
        moment = datetime.datetime.fromisoformat(date.replace("Z", "+00:00"))
    except ValueError:
        raise UsageError(f"--at {date} is no date", fix="write it as 2026-11-30") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=datetime.timezone.utc)
    limit = moment + datetime.timedelta(days=1) if day else moment
    before = [push for push in pushes if datetime.datetime.fromisoformat(push.pushed_at.replace("Z", "+00:00")) < limit]
    if pushes and not before:
        raise NotFoundError(f"nothing was pushed up to {date}", fix="give a later date")
    return before


def by_digest(push: Push) -> str:
    return f"{push.registry}/{push.repository}@{push.manifest_digest}"


def find(
    pushes: Sequence[Push],
    *,
    framework: str,
    scope: str = "training",
    version: str | None = None,
    processor: str | None = "cpu",
    python: str | None = None,
    region: str | None = None,
    registry: str | None = None,
    warn: Callable[[str], None] | None = None,
) -> list[Push]:
    """The pushes that fit, best first: newest version, then highest -vN, then latest pushed.

    What was yanked fits nothing. A version that is not on record stands for the nearest that is when there is someone
    to `warn` of it. Raises NotFoundError.
    """
    left = list(pushes)
    asked = {
        "framework": framework,
        "scope": scope,
        "version": version,
        "processor": processor,
        "python": python,
        "region": region,
        "registry": registry,
    }
    if not left:
        raise NotFoundError("nothing was pushed from here yet", fix=f"run `invoke push --framework {framework}`")
    before: list[str] = []
    for axis, value in asked.items():
        if not value:
            continue
        fitting = [push for push in left if _fits(axis, value, str(getattr(push, axis)))]
        if not fitting and axis == "version" and warn is not None:
            instead = nearest_version(value, {push.version for push in left})
            warn(f"no image was pushed with version {value}: {instead} is the nearest, and is taken")
            fitting = [push for push in left if push.version == instead]
        if not fitting:
            known = {str(getattr(push, axis)) or "none" for push in left}
            push_it = "" if axis == "framework" else f" Else push it: `invoke push --framework {framework}`"
            raise NotFoundError(
                f"no image was pushed with {axis} {value}" + (f", of those with {', '.join(before)}" if before else ""),
                fix=nearest(value, known) + push_it,
            )
        before.append(f"{axis} {value}")
        left = fitting
    kept = [push for push in left if not push.yanked]
    if not kept:
        newest = max(left, key=age)
        raise NotFoundError(
            f"every image that fits was yanked, {newest.uri} because of this: {newest.yanked}",
            fix=f"build and push it again, or name one by its digest all the same: {by_digest(newest)}",
        )
    return sorted(kept, key=age, reverse=True)


def nearest_version(wanted: str, known: Collection[str]) -> str:
    """Of known versions the newest that is not newer than another one; where all are, the oldest."""
    older = [version for version in known if tags.version_key(version) <= tags.version_key(wanted)]
    return max(older, key=tags.version_key) if older else min(known, key=tags.version_key)


def _fits(axis: str, value: str, has: str) -> bool:
    if axis == "version":
        return has == value or has.startswith(value + ".")
    if axis == "python":
        return value in (has, "py" + has.replace(".", ""))
    return value == has


def age(push: Push) -> tuple[object, ...]:
    """For sorting pushes: the later in this order, the newer the image."""
    release = tags.parse(push.tag)
    return tags.version_key(push.version), release.number if release else 0, push.pushed_at
