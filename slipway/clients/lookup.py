"""From a framework to the URI of an image that was pushed: what goes into `image_uri` of a job's configuration."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from slipway.errors import NotFoundError, nearest
from slipway.records import Push, Records
from slipway.release import tags


def image_uri(
    framework: str,
    scope: str = "training",
    version: str | None = None,
    processor: str = "cpu",
    python: str | None = None,
    region: str | None = None,
    *,
    registry: str | None = None,
    digest: bool = False,
    state: Path | None = None,
) -> str:
    """The URI of the newest pushed image that fits: `HOST/REPOSITORY:TAG`, or `HOST/REPOSITORY@sha256:…` with `digest`.

    `version` is a full version or its beginning (`2.13`), `python` is `3.11` or `py311`, `registry` a host. `state` is
    the state folder; by default that of the project around the current folder. Raises NotFoundError, which names what
    is on record.
    """
    if state is None:
        from slipway import settings

        state = settings.read().state
    found = find(
        Records(state).pushes(),
        framework=framework,
        scope=scope,
        version=version,
        processor=processor,
        python=python,
        region=region,
        registry=registry,
    )
    return by_digest(found[0]) if digest else found[0].uri


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
) -> list[Push]:
    """The pushes that fit, best first: newest version, then highest -vN, then latest pushed. Raises NotFoundError."""
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
        if not fitting:
            known = {str(getattr(push, axis)) or "none" for push in left}
            push_it = "" if axis == "framework" else f" Else push it: `invoke push --framework {framework}`"
            raise NotFoundError(
                f"no image was pushed with {axis} {value}" + (f", of those with {', '.join(before)}" if before else ""),
                fix=nearest(value, known) + push_it,
            )
        before.append(f"{axis} {value}")
        left = fitting
    return sorted(left, key=age, reverse=True)


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
