"""A release from plan to listing: `plan` says what each step would do and why, `run` does what is missing.

Every registry is asked before the first step. Nothing has a name until every image has passed every step in every
registry; then all tags move, and the ledger's document is written, or none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from slipway.engine.interrupts import uninterrupted
from slipway.errors import EngineError, SlipwayError
from slipway.files import locked
from slipway.records import Build, Push
from slipway.registry import Registry
from slipway.release import delivery, ledger, listing, promotion, proof, tags
from slipway.release.journal import UNSETTLED, Journal, Journals, Move
from slipway.release.ledger import Place, Released, Standing
from slipway.release.push import Site
from slipway.release.tags import Release
from slipway.release.work import DO, SKIP, STOP, Item, State, Step, Tools, Work

BEFORE: tuple[Step, ...] = (
    proof.BuildStep(),
    proof.VerifyStep(),
    proof.SmokeStep(),
    proof.SizeStep(),
    proof.SbomStep(),
    proof.ChangesStep(),
    delivery.PushStep(),
)
BEHIND: tuple[Step, ...] = (
    delivery.ScanStep(),
    delivery.SignStep(),
    delivery.CheckStep(),
    delivery.ReplicateStep(),
)
PROVED = ("build", "verify", "smoke")
"""After these, `proof.require` has the last word."""


@dataclass(frozen=True)
class Planned:
    """One step of one image: do, skip, stop or not configured, and why."""

    step: str
    image: str
    action: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """A release of these images. `untested`: GPU images that may go out without a GPU's word."""

    tools: Tools
    items: tuple[Item, ...]
    untested: frozenset[str] = frozenset()
    notes: str = ""

    @property
    def journals(self) -> Journals:
        return Journals(self.tools.records.state / "releases")

    def plan(self) -> list[Planned]:
        """Every step of every image. Asks no registry, changes nothing."""
        ids = [item.id for item in self.items]
        journal = self.journals.unfinished(ids) or self.journals.blank(ids)
        work = Work(self.items, self.tools, journal, self.untested)
        found = [
            Planned("settle", ", ".join(one.images), DO, f"{one.id} ended in the middle of moving tags")
            for one in self.journals.all()
            if one.state in UNSETTLED
        ]
        for item in self.items:
            released = work.released(item)
            if released is not None:
                found.append(Planned("release", item.id, SKIP, _already(released)))
                continue
            for step in (*BEFORE, *BEHIND):
                state = _looked(step, work, item)
                found.append(Planned(step.name, item.id, state.action, state.why))
            found.append(Planned("promote", item.id, DO, self._tags(work, item)))
        if any(one.step == "promote" for one in found):
            document = f"{self.tools.ledger.store.place}/{len(work.history.entries) + 1:06d}.json"
            found.append(Planned("ledger", "", DO, document))
            found.append(Planned("listing", "", DO, f"{self.tools.ledger.store.place}/{ledger.LISTING}"))
        return found

    def run(self, *, stage: bool = False) -> list[Released]:
        """Release what is not released yet, and return it. `stage`: end before anything is scanned, signed or named.

        Raises the error of the step that failed; what was done until then is in the journal, and no tag has moved.
        """
        state = self.tools.records.state
        with locked(state / "releases" / "lock", lambda: self.tools.note("another release is running; waiting for it")):
            self._settle()
            left = self._left()
            if not left:
                return []
            ids = [item.id for item in left]
            journal = self.journals.unfinished(ids)
            if journal is not None:
                self.tools.note(f"going on with the release {journal.id}")
            work = Work(left, self.tools, journal or self.journals.begin(ids), self.untested)
            self._ask_registries(work)
            self._do(work, [step for step in BEFORE if step.name in PROVED])
            proof.require(work)
            self._do(work, [step for step in BEFORE if step.name not in PROVED])
            if stage:
                return []
            self._do(work, BEHIND)
            return self._promote(work)

    def _left(self) -> tuple[Item, ...]:
        """The images that the ledger does not have as they are."""
        work = Work(self.items, self.tools, self.journals.blank([]), self.untested)
        states = [(item, work.released(item)) for item in self.items]
        for item, released in states:
            if released is not None:
                self.tools.note(f"{item.id}: {_already(released)}")
        return tuple(item for item, released in states if released is None)

    def _ask_registries(self, work: Work) -> None:
        """Every registry of every image, before minutes of building; what one of them lost is sent anew."""
        for item in work.items:
            work.clients(item)
        for item in work.items:
            for step in delivery.lost(work, item):
                self.tools.note(f"{item.id}: a registry no longer has it; {step} is done anew")
                work.journal.forget(step, item.id)

    def _do(self, work: Work, steps: Sequence[Step]) -> None:
        for step in steps:
            states = [(item, step.look(work, item)) for item in work.items]
            for item, state in states:
                if state.action != SKIP:
                    self.tools.note(f"{step.name} {item.id}: {state.action}, {state.why}")
            if step.name in PROVED and any(state.action == STOP for _, state in states):
                proof.require(work)
            wanted = [item for item, state in states if state.action == DO]
            if wanted:
                step.do(work, wanted)

    def _tags(self, work: Work, item: Item) -> str:
        before = work.history.of_image(item.id)
        number = max((ledger.number(one.image) for one in before), default=0) + 1
        moving = f", then {', '.join(tags.aliases(item.cell.tag))}" if self.tools.aliases else ""
        where = f"{len(item.places)} registries" if len(item.places) > 1 else "one registry"
        return f"-v{number} unless a registry has more{moving}, in {where}"

    def _promote(self, work: Work) -> list[Released]:
        """Name every image everywhere. `push` waits meanwhile, so that no number is taken between look and move."""
        with locked(self.tools.records.state / "push.lock"):
            clients = {registry.host: registry for item in work.items for _, registry in work.clients(item)}
            prepared = [self._prepare(work, item) for item in work.items]
            images = [image for image, _ in prepared]
            body = {"kind": "release", "release": work.journal.id, "images": [ledger.document(one) for one in images]}
            if self.notes:
                body["notes"] = self.notes
            moves = [move for _, own in prepared for move in own]
            settle(self.tools, work.journal, lambda host: clients[host], moves, body)
        return images

    def _prepare(self, work: Work, item: Item) -> tuple[Released, list[Move]]:
        """What the ledger will hold of an image, and the moves of its tags as its registries are now."""
        build = work.the_build(item)
        sites = [
            Site(build, item.repository, registry, one.region, tuple(registry.tags(item.repository)))
            for one, registry in work.clients(item)
        ]
        release = Release(build.tag, promotion.number_for(sites))
        digest = str(_fact(work, "push", item)["digest"])
        moves = promotion.moves_of(sites, release, digest, aliases=self.tools.aliases)
        return _released(work, item, build, release, sites, moves), moves

    def _settle(self) -> None:
        """Finish what a killed run left in the middle, or take it back."""
        for journal in self.journals.all():
            if journal.state in UNSETTLED:
                self.tools.note(f"{journal.id} was ended in the middle of moving tags; finishing it first")
                with locked(self.tools.records.state / "push.lock"):
                    settle(self.tools, journal, self.tools.client)


def settle(
    tools: Tools,
    journal: Journal,
    client: Callable[[str], Registry],
    moves: Sequence[Move] | None = None,
    body: dict[str, Any] | None = None,
) -> None:
    """Move the tags and write the ledger's document, both or none. Without `moves`, those that the journal has.

    Raises what failed, when every tag is back where it was.
    """
    if moves is not None and body is not None:
        journal.promote(moves, body)
    clients = {move.host: client(move.host) for move in journal.moves}
    try:
        promotion.carry_out(journal, clients)
        with uninterrupted():
            _write_down(tools, journal)
    except BaseException as error:
        with uninterrupted():
            if not _may_be_written(tools, journal):
                promotion.take_back(journal, clients)
                tools.note("every tag is where it was")
        if isinstance(error, SlipwayError):
            error.fix = "; ".join(filter(None, (error.fix, "the same command goes on where it stopped")))
        raise


def _may_be_written(tools: Tools, journal: Journal) -> bool:
    """Whether the ledger has the document, as far as it can be told: then the tags stand, and the next run goes on."""
    if journal.state not in ("promoted", "done"):  # the ledger was not written to
        return False
    try:
        return tools.ledger.history().release(journal.id) is not None
    except SlipwayError:
        tools.note("the ledger does not say whether it has the release; the tags stand, and the next run goes on")
        return True


def _write_down(tools: Tools, journal: Journal) -> None:
    entry = dict(journal.entry)
    if tools.ledger.history().release(journal.id) is None:
        tools.ledger.append(entry.pop("kind"), entry)
    history = tools.ledger.history()
    for push in history.pushes():
        if _concerns(push, journal):
            tools.records.add_push(push)
    tools.ledger.store.replace(ledger.LISTING, listing.markdown(history).encode())
    journal.turn("done")


def _concerns(push: Push, journal: Journal) -> bool:
    return any((move.host, move.repository) == (push.registry, push.repository) for move in journal.moves)


def _looked(step: Step, work: Work, item: Item) -> State:
    """For a plan, which needs no engine."""
    try:
        return step.look(work, item)
    except EngineError:
        return State(DO, "unless the engine has it; none answers here")


def _already(standing: Standing) -> str:
    return f"released as {standing.image.tag} at {standing.at}"


def _fact(work: Work, step: str, item: Item) -> dict[str, Any]:
    return work.done(step, item) or {}


def _released(
    work: Work, item: Item, build: Build, release: Release, sites: Sequence[Site], moves: Sequence[Move]
) -> Released:
    push, sbom, sign, scan = (_fact(work, step, item) for step in ("push", "sbom", "sign", "scan"))
    verdict = work.tools.records.verdict_of(build.config_digest, work.tools.suite_hash)
    before = work.history.newest(item.id)
    assert verdict is not None  # proof.require
    return Released(
        image=item.id,
        framework=build.framework,
        version=build.version,
        scope=build.scope,
        processor=build.processor,
        python=build.python,
        tag=str(release),
        aliases=tuple(dict.fromkeys(move.tag for move in moves if not move.fixed)),
        config_digest=build.config_digest,
        manifest_digest=push["digest"],
        media_type=push["media_type"],
        places=tuple(
            Place(registry=site.registry.host, region=site.region, repository=site.repository) for site in sites
        ),
        size=build.size,
        compressed=push["compressed"],
        input_hash=build.input_hash,
        lock_hash=build.lock_hash,
        base=build.base,
        revision=build.revision,
        verdict={"suite": verdict.suite_hash, "at": verdict.at, "checks": len(verdict.checks)},
        smoke=_smoke(work, item, build),
        packages=sbom.get("packages", {}),
        labels=push["labels"],
        scan={name: scan[name] for name in ("scanner", "looked", "covers", "findings", "allowed") if name in scan},
        sbom=sbom.get("digests", {}),
        signature={name: sign[name] for name in ("reference", "attested") if name in sign},
        supported_until=item.cell.supported_until,
        previous=before.image.tag if before else "",
    )


def _smoke(work: Work, item: Item, build: Build) -> dict[str, Any]:
    if item.cell.processor != "gpu":
        return {}
    smoke = work.tools.records.smoke_of(build.config_digest, work.tools.smoke_hash)
    if smoke is None or not smoke.passed:
        return {"untested": "no GPU has run it; released by name"}
    return {"device": smoke.device_name, "driver": smoke.driver, "at": smoke.at, "steps": len(smoke.steps)}
