"""Commands that hand images out: push, yank, registry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from slipway.commands.guard import command
from slipway.console import Console
from slipway.errors import Fault, NotFoundError, UsageError
from slipway.records import Build, Records

if TYPE_CHECKING:
    from slipway.release.config import EcrRegistry, OciRegistry, ReleaseConfig
    from slipway.release.push import Pushed
    from slipway.spec.model import Image
    from slipway.spec.select import Selector

LOCAL = "local"
"""The name by which --registry means the project's own registry on loopback."""


def push(selector: Selector, registry: str | None, number: str | None, json: bool) -> None:
    """Push the newest build of each selected image. `registry`: one of release.yml, or `local`."""
    from slipway.engine.docker import Engine
    from slipway.release import config, destinations
    from slipway.release.push import Pusher, require_proof
    from slipway.spec import load
    from slipway.spec.select import select
    from slipway.verify import suite_hash

    with command(json) as (settings, console):
        records = Records(settings.state)
        matrix = load.load(settings.project, settings.own)
        builds = _newest_builds(records, select(matrix, selector))
        exactly = _number(number, len(builds))
        release = config.load(settings.project, config.known(matrix.images))
        current = suite_hash(settings.project)
        wanted = {build.image: _registries(release, build, registry) for build in builds}
        for build in builds:
            require_proof(build, records, current)  # of all, before the first is sent
        pusher = Pusher(
            records=records,
            suite_hash=current,
            engine=lambda: Engine.connect(settings.environment),
            note=console.note,
            progress=_progress(console),
            aliases=release.aliases,
        )
        done = []
        for build in builds:
            console.note(f"pushing {build.image}")
            targets = [one for found in wanted[build.image] for one in destinations.of(found, settings)]
            targets = targets or [destinations.loopback(settings, console.note)]
            pushed = pusher.push(build, release.repository(build.repository), targets, number=exactly)
            for one in pushed:
                console.note(f"  {one.record.uri}: {_state(one)}")
            done += pushed
        rows = [(one.record.uri, one.record.manifest_digest, one.sent / 1e6, _state(one)) for one in done]
        console.table(("image", "digest", "MB sent", "state"), rows)
        console.result([{**asdict(one.record), "bytes_sent": one.sent, "new": one.new} for one in done])


def yank(image: str, reason: str, undo: bool, json: bool) -> None:
    """Take back an image that was pushed, or take that back."""
    from slipway.release import ledger, stores, takeback

    with command(json) as (settings, console):
        if undo == bool(reason.strip()):
            raise UsageError("a yank has a reason, and its undoing none", fix='give --reason "…", or --undo')
        marked = takeback.yank(Records(settings.state), ledger.Ledger(stores.of(settings)), image, reason.strip())
        for push in marked:
            console.say(f"{push.uri}: {f'yanked: {push.yanked}' if push.yanked else 'no longer yanked'}")
        console.note("tags and aliases stay where they are; jobs that name the image go on using it")
        console.result([asdict(push) for push in marked])


def registry(stop: bool, json: bool) -> None:
    """Start the project's own registry on loopback, or end it."""
    from slipway import local_registry

    with command(json) as (settings, console):
        if stop:
            ended = local_registry.stop(settings.state)
            console.say(f"stopped {ended.host} ({ended.kind}); its images stay" if ended else "no registry was running")
            console.result({"host": ended.host if ended else "", "running": False})
            return
        found, started = local_registry.ensure(settings.state)
        console.say(
            f"{'started' if started else 'running'}: {found.host} ({found.kind}); to stop it: invoke registry --stop"
        )
        console.result({"host": found.host, "running": True})


def _state(pushed: Pushed) -> str:
    return "pushed" if pushed.new else "already there"


def _newest_builds(records: Records, images: Sequence[Image]) -> list[Build]:
    built = {build.image: build for build in records.builds()}  # oldest first, so the newest of each stays
    missing = [image.id for image in images if image.id not in built]
    if len(missing) > 1:
        faults = [Fault(f"{image} was not built here", f"run `invoke build --only {image}`") for image in missing]
        raise NotFoundError("not every image was built; nothing was sent", faults=faults)
    if missing:
        records.build_of(missing[0])  # raises, in its own words
    return [built[image.id] for image in images]


def _registries(release: ReleaseConfig, build: Build, registry: str | None) -> tuple[EcrRegistry | OciRegistry, ...]:
    """Where a build goes; nothing means the registry of the project's own."""
    if registry == LOCAL and LOCAL not in release.registries:
        return ()
    goes_to = release.registries_of(build.framework, build.version, build.scope, build.processor)
    if registry:
        asked = release.registry(registry)
        if asked not in goes_to:
            raise UsageError(f"release.yml does not send {build.image} to {registry}", fix="add it under images: there")
        return (asked,)
    if release.registries and not goes_to:
        raise UsageError(f"release.yml sends {build.image} nowhere", fix="add it under images: there")
    return goes_to


def _number(given: str | None, images: int) -> int | None:
    if given is None:
        return None
    if not given.isdigit() or int(given) < 1:
        raise UsageError(f"--number takes a whole number from 1, not {given!r}", fix="for -v3 write --number 3")
    if images > 1:
        raise UsageError(f"--number is for one image, not for {images}", fix="name it with --only")
    return int(given)


def _progress(console: Console) -> Callable[[int, int], None]:
    """Says how far an upload is, at each quarter, so that a log stays short."""
    last = 0

    def show(sent: int, total: int) -> None:
        nonlocal last
        quarter = sent * 4 // total if total else 0
        if quarter > last:
            console.note(f"  sent {sent / 1e6:.1f} of {total / 1e6:.1f} MB")
        last = quarter  # falls back when the next upload begins

    return show
