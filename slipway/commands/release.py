"""Commands around releases: release, releases, changes, rollback, eol."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipway.commands.guard import command
from slipway.console import Console
from slipway.errors import RegistryError, UsageError, nearest
from slipway.records import Build, Records
from slipway.settings import Settings
from slipway.spec.select import Selector

if TYPE_CHECKING:
    from slipway.engine.docker import Engine
    from slipway.plan import Plan
    from slipway.registry import Registry
    from slipway.release.config import ReleaseConfig
    from slipway.release.destinations import Destination
    from slipway.release.ledger import Ledger, Released
    from slipway.release.work import Item, Tools
    from slipway.spec.model import Image, Sources
    from slipway.supply.config import Gate
    from slipway.supply.findings import Scan
    from slipway.supply.sbom import Sbom


def release(selector: Selector, plan: bool, stage: bool, untested_gpu: Sequence[str], notes: str, json: bool) -> None:
    """Release what was selected, or with `plan` only say what would be done."""
    from slipway.commands.matrix import planned
    from slipway.release import config
    from slipway.release.pipeline import Pipeline

    with command(json) as (settings, console):
        if plan and stage:
            raise UsageError("--plan and --stage are two things", fix="leave one of them out")
        matrix, sources, built = planned(selector, settings, console, must_name=True)
        given = config.load(settings.project, config.known(matrix.images))
        _refuse_unknown_untested(untested_gpu, built.images)
        pipeline = Pipeline(
            tools=_tools(settings, console, given, sources, built),
            items=tuple(_item(image, built, given, settings, console, ask=not plan) for image in built.images),
            untested=frozenset(untested_gpu),
            notes=notes or given.notes,
        )
        if plan:
            _show_plan(pipeline, console)
            return
        _show_released(pipeline.run(stage=stage), stage, console)


def releases(image: str, json: bool) -> None:
    """What the ledger holds: every release, or what is known of one."""
    with command(json) as (settings, console):
        history = _ledger(settings).history()
        if image:
            one = history.find(image)
            console.table(("", ""), [(name, _short(value)) for name, value in asdict(one.image).items()])
            console.result({**asdict(one.image), "at": one.at, "number": one.number, "withdrawn": one.withdrawn})
            return
        ends = history.ends()
        rows = [
            (
                one.number,
                one.at[:10],
                one.image.name,
                one.image.manifest_digest[7:19],
                ", ".join(place.region or place.registry for place in one.image.places),
                f"taken back: {one.withdrawn}" if one.withdrawn else "",
            )
            for one in history.standings
        ]
        console.table(("number", "released", "image", "digest", "in", "state"), rows)
        console.result(
            [
                {
                    **asdict(one.image),
                    "at": one.at,
                    "number": one.number,
                    "withdrawn": one.withdrawn,
                    "ends": ends.get((one.image.framework, one.image.version), one.image.supported_until),
                }
                for one in history.standings
            ]
        )


def changes(before: str, after: str, allow: Sequence[str], json: bool) -> None:
    """What differs between two released images. Raises DowngradeError for a package that went back without leave."""
    from slipway.release import changes as comparing
    from slipway.release import config

    with command(json) as (settings, console):
        history = _ledger(settings).history()
        old, new = history.find(before).image, history.find(after).image
        found = comparing.of_releases(old, new)
        downgraded = set(found.packages.downgraded)
        rows = [("added", one.name, "", one.after) for one in found.packages.added]
        rows += [("removed", one.name, one.before, "") for one in found.packages.removed]
        rows += [
            ("downgraded" if one in downgraded else "changed", one.name, one.before, one.after)
            for one in found.packages.changed
        ]
        rows += [("label", one.name, one.before, one.after) for one in found.labels]
        console.table(("change", "what", "before", "after"), rows, title=f"{old.name} -> {new.name}")
        console.say(f"size {found.size / 1e6:+.1f} MB unpacked, {found.compressed / 1e6:+.1f} MB compressed")
        if not (old.packages and new.packages):
            console.warn("one of the two was released without an SBOM: nothing is known of its packages")
        if found.vulnerabilities is None:
            console.warn("one of the two was released without a scan: nothing is known of its vulnerabilities")
        else:
            came, went = found.vulnerabilities
            console.say(f"vulnerabilities: {', '.join(came) or 'none'} came, {', '.join(went) or 'none'} went")
        console.result(asdict(found))
        listed = {**config.load(settings.project).may_go_back(new.framework), **dict.fromkeys(allow, "named")}
        comparing.refuse_downgrades(f"{new.name} since {old.name}", found.packages, listed)


def rollback(image: str, to: str, reason: str, json: bool) -> None:
    """Move the aliases of a release back to an earlier one."""
    from slipway.release import config, takeback

    with command(json) as (settings, console):
        if not reason.strip():
            raise UsageError("a rollback has a reason", fix='give --reason "…"')
        tools = _tools(settings, console, config.load(settings.project))
        done = takeback.roll_back(tools, image, to, reason.strip())
        for one in done.withdrawn:
            console.say(f"{one.image.name}: taken back")
        for move in done.moves:
            console.say(f"{move}: {done.target.image.tag} again")
        console.note("release tags stay where they are; jobs that name one go on using it")
        console.result(
            {
                "to": done.target.image.name,
                "withdrawn": [one.image.name for one in done.withdrawn],
                "moved": [asdict(move) for move in done.moves],
            }
        )


def eol(framework: str, version: str, on: str, reason: str, json: bool) -> None:
    """Write down when a version's support ends; without options, when each released version's does."""
    from slipway.release import takeback

    with command(json) as (settings, console):
        ledger = _ledger(settings)
        if framework or version or on:
            lacking = [
                flag for flag, value in {"framework": framework, "version": version, "on": on}.items() if not value
            ]
            if lacking:
                raise UsageError(
                    f"--{' and --'.join(lacking)} {'are' if len(lacking) > 1 else 'is'} missing",
                    fix="give --framework, --version and --on together",
                )
            entry = takeback.end(ledger, framework, version, on, reason)
            console.say(f"{framework} {version} is supported until {on} ({ledger.store.place}/{entry.number:06d}.json)")
            console.result({"framework": framework, "version": version, "on": on, "reason": reason})
            return
        history = ledger.history()
        ends = history.ends()
        versions = {(one.image.framework, one.image.version): one.image.supported_until for one in history.standings}
        rows = sorted((name, number, ends.get((name, number), until)) for (name, number), until in versions.items())
        console.table(("framework", "version", "supported until"), rows)
        console.result([{"framework": name, "version": number, "until": until} for name, number, until in rows])


def _ledger(settings: Settings) -> Ledger:
    from slipway.release import stores
    from slipway.release.ledger import Ledger

    return Ledger(stores.of(settings))


def _refuse_unknown_untested(named: Sequence[str], images: Sequence[Image]) -> None:
    gpu = [image.id for image in images if image.processor == "gpu"]
    for name in named:
        if name not in gpu:
            raise UsageError(f"--untested-gpu {name} is no GPU image of this release", fix=nearest(name, gpu))


def _item(image: Image, built: Plan, given: ReleaseConfig, settings: Settings, console: Console, *, ask: bool) -> Item:
    """`ask`: whether a registry on loopback may be started; a plan only looks whether it runs."""
    from slipway import local_registry
    from slipway.release import destinations
    from slipway.release.work import Item

    found = given.registries_of(image.framework, image.version, image.scope, image.processor)
    if given.registries and not found:
        raise UsageError(f"release.yml sends {image.id} nowhere", fix="add it under images: there")
    targets: list[Destination] = [one for registry in found for one in destinations.of(registry, settings)]
    if not found and ask:
        targets = [destinations.loopback(settings, console.note)]
    running = None if targets else local_registry.running(settings.state)
    return Item(
        cell=image,
        input_hash=built.input_hash(image),
        repository=given.repository(image.repository),
        places=tuple(one.host for one in targets) or ((running.host,) if running else ()),
        destinations=lambda: targets,
        gate=given.gate(image.framework, image.version, image.id),
        may_go_back=given.may_go_back(image.framework),
    )


def _tools(
    settings: Settings,
    console: Console,
    given: ReleaseConfig,
    sources: Sources | None = None,
    built: Plan | None = None,
) -> Tools:
    from slipway.release.signer import CosignSigner
    from slipway.release.work import Tools
    from slipway.verify import smoke_hash, suite_hash

    @functools.cache
    def engine() -> Engine:
        from slipway.engine.docker import Engine

        return Engine.connect(settings.environment)

    def build(items: Sequence[Item]) -> None:
        assert sources is not None and built is not None
        _build([item.cell for item in items], sources, built, settings, console)

    return Tools(
        records=Records(settings.state),
        ledger=_ledger(settings),
        suite_hash=suite_hash(settings.project),
        smoke_hash=smoke_hash(settings.project),
        engine=engine,
        build=build,
        verify=lambda build: _verify(build, engine(), settings, console),
        scan=lambda gate, build, registry, repository, digest: _scan(
            gate, build, registry, repository, digest, given, settings
        ),
        predicate=lambda build: _predicate(build, settings),
        client=lambda host: _client(host, given, settings, console),
        note=console.note,
        sbom=(lambda image, folder: _sbom(image, folder, engine())) if given.sbom else None,
        signer=CosignSigner(given.signing, settings.environment) if given.signing else None,
        aliases=given.aliases,
    )


def _sbom(image: str, folder: Path, engine: Engine) -> Sbom:
    from slipway.supply import sbom

    return sbom.make(image, folder, engine)


def _build(cells: Sequence[Image], sources: Sources, whole: Plan, settings: Settings, console: Console) -> None:
    from slipway import build as building
    from slipway import plan as plans
    from slipway.commands.progress import Progress

    with Progress(console) as progress:
        building.build(plans.plan(cells, sources, whole.bases), sources, settings, console, progress.step)


def _verify(build: Build, engine: Engine, settings: Settings, console: Console) -> None:
    from slipway.verify import report, target
    from slipway.verify.runner import Verifier

    with console.fold(f"verify {build.image}"):
        verifier = Verifier(
            project=settings.project,
            records=Records(settings.state),
            on_result=lambda result: console.note(report.line(result)),
        )
        verifier.verify(target.of_build(build, engine))


def _scan(
    gate: Gate,
    build: Build,
    registry: Registry,
    repository: str,
    digest: str,
    given: ReleaseConfig,
    settings: Settings,
) -> Scan:
    from slipway.release import access
    from slipway.supply import gate as scanning

    document = settings.state / "sboms" / build.config_digest[7:] / "cyclonedx.json"
    looked_at = scanning.Target(
        image=build.engine_id,
        sbom=document if document.is_file() else None,
        ecr=access.ecr(registry.host, given, settings) if gate.scanner == "ecr" else None,
        repository=repository,
        digest=digest,
    )
    return scanning.findings(looked_at, gate)


def _predicate(build: Build, settings: Settings) -> Mapping[str, Any]:
    from slipway.supply import provenance

    builder, invocation = provenance.builder_of(settings.environment)
    return provenance.predicate(
        build,
        source=provenance.origin(settings.project),
        builder=builder,
        invocation=invocation,
        parameters={name: settings.text(name) for name in ("base", "snapshot")},
    )


def _client(host: str, given: ReleaseConfig, settings: Settings, console: Console) -> Registry:
    """A client of a registry that a journal or the ledger names."""
    from slipway.registry import is_loopback
    from slipway.release import destinations

    for registry in given.registries.values():
        for one in destinations.of(registry, settings):
            if one.host == host:
                return one.client()
    own = destinations.loopback(settings, console.note) if is_loopback(host) and not given.registries else None
    if own is None or own.host != host:
        raise RegistryError(f"release.yml no longer names the registry {host}", fix="name it there again")
    return own.client()


def _show_plan(pipeline: Any, console: Console) -> None:
    found = pipeline.plan()
    rows = [(one.step, one.image, one.action, one.why) for one in found]
    console.table(("step", "image", "action", "why"), rows)
    console.result([asdict(one) for one in found])


def _show_released(done: Sequence[Released], stage: bool, console: Console) -> None:
    rows = [
        (one.name, one.manifest_digest[7:19], ", ".join(one.aliases), len(one.places), f"{one.compressed / 1e6:.1f}")
        for one in done
    ]
    if rows:
        console.table(("released", "digest", "aliases", "registries", "MB"), rows)
    else:
        console.say("pushed by digest; no tag has moved" if stage else "nothing was left to release")
    console.result([asdict(one) for one in done])


def _short(value: object) -> str:
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], dict):
        return ", ".join("/".join(str(part) for part in one.values() if part) for one in value)
    if isinstance(value, dict) and len(value) > 6:
        return f"{len(value)} entries; see --json"
    return str(value or "-")
