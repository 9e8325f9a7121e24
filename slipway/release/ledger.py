"""The ledger: what was released, taken back and ended, one JSON document after the other, none ever changed.

    000001.json    {"form": 1, "number": 1, "kind": "release", "at": …, "follows": "", "release": ID, "images": […]}
    000002.json    {"form": 1, "number": 2, "kind": "yank", "at": …, "follows": sha256 of the one before, …}

Kinds: `release`, `yank` (and its undoing), `rollback`, `eol`, `wheels`. A document's number is its name, so that of two
writers one finds it taken; `follows` holds the bytes of the one before it, so that a change of any is seen.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from functools import cached_property
from typing import Any

from slipway.errors import NotFoundError, SlipwayError, UsageError, nearest
from slipway.files import canonical_json, sha256_bytes
from slipway.records import Push
from slipway.release import tags
from slipway.release.stores import Store

FORM = 1
KINDS = ("release", "yank", "rollback", "eol", "wheels")
LISTING = "README.md"


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where an image of a release is. `region` is empty outside ECR."""

    registry: str
    region: str
    repository: str


@dataclass(frozen=True, kw_only=True)
class Released:
    """One image of a release. Sizes are bytes; what was not configured or not known is empty."""

    image: str
    framework: str
    version: str
    scope: str
    processor: str
    python: str
    tag: str  # with -vN
    aliases: tuple[str, ...]  # that were moved to it
    config_digest: str
    manifest_digest: str
    media_type: str
    places: tuple[Place, ...]
    size: int
    compressed: int
    input_hash: str
    lock_hash: str
    base: str
    revision: str
    verdict: Mapping[str, Any]  # suite, at, checks
    smoke: Mapping[str, Any]  # of a GPU image; {"untested": …} where the releaser said so by name
    packages: Mapping[str, str] = field(default_factory=dict)  # version by name
    labels: Mapping[str, str] = field(default_factory=dict)
    scan: Mapping[str, Any] = field(default_factory=dict)
    sbom: Mapping[str, Any] = field(default_factory=dict)
    signature: Mapping[str, Any] = field(default_factory=dict)
    supported_until: str = ""
    previous: str = ""  # the tag that the aliases named before

    @property
    def name(self) -> str:
        return f"{self.places[0].repository}:{self.tag}"

    def called(self) -> set[str]:
        """What it may be called; aliases move, and are none."""
        found = {self.tag, self.name, self.manifest_digest, self.config_digest}
        for place in self.places:
            at = f"{place.registry}/{place.repository}"
            found |= {f"{at}:{self.tag}", f"{at}@{self.manifest_digest}", f"{place.repository}:{self.tag}"}
        return found


@dataclass(frozen=True)
class Entry:
    """One document. `body` is all of it but the number, kind, time and link."""

    number: int
    kind: str
    at: str
    body: Mapping[str, Any]
    sha256: str

    @cached_property
    def images(self) -> tuple[Released, ...]:
        """Of a release."""
        return tuple(_released(image) for image in self.body.get("images", ()))


@dataclass(frozen=True)
class Ledger:
    """All documents of a store, read anew with `entries`."""

    store: Store

    def entries(self) -> list[Entry]:
        """Every document in order. Raises SlipwayError where one is missing, changed, or of a newer form."""
        found: list[Entry] = []
        for name in self.store.names():
            entry, follows = _parse(self.store.place, name, self.store.read(name))
            if entry.number != len(found) + 1:
                raise SlipwayError(f"{self.store.place} lacks document {len(found) + 1}", fix="get it back, whole")
            if follows != (found[-1].sha256 if found else ""):
                raise SlipwayError(
                    f"{self.store.place}: {found[-1].number if found else 0:06d}.json is not what {name} follows: one "
                    f"of them was changed",
                    fix="get both back as they were written; the ledger is only ever added to",
                )
            found.append(entry)
        return found

    def append(self, kind: str, body: Mapping[str, Any]) -> Entry:
        """Add a document behind all others, whoever else writes at this moment."""
        assert kind in KINDS
        while True:
            before = self.entries()
            document = {
                **body,
                "form": FORM,
                "kind": kind,
                "number": len(before) + 1,
                "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
                "follows": before[-1].sha256 if before else "",
            }
            data = canonical_json(document).encode()
            if self.store.create(f"{len(before) + 1:06d}.json", data):
                return _parse(self.store.place, f"{len(before) + 1:06d}.json", data)[0]

    def history(self) -> History:
        return History(tuple(self.entries()))


@dataclass(frozen=True)
class Standing:
    """How a released image stands, and when it was released by which document."""

    image: Released
    at: str
    number: int
    withdrawn: str = ""  # why nobody should be led to it any more


@dataclass(frozen=True)
class History:
    """What the documents add up to."""

    entries: Sequence[Entry]

    @cached_property
    def standings(self) -> tuple[Standing, ...]:
        """Every released image, oldest first. An image that was released again with more places counts once."""
        found: dict[tuple[str, str, str], Standing] = {}
        for entry in self.entries:
            if entry.kind == "release":
                for image in entry.images:
                    key = (image.image, image.tag, image.manifest_digest)
                    found[key] = _joined(found.get(key), Standing(image, entry.at, entry.number))
            elif entry.kind in ("yank", "rollback"):
                for key, one in found.items():
                    if one.image.config_digest in entry.body["config_digests"]:
                        found[key] = replace(one, withdrawn=str(entry.body["reason"]))
        return tuple(found.values())

    def release(self, id: str) -> Entry | None:
        """The document of a release, by the release's ID."""
        return next((entry for entry in self.entries if entry.body.get("release") == id), None)

    def find(self, name: str) -> Standing:
        """One released image by URI, tag, digest or ID (then the newest). Raises NotFoundError and UsageError."""
        named = [one for one in self.standings if name in one.image.called()]
        if not named:
            named = [one for one in self.standings if one.image.image == name][-1:]
        if not named:
            known = [one.image.name for one in self.standings] + [one.image.image for one in self.standings]
            raise NotFoundError(f"no release of {name} is in the ledger", fix=nearest(name, known))
        if len({one.image.config_digest for one in named}) > 1:
            listed = ", ".join(sorted({one.image.name for one in named}))
            raise UsageError(f"{name} means several images: {listed}", fix="give a digest, or REPOSITORY:TAG")
        return named[-1]

    def of_image(self, image: str) -> list[Standing]:
        """The releases of one cell, oldest first."""
        return [one for one in self.standings if one.image.image == image]

    def newest(self, image: str) -> Standing | None:
        """What a cell's aliases name: its newest release that was not taken back."""
        return next((one for one in reversed(self.of_image(image)) if not one.withdrawn), None)

    def pushes(self) -> list[Push]:
        """The same as records of pushes, one a place, for lookups."""
        return [_push(one, place) for one in self.standings for place in one.image.places]

    def ends(self) -> dict[tuple[str, str], str]:
        """Framework and version -> the day that `eol` named last."""
        documents = [entry.body for entry in self.entries if entry.kind == "eol"]
        return {(body["framework"], body["version"]): str(body["on"]) for body in documents}


def document(image: Released) -> dict[str, Any]:
    """An image as a document holds it."""
    return asdict(image)


def number(released: Released) -> int:
    found = tags.parse(released.tag)
    return found.number if found else 0


def _joined(before: Standing | None, now: Standing) -> Standing:
    if before is None:
        return now
    places = tuple(dict.fromkeys((*before.image.places, *now.image.places)))
    return replace(now, image=replace(now.image, places=places), withdrawn=before.withdrawn)


def _push(one: Standing, place: Place) -> Push:
    image = one.image
    return Push(
        config_digest=image.config_digest,
        manifest_digest=image.manifest_digest,
        media_type=image.media_type,
        image=image.image,
        framework=image.framework,
        version=image.version,
        scope=image.scope,
        processor=image.processor,
        python=image.python,
        registry=place.registry,
        region=place.region,
        repository=place.repository,
        tag=image.tag,
        uri=f"{place.registry}/{place.repository}:{image.tag}",
        aliases=image.aliases,
        pushed_at=one.at,
        revision=image.revision,
        yanked=one.withdrawn,
    )


def _parse(place: str, name: str, data: bytes) -> tuple[Entry, str]:
    try:
        found: dict[str, Any] = json.loads(data)
        form = found.pop("form")
        if form > FORM:
            raise SlipwayError(f"{place}/{name} was written by a newer Slipway (form {form})", fix="update Slipway")
        number, kind, at, follows = (found.pop(key) for key in ("number", "kind", "at", "follows"))
        if kind not in KINDS or name != f"{number:06d}.json":
            raise ValueError(f"a document {number} of kind {kind}")
        entry = Entry(number, kind, at, found, sha256_bytes(data))
        if kind == "release":
            _ = entry.images
        return entry, follows
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        what = f"{type(error).__name__}: {error}"
        raise SlipwayError(f"{place}/{name} is no document of a ledger: {what}", fix="get it back, whole") from None


def _released(data: Mapping[str, Any]) -> Released:
    given = dict(data)
    given["aliases"] = tuple(given["aliases"])
    given["places"] = tuple(Place(**place) for place in given["places"])
    return Released(**given)
