"""One verified image to one or more registries, by digest, under the next free number.

Every registry is asked before anything is sent to one. The upload lands under a staging tag; only when the registry
gives the very image back does the number name it, then the aliases, and last the record is written. Whatever is
interrupted is taken up by the next push of the same image.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cached_property

from slipway.engine.docker import Engine
from slipway.engine.uploads import Progress, upload
from slipway.errors import Fault, NotProvedError, RegistryError, SlipwayError, TagConflictError, VerifyError
from slipway.files import locked
from slipway.records import Build, Push, Records
from slipway.registry import Manifest, Registry
from slipway.release import tags
from slipway.release.destinations import Destination
from slipway.release.sharing import Holders
from slipway.release.tags import Release


@dataclass(frozen=True)
class Pushed:
    """How one registry stands after a push. `sent`: bytes of new layers; `new`: whether it took a new number."""

    record: Push
    sent: int
    new: bool


@dataclass(frozen=True, kw_only=True)
class Pusher:
    """What pushes share. `suite_hash`: of the checks that a verdict must come from. `note` takes a line for people."""

    records: Records
    suite_hash: str
    engine: Callable[[], Engine]
    note: Callable[[str], None]
    progress: Progress = lambda sent, total: None
    aliases: bool = True
    _holders: dict[str, Holders] = field(default_factory=dict)

    def push(
        self, build: Build, repository: str, destinations: Sequence[Destination], *, number: int | None = None
    ) -> list[Pushed]:
        """Push an image to every destination. `number` asks for exactly that -vN instead of the next free one.

        Raises NotProvedError without a passed verdict, TagConflictError when the number names another image, and what
        the registries raise; the message then says which of them have the image.
        """
        require_proof(build, self.records, self.suite_hash)
        with locked(
            self.records.state / "push.lock", lambda: self.note("another push is running here; waiting for it")
        ):
            steps = _plan(build, self._survey(build, repository, destinations), number)
            done: list[Pushed] = []
            try:
                for step in steps:
                    done.append(self._take(step))
            except SlipwayError as error:
                raise _telling(error, done, steps[len(done) :]) from error
            return done

    def _survey(self, build: Build, repository: str, destinations: Sequence[Destination]) -> list[Site]:
        """Every destination, opened and read. Raises one error that tells of all that failed."""
        found = [self._open(build, repository, destination) for destination in destinations]
        failed = [error for error in found if isinstance(error, SlipwayError)]
        if len(failed) > 1:
            faults = [Fault(error.message, error.fix) for error in failed]
            raise type(failed[0])(f"{len(failed)} registries are not ready; nothing was sent", faults=faults)
        if failed:
            raise failed[0]
        return [site for site in found if isinstance(site, Site)]

    def _open(self, build: Build, repository: str, destination: Destination) -> Site | SlipwayError:
        try:
            registry = destination.open(repository, build.tag, self.note)
            existing = tuple(registry.tags(repository))
        except SlipwayError as error:
            return error
        return Site(build, repository, registry, destination.region, existing)

    def _take(self, step: Step) -> Pushed:
        site, sent = step.site, 0
        if step.present:
            manifest = site.read_back(str(step.release))
        else:
            manifest, sent = self._upload(site)
            _name(site, step.release, manifest)
        moved = self._move_aliases(site, step.release, manifest)
        record = _record(site, step.release, manifest, moved)
        if not step.present or record.uri not in {known.uri for known in self.records.pushes()}:
            self.records.add_push(record)
        return Pushed(record, sent, not step.present)

    def _upload(self, site: Site) -> tuple[Manifest, int]:
        registry, image = site.registry, site.build.engine_id
        self._known(registry).mount(site.repository, site.build.layers)
        done = upload(
            self.engine(), image, registry.host, site.repository, tags.STAGING, registry.credentials, self.progress
        )
        manifest = site.read_back(done.digest)
        missing = [digest for digest in manifest.blobs if not registry.has_blob(site.repository, digest)]
        if missing:
            raise RegistryError(f"{site.place} lacks parts of what was pushed: {', '.join(missing)}", fix="push again")
        return manifest, done.bytes_sent(manifest.blobs)

    def _known(self, registry: Registry) -> Holders:
        """What the registry has of the images that were pushed to it, the newest push of each."""
        holders = self._holders.setdefault(registry.host, Holders(registry))
        newest = {push.image: push for push in self.records.pushes() if push.registry == registry.host}
        for push in newest.values():
            holders.learn(push.repository, push.manifest_digest)
        return holders

    def _move_aliases(self, site: Site, release: Release, manifest: Manifest) -> tuple[str, ...]:
        if not self.aliases:
            return ()
        following = tags.aliases_to_move(release, site.existing)
        for alias in following:
            present = site.registry.manifest(site.repository, alias)
            if present is None or present.digest != manifest.digest:
                site.registry.put_manifest(site.repository, alias, manifest)
        return following


@dataclass(frozen=True)
class Site:
    """A destination as it was found: its client, and the tags of the repository."""

    build: Build
    repository: str
    registry: Registry
    region: str
    existing: tuple[str, ...]

    @property
    def place(self) -> str:
        return f"{self.registry.host}/{self.repository}"

    def has(self, release: Release) -> bool:
        """Whether a release there is this very image."""
        manifest = self.registry.manifest(self.repository, str(release))
        return manifest is not None and manifest.config_digest == self.build.config_digest

    @cached_property
    def held(self) -> Release | None:
        """The newest release of its tag there that is this very image, whoever pushed it."""
        found = reversed(tags.releases(self.build.tag, self.existing))
        return next((release for release in found if self.has(release)), None)

    def read_back(self, reference: str) -> Manifest:
        """The manifest under a tag or digest. Raises VerifyError when it is not one image, and this one."""
        manifest = self.registry.manifest(self.repository, reference)
        if manifest is None:
            raise RegistryError(f"{self.place} does not give back {reference}, just pushed", fix="push again")
        if not manifest.is_image:
            raise VerifyError(
                f"{self.place} holds {manifest.media_type} under {reference}, not one image: SageMaker wants a single "
                f"manifest",
                fix="build without attestations (`--provenance=false --sbom=false`)",
            )
        if manifest.config_digest != self.build.config_digest:
            raise VerifyError(
                f"{self.place} holds {manifest.config_digest} under {reference}; built and verified was "
                f"{self.build.config_digest}",
                fix=f"run `invoke build --only {self.build.image}` and verify it again",
            )
        return manifest


@dataclass(frozen=True)
class Step:
    """One registry's part of a push. `present`: the release is there already and is this image."""

    site: Site
    release: Release
    present: bool


def require_proof(build: Build, records: Records, suite_hash: str) -> None:
    """Raise NotProvedError unless the checks as they are now passed on exactly this image, and nobody yanked it."""
    yanked = next(
        (push for push in records.pushes() if push.config_digest == build.config_digest and push.yanked), None
    )
    if yanked is not None:
        fix = f"build one without that fault, or take it back: invoke yank {yanked.uri} --undo"
        raise NotProvedError(f"{build.image} was yanked: {yanked.yanked}", fix=fix)
    verdict = records.verdict_of(build.config_digest, suite_hash)
    if verdict is not None and verdict.passed:
        return
    command = f"invoke verify --only {build.image}"
    if verdict is not None:
        failed = [
            Fault(f"{check.id}: {check.reason}", check.fix) for check in verdict.checks if check.status == "failed"
        ]
        raise NotProvedError(f"{build.image} was verified and failed", faults=failed, fix=f"mend it, then `{command}`")
    verified = [found for found in records.verdicts() if found.image == build.image]
    if any(found.config_digest == build.config_digest for found in verified):
        why = "was verified by other checks than those of today"
    elif verified:
        why = "was built again since it was verified"
    else:
        why = "was never verified"
    raise NotProvedError(f"{build.image} {why} ({build.config_digest})", fix=f"run `{command}`")


def _plan(build: Build, sites: Sequence[Site], number: int | None) -> list[Step]:
    """What each site is to have. Raises TagConflictError when its number names another image somewhere."""
    if number is None:
        held = [site.held.number for site in sites if site.held]
        number = max(held or [tags.next_number(build.tag, site.existing) for site in sites])
        wanted = [(site, site.held or Release(build.tag, number)) for site in sites]
    else:
        wanted = [(site, Release(build.tag, number)) for site in sites]
    steps = [Step(site, release, release == site.held or site.has(release)) for site, release in wanted]
    taken = [step for step in steps if not step.present and str(step.release) in step.site.existing]
    if taken:
        raise TagConflictError(
            f"-v{number} of {build.image} never moves, and names another image; nothing was sent",
            faults=[Fault(f"{step.site.place}:{step.release} is not {build.config_digest}") for step in taken],
            fix=f"the next free number is {max(tags.next_number(build.tag, site.existing) for site in sites)}",
        )
    return steps


def _name(site: Site, release: Release, manifest: Manifest) -> None:
    """Tag what was uploaded. Raises TagConflictError when someone else has taken the number since the survey."""
    taken = TagConflictError(
        f"{site.place}:{release} was taken by another push in the meantime; it was left alone",
        fix="push again: the next free number is taken",
    )
    present = site.registry.manifest(site.repository, str(release))
    if present is None:
        site.registry.put_manifest(site.repository, str(release), manifest)
        present = site.registry.manifest(site.repository, str(release))
    if present is None or present.digest != manifest.digest:
        raise taken


def _record(site: Site, release: Release, manifest: Manifest, aliases: tuple[str, ...]) -> Push:
    build = site.build
    return Push(
        config_digest=build.config_digest,
        manifest_digest=manifest.digest,
        media_type=manifest.media_type,
        image=build.image,
        framework=build.framework,
        version=build.version,
        scope=build.scope,
        processor=build.processor,
        python=build.python,
        registry=site.registry.host,
        region=site.region,
        repository=site.repository,
        tag=str(release),
        uri=f"{site.place}:{release}",
        aliases=aliases,
        pushed_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        revision=build.revision,
    )


def _telling(error: SlipwayError, done: Sequence[Pushed], left: Sequence[Step]) -> SlipwayError:
    """The same error, which also says which registries have the image and which do not."""
    if not done:
        return error
    have = ", ".join(pushed.record.uri for pushed in done)
    lack = ", ".join(step.site.place for step in left)
    message = f"{error.message}\n  pushed to: {have}\n  not pushed to: {lack}"
    fix = "; ".join(part for part in (error.fix, "the same command goes on where it stopped") if part)
    return type(error)(message, fix=fix, faults=error.faults)
