"""What the steps of one release share: its images, its journal, and the tools that act on the world."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from slipway.engine.docker import Engine
from slipway.errors import NotFoundError
from slipway.records import Build, Records
from slipway.registry import Registry
from slipway.release.destinations import Destination
from slipway.release.journal import Journal
from slipway.release.ledger import History, Ledger, Standing
from slipway.release.sharing import Holders
from slipway.spec.model import Image
from slipway.supply.config import Gate
from slipway.supply.findings import Scan
from slipway.supply.sbom import Sbom

DO, SKIP, OFF, STOP = "do", "skip", "not configured", "stop"
"""What a plan says of a step: it is done, it need not be, it is not configured, it would end the release."""


@dataclass(frozen=True)
class State:
    """Whether a step is needed for an image, and why."""

    action: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Item:
    """One image that is to be released. `places`: its registries' hosts, for people; the first is pushed to."""

    cell: Image
    input_hash: str
    repository: str  # with the prefix
    places: tuple[str, ...]
    destinations: Callable[[], Sequence[Destination]]
    gate: Gate | None = None
    may_go_back: Mapping[str, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return self.cell.id


class Signer(Protocol):
    """Signs what a registry holds; `subject` is HOST/REPOSITORY@sha256:…, `kind` one of cosign's predicate types."""

    def sign(self, registry: Registry, subject: str) -> str: ...

    def attest(self, registry: Registry, subject: str, predicate: Path, kind: str) -> str: ...

    def verify(self, registry: Registry, subject: str, kinds: Sequence[str]) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Tools:
    """What acts on the world. `sbom` and `signer` are None where not configured."""

    records: Records
    ledger: Ledger
    suite_hash: str
    smoke_hash: str
    engine: Callable[[], Engine]
    build: Callable[[Sequence[Item]], None]
    verify: Callable[[Build], None]
    scan: Callable[[Gate, Build, Registry, str, str], Scan]
    predicate: Callable[[Build], Mapping[str, Any]]
    client: Callable[[str], Registry]
    note: Callable[[str], None]
    sbom: Callable[[str, Path], Sbom] | None = None
    signer: Signer | None = None
    aliases: bool = True


@dataclass(frozen=True)
class Work:
    """One release as it stands. `untested`: GPU images that go out without a GPU's word, named by the releaser."""

    items: tuple[Item, ...]
    tools: Tools
    journal: Journal
    untested: frozenset[str] = frozenset()
    holders: dict[str, Holders] = field(default_factory=dict)
    _clients: dict[str, list[tuple[Destination, Registry]]] = field(default_factory=dict)

    @cached_property
    def history(self) -> History:
        """The ledger as it was when the release began."""
        return self.tools.ledger.history()

    @cached_property
    def _builds(self) -> dict[tuple[str, str], Build]:
        return {(build.image, build.input_hash): build for build in self.tools.records.builds()}  # the newest stays

    def built(self) -> None:
        """Builds were recorded: look anew."""
        self.__dict__.pop("_builds", None)

    def build(self, item: Item) -> Build | None:
        """The newest build of an image from the inputs as they are now."""
        return self._builds.get((item.id, item.input_hash))

    def the_build(self, item: Item) -> Build:
        """The same where a step before has made it. Raises NotFoundError."""
        build = self.build(item)
        if build is None:
            raise NotFoundError(f"{item.id} has no build of its inputs", fix=f"run `invoke build --only {item.id}`")
        return build

    def done(self, step: str, item: Item) -> dict[str, Any] | None:
        """What a step left in the journal for an image's present content."""
        build = self.build(item)
        return self.journal.done(step, item.id, build.config_digest) if build else None

    def record(self, step: str, item: Item, **facts: Any) -> None:
        self.journal.record(step, item.id, self.the_build(item).config_digest, **facts)

    def released(self, item: Item) -> Standing | None:
        """How the ledger has this very image in every one of its places, if it does."""
        build = self.build(item)
        if build is None:
            return None
        for one in self.history.of_image(item.id):
            hosts = {place.registry for place in one.image.places}
            same = one.image.config_digest == build.config_digest
            if same and not one.withdrawn and item.places and hosts >= set(item.places):
                return one
        return None

    def in_engine(self, build: Build) -> bool:
        try:
            self.tools.engine().image(build.engine_id)
        except NotFoundError:
            return False
        return True

    def clients(self, item: Item) -> list[tuple[Destination, Registry]]:
        """An image's registries, each made ready once for its repository."""
        if item.id not in self._clients:
            self._clients[item.id] = [
                (one, one.open(item.repository, item.cell.tag, self.tools.note)) for one in item.destinations()
            ]
        return self._clients[item.id]

    def primary(self, item: Item) -> tuple[Destination, Registry]:
        """Where an image is pushed to, scanned and signed; the others get a copy from there."""
        return self.clients(item)[0]

    def sbom_folder(self, build: Build) -> Path:
        return self.tools.records.state / "sboms" / build.config_digest[7:]


class Step(Protocol):
    """One step of a release."""

    name: str

    def look(self, work: Work, item: Item) -> State:
        """Whether it is needed. Asks no registry."""

    def do(self, work: Work, items: Sequence[Item]) -> None:
        """Do it for the images that need it. What it leaves is in the journal or on record when it returns."""
