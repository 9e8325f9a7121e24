"""What a release has done so far, on disk before the next step begins, so that a run after a crash goes on from there.

<state>/releases/<id>/journal.json    {"form", "id", "images", "state", "steps": {step: {image: {…}}}, "moves", "entry"}
<state>/releases/lock                 held by the one release that runs

States: `open` (no tag was touched), `promoting` (tags may have moved; `moves` says which and from where, `entry` is
what the ledger will hold), `promoted` (all tags stand, the ledger may lack the entry), `done`.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from slipway.errors import SlipwayError
from slipway.files import canonical_json, write_whole

FORM = 1
UNSETTLED = ("promoting", "promoted")


@dataclass(frozen=True, kw_only=True)
class Move:
    """One tag of a repository, from a digest (empty: it was not there) to another. `fixed`: a tag that never moves."""

    host: str
    repository: str
    tag: str
    before: str
    after: str
    fixed: bool

    @property
    def place(self) -> tuple[str, str, str]:
        return self.host, self.repository, self.tag

    def __str__(self) -> str:
        return f"{self.host}/{self.repository}:{self.tag}"


class Journal:
    """One release's journal. Every change is on disk when the call returns."""

    def __init__(self, path: Path, data: dict[str, Any]) -> None:
        self.path = path
        self._data = data

    @property
    def id(self) -> str:
        return str(self._data["id"])

    @property
    def folder(self) -> Path:
        return self.path.parent

    @property
    def images(self) -> tuple[str, ...]:
        return tuple(self._data["images"])

    @property
    def state(self) -> str:
        return str(self._data["state"])

    @property
    def moves(self) -> list[Move]:
        return [Move(**move) for move in self._data["moves"]]

    @property
    def entry(self) -> Mapping[str, Any]:
        """What the ledger will hold of this release."""
        found: Mapping[str, Any] = self._data["entry"]
        return found

    def done(self, step: str, image: str, of: str) -> dict[str, Any] | None:
        """What a step left for an image, unless that was `of` another content than the image has now."""
        found: dict[str, Any] | None = self._data["steps"].get(step, {}).get(image)
        return found if found is not None and found["of"] == of else None

    def record(self, step: str, image: str, of: str, **facts: Any) -> None:
        """A step ended. `of`: the digest of the content that it was done for."""
        at = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self._data["steps"].setdefault(step, {})[image] = {"of": of, "at": at, **facts}
        self._write()

    def adopt(self, other: Journal) -> None:
        """Take over what another journal says of the same images, such as one of another runner."""
        for step, images in other._data["steps"].items():
            taken = {image: facts for image, facts in images.items() if image in self.images}
            if taken:
                self._data["steps"].setdefault(step, {}).update(taken)

    def forget(self, step: str, image: str) -> None:
        """What a step left for an image is there no more."""
        if self._data["steps"].get(step, {}).pop(image, None) is not None:
            self._write()

    def promote(self, moves: Sequence[Move], entry: Mapping[str, Any]) -> None:
        """Tags are about to move: the last thing written before the first one does."""
        self._data |= {"state": "promoting", "moves": [asdict(move) for move in moves], "entry": dict(entry)}
        self._write()

    def turn(self, state: str) -> None:
        self._data["state"] = state
        self._write()

    def _write(self) -> None:
        write_whole(self.path, canonical_json({"form": FORM, **self._data}))


@dataclass(frozen=True)
class Journals:
    """The journals of a state folder."""

    folder: Path

    def blank(self, images: Sequence[str]) -> Journal:
        """A new journal for these images, with what others that are open did for them; nothing is written yet."""
        now = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        id = f"{now}-{secrets.token_hex(3)}"
        data = {"id": id, "images": sorted(images), "state": "open", "steps": {}, "moves": [], "entry": {}}
        journal = Journal(self.folder / id / "journal.json", data)
        for other in self.all():
            if other.state == "open":
                journal.adopt(other)
        return journal

    def begin(self, images: Sequence[str]) -> Journal:
        """The same, written."""
        journal = self.blank(images)
        journal.turn("open")
        return journal

    def all(self) -> list[Journal]:
        """Every journal, oldest first."""
        return [_read(path) for path in sorted(self.folder.glob("*/journal.json"))]

    def unfinished(self, images: Sequence[str]) -> Journal | None:
        """The newest journal of exactly these images that did not come to its end."""
        wanted = tuple(sorted(images))
        found = [one for one in self.all() if one.images == wanted and one.state == "open"]
        return found[-1] if found else None


def _read(path: Path) -> Journal:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        form = data.pop("form")
        if form > FORM:
            raise SlipwayError(f"{path} was written by a newer Slipway (form {form})", fix="update Slipway")
        journal = Journal(path, data)
        _ = journal.moves, journal.id, journal.images, journal.state, data["steps"], data["entry"]
        return journal
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SlipwayError(f"{path} is no journal of a release: {error}", fix="move it away") from None
