"""The steps that send an image without naming it: push by digest, scan, sign, check, replicate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path

from slipway.engine.docker import Engine
from slipway.engine.uploads import upload
from slipway.errors import AuthError, RegistryError
from slipway.files import canonical_json, write_whole
from slipway.records import Build
from slipway.registry import Manifest, Registry
from slipway.registry.blobs import Repository, copy
from slipway.release import tags
from slipway.release.push import Site
from slipway.release.sharing import Holders, configuration
from slipway.release.work import DO, OFF, SKIP, Item, State, Work
from slipway.supply import findings

ATTESTED = ("slsaprovenance1", "cyclonedx", "spdxjson")
UPLOADS = 3
"""How often an upload by the engine is begun; the engine itself sends a layer again that was cut."""


class PushStep:
    """Sends an image to the first of its registries, by digest. What is there already is not sent again."""

    name = "push"

    def look(self, work: Work, item: Item) -> State:
        done = work.done(self.name, item)
        if done is not None:
            return State(SKIP, f"{done['host']}/{done['repository']}@{done['digest'][:19]}… has it")
        return State(DO, f"to {item.places[0] if item.places else 'a registry on loopback'}, without a release tag")

    def do(self, work: Work, items: Sequence[Item]) -> None:
        for item in items:
            build = work.the_build(item)
            destination, registry = work.primary(item)
            site = Site(build, item.repository, registry, destination.region, tuple(registry.tags(item.repository)))
            held = site.read_back(str(site.held)) if site.held else None
            if held is None:
                _holders(work, registry).mount(item.repository, build.layers)
            manifest, sent = (held, 0) if held else send(site, work.tools.engine, work.tools.note)
            missing = [one for one in manifest.blobs if not registry.has_blob(site.repository, one)]
            if missing:
                raise RegistryError(f"{site.place} lacks parts of what was pushed: {', '.join(missing)}", fix="again")
            work.record(
                self.name,
                item,
                host=registry.host,
                repository=item.repository,
                digest=manifest.digest,
                media_type=manifest.media_type,
                compressed=sum(manifest.blobs.values()),
                labels=configuration(registry, item.repository, manifest).get("config", {}).get("Labels") or {},
                sent=sent,
            )
            work.tools.note(f"  {site.place}@{manifest.digest}: {sent / 1e6:.1f} MB sent")


class ScanStep:
    """Looks for vulnerabilities in what was pushed. It looks each time: what is known changes."""

    name = "scan"

    def look(self, work: Work, item: Item) -> State:
        if item.gate is None:
            return State(OFF, "release.yml has no scan:")
        return State(DO, f"{item.gate.scanner}, fails on {item.gate.fail_on}, {len(item.gate.allow)} allowed")

    def do(self, work: Work, items: Sequence[Item]) -> None:
        for item in items:
            assert item.gate is not None
            _, registry = work.primary(item)
            scan = work.tools.scan(item.gate, work.the_build(item), registry, item.repository, _pushed(work, item))
            today = datetime.now(timezone.utc).date()
            judged = findings.judge(scan, item.gate, today)
            work.record(
                self.name,
                item,
                scanner=scan.scanner,
                looked=scan.at,
                passed=judged.passed,
                covers=list(scan.covers),
                findings=[
                    {"id": one.id, "package": one.package, "version": one.version, "severity": one.severity}
                    for one in scan.findings
                ],
                allowed=[f"{one.id}: {allow.reason}" for one, allow in judged.allowed],
            )
            findings.require(judged, item.id, today)


class SignStep:
    """Signs the digest and attests where it came from and what is inside."""

    name = "sign"

    def look(self, work: Work, item: Item) -> State:
        if work.tools.signer is None:
            return State(OFF, "release.yml has no signing:")
        done = work.done(self.name, item)
        if done is not None:
            return State(SKIP, f"signed and attested at {done['at']}")
        return State(DO, ", ".join(kinds(work)) + " attested")

    def do(self, work: Work, items: Sequence[Item]) -> None:
        signer = work.tools.signer
        assert signer is not None
        for item in items:
            build = work.the_build(item)
            _, registry = work.primary(item)
            subject = f"{registry.host}/{item.repository}@{_pushed(work, item)}"
            reference = signer.sign(registry, subject)
            attested = {
                kind: signer.attest(registry, subject, predicate, kind)
                for kind, predicate in _predicates(work, item, build).items()
            }
            work.record(self.name, item, reference=reference, attested=attested)


class CheckStep:
    """Checks signature and attestations as a consumer would, with the public key alone."""

    name = "check"

    def look(self, work: Work, item: Item) -> State:
        if work.tools.signer is None:
            return State(OFF, "nothing is signed")
        return State(DO, "with the public key alone")

    def do(self, work: Work, items: Sequence[Item]) -> None:
        assert work.tools.signer is not None
        for item in items:
            _, registry = work.primary(item)
            subject = f"{registry.host}/{item.repository}@{_pushed(work, item)}"
            work.tools.signer.verify(registry, subject, kinds(work))
            work.record(self.name, item, kinds=list(kinds(work)))


class ReplicateStep:
    """Copies an image, its signature and attestations to its other registries, byte for byte, still without a tag."""

    name = "replicate"

    def look(self, work: Work, item: Item) -> State:
        if len(item.places) < 2:
            return State(SKIP, "one registry")
        done = work.done(self.name, item)
        if done is not None and set(item.places[1:]) <= set(done["hosts"]):
            return State(SKIP, f"{len(item.places) - 1} others have it")
        return State(DO, "to " + ", ".join(item.places[1:]))

    def do(self, work: Work, items: Sequence[Item]) -> None:
        neighbours = [item.repository for item in work.items]
        for item in items:
            (_, first), *others = work.clients(item)
            digest = _pushed(work, item)
            source = Repository(first, item.repository)
            manifest = _required(source, digest)
            for _, registry in others:
                target = Repository(registry, item.repository)
                done = copy(source, target, manifest, neighbours=neighbours)
                for tag in _attached(digest):
                    beside = first.manifest(item.repository, tag)
                    if beside is not None:
                        copy(source, target, beside, tag)
                work.tools.note(f"  {target}@{digest}: {done.sent / 1e6:.1f} MB sent, {done.mounted / 1e6:.1f} mounted")
            work.record(self.name, item, hosts=[registry.host for _, registry in others], digest=digest)


def kinds(work: Work) -> tuple[str, ...]:
    """What is attested: provenance, and the SBOMs where they are made."""
    return ATTESTED if work.tools.sbom is not None else ATTESTED[:1]


def lost(work: Work, item: Item) -> tuple[str, ...]:
    """The steps that the journal has and that are to be done anew, because a registry no longer has the image."""
    done = work.done(PushStep.name, item)
    if done is None:
        return ()
    (_, first), *others = work.clients(item)
    if done["host"] != first.host or first.manifest(item.repository, done["digest"]) is None:
        return PushStep.name, SignStep.name, ReplicateStep.name
    if all(registry.manifest(item.repository, done["digest"]) for _, registry in others):
        return ()
    return (ReplicateStep.name,) if work.done(ReplicateStep.name, item) else ()


def send(site: Site, engine: Callable[[], Engine], note: Callable[[str], None]) -> tuple[Manifest, int]:
    """Upload by the engine, again where that may help: with fresh credentials, or after a pause.

    Returns the manifest as it is read back, and the bytes that were sent.
    """
    registry, image = site.registry, site.build.engine_id

    def once() -> tuple[Manifest, int]:
        done = upload(
            engine(),
            image,
            registry.host,
            site.repository,
            tags.STAGING,
            registry.credentials,
            lambda sent, total: None,
        )
        manifest = site.read_back(done.digest)
        return manifest, done.bytes_sent(manifest.blobs)

    attempt = 1
    while True:
        try:
            return once()
        except (AuthError, RegistryError) as error:
            if attempt == UPLOADS or (isinstance(error, AuthError) and not registry.renew()):
                raise
            note(f"  {error.message}; going on, attempt {attempt + 1} of {UPLOADS}")
        registry.wait(attempt)
        attempt += 1


def _holders(work: Work, registry: Registry) -> Holders:
    """What the registry has of this release, and of the releases before."""
    holders = work.holders.setdefault(registry.host, Holders(registry))
    for one in work.items:
        done = work.done(PushStep.name, one)
        if done is not None and done["host"] == registry.host:
            holders.learn(done["repository"], done["digest"])
    for image in {standing.image.image: standing.image for standing in work.history.standings}.values():
        for place in image.places:
            if place.registry == registry.host:
                holders.learn(place.repository, image.manifest_digest)
    return holders


def _pushed(work: Work, item: Item) -> str:
    done = work.done(PushStep.name, item)
    assert done is not None
    return str(done["digest"])


def _required(place: Repository, digest: str) -> Manifest:
    manifest = place.registry.manifest(place.name, digest)
    if manifest is None:
        raise RegistryError(f"{place} has lost {digest}", fix="run the command again: it is pushed anew")
    return manifest


def _attached(digest: str) -> tuple[str, ...]:
    """The tags under which cosign keeps what belongs to a digest."""
    stem = digest.replace(":", "-")
    return f"{stem}.sig", f"{stem}.att"


def _predicates(work: Work, item: Item, build: Build) -> dict[str, Path]:
    folder = work.journal.folder / item.id
    provenance = folder / "provenance.json"
    write_whole(provenance, canonical_json(work.tools.predicate(build)))
    files = (provenance, work.sbom_folder(build) / "cyclonedx.json", work.sbom_folder(build) / "spdx.json")
    return dict(zip(kinds(work), files, strict=False))
