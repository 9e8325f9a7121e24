"""Release tags and their aliases: what never moves, what does, and how ECR is told.

    never moves   <tag>-v<N>                             2.13.0-cpu-py311-debian12-v1
    moves         <tag>                                  2.13.0-cpu-py311-debian12
                  <version>-<processor>-<py>             2.13.0-cpu-py311
                  <major.minor>-<processor>-<py>         2.13-cpu-py311

A version of several parts (`2.13.0-transformers5.1.0`) is shortened in each. An architecture other than amd64 ends
every form. The forms are those of AWS's own images, except for their pin `X.Y-…-v1`: two patch releases would claim it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

STAGING = "sha256-staging"
"""Where an upload lands before it has a name. It begins with `sha256-` so that the filter which ECR needs anyway (for
signatures) lets it move."""

ECR_FILTER_LIMIT = 5
_SIGNATURES = "sha256-*"

_TAG = re.compile(
    r"(?P<version>\d+(?:\.\w+)+(?:-[a-z]+\d+(?:\.\w+)+)*)"
    r"-(?P<processor>cpu|gpu)-(?P<python>py\d+)(?:-(?P<cuda>cu\d+))?-(?P<os>[a-z]+[\d.]+)(?:-(?P<arch>arm64))?"
)
_RELEASE = re.compile(r"(?P<tag>.+)-v(?P<number>[1-9]\d*)")


@dataclass(frozen=True)
class Release:
    """A tag that never moves, taken apart."""

    tag: str
    number: int

    def __str__(self) -> str:
        return f"{self.tag}-v{self.number}"


def parse(tag: str) -> Release | None:
    """`2.13.0-cpu-py311-debian12-v3` taken apart; None for any other tag."""
    match = _RELEASE.fullmatch(tag)
    return Release(match["tag"], int(match["number"])) if match and _TAG.fullmatch(match["tag"]) else None


def releases(tag: str, existing: Iterable[str]) -> list[Release]:
    """The releases of `tag` (without -vN) among existing tags, oldest first."""
    found = [release for release in map(parse, existing) if release and release.tag == tag]
    return sorted(found, key=lambda release: release.number)


def next_number(tag: str, existing: Iterable[str]) -> int:
    """One more than the highest number in use; a gap is never filled, since its number may have been seen."""
    found = releases(tag, existing)
    return found[-1].number + 1 if found else 1


def aliases(tag: str) -> tuple[str, ...]:
    """Every form that moves, longest first. Raises ValueError for a tag outside the grammar."""
    match = _TAG.fullmatch(tag)
    if match is None:
        raise ValueError(f"{tag!r} is not a tag of the form 2.13.0-cpu-py311-debian12")
    end = [match["arch"]] if match["arch"] else []
    versions = (match["version"], _shortened(match["version"]))
    short = ("-".join([version, match["processor"], match["python"], *end]) for version in versions)
    return tuple(dict.fromkeys((tag, *short)))


def aliases_to_move(release: Release, existing: Iterable[str]) -> tuple[str, ...]:
    """The aliases that should name `release`, given the tags of its repository.

    An alias stays where it is when a higher number of the same tag, or for the shortest form a higher patch version,
    has it. Between two systems or CUDA versions of one version the last push wins.
    """
    present = [found for found in map(parse, existing) if found]
    return tuple(
        alias
        for alias in aliases(release.tag)
        if not any(alias in aliases(other.tag) and _comes_after(other, release) for other in present)
    )


def mutability_filters(tags: Iterable[str], present: Iterable[str] = ()) -> tuple[str, ...]:
    """ECR's wildcard filters that let the aliases of `tags` move, and no -vN tag.

    A filter is `*-` and an alias's last part: an alias ends in py311, debian12 or arm64, a release in its number. ECR
    keeps five. Those of `present` that still fit are kept, behind the needed ones. Raises ValueError when the needed
    ones alone are too many.
    """
    needed = [_SIGNATURES]
    for tag in tags:
        needed.extend("*-" + alias.rpartition("-")[2] for alias in aliases(tag))
    needed = list(dict.fromkeys(needed))
    if len(needed) > ECR_FILTER_LIMIT:
        raise ValueError(f"ECR keeps {ECR_FILTER_LIMIT} filters a repository; needed are {', '.join(needed)}")
    return tuple(dict.fromkeys([*needed, *present]))[:ECR_FILTER_LIMIT]


def version_key(version: str) -> tuple[tuple[list[int], bool, list[int]], ...]:
    """For sorting versions: 2.9.1 before 2.13.0rc1 before 2.13.0."""
    keys = []
    for part in version.split("-"):
        main = re.search(r"\d+(?:\.\d+)*", part)
        rest = part[main.end() :] if main else part
        final = not re.match(r"\.?(a|b|rc|dev)\d", rest)
        keys.append((_numbers(main[0] if main else ""), final, _numbers(rest)))
    return tuple(keys)


def _comes_after(one: Release, other: Release) -> bool:
    if one.tag == other.tag:
        return one.number > other.number
    return version_key(_version(one.tag)) > version_key(_version(other.tag))


def _version(tag: str) -> str:
    match = _TAG.fullmatch(tag)
    assert match is not None  # parse and aliases let no other tag through
    return match["version"]


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]


def _shortened(version: str) -> str:
    """`2.13.0` -> `2.13`, `2.13.0-transformers5.1.0` -> `2.13-transformers5.1`; a local part goes with the patch."""
    return "-".join(".".join(part.split(".")[:2]) for part in version.split("-"))
