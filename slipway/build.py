"""Plan -> images in the engine: render, gather what the host has, bake, record.

<state>/build/<key>/    the rendered folder of one selection, kept so that the builder need not read it again
<state>/logs/<id>.log   what the stages of an image printed
<state>/builds/         the records
"""

from __future__ import annotations

import contextlib
import shlex
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from slipway import lock, preflight, render, revision, size
from slipway.base import EPOCH, Pulled, Recipe, describe
from slipway.console import Console
from slipway.engine import bake, rootfs, wheels
from slipway.engine.bake import EXPORT, Step
from slipway.engine.docker import Engine
from slipway.errors import SlipwayError, SpecError
from slipway.files import locked, naming_full_disk, same_file, sha256_bytes, write_whole
from slipway.plan import Plan
from slipway.records import Build, Records
from slipway.settings import PipSettings, Settings
from slipway.spec.model import Image, Sources
from slipway.stages import Stage

_WAITING = "another command builds the same images; waiting for it"


@dataclass(frozen=True)
class Built:
    """An image that is in the engine now: its record, and how many of its steps were taken from the cache."""

    record: Build
    cached: int
    steps: int
    log: Path


def rendering(
    plan: Plan, sources: Sources, settings: Settings
) -> tuple[render.Rendering, dict[str, revision.Revision]]:
    """The plan's rendering, with labels that name the commits, and those commits by image."""
    revisions = {image.id: revision.of(image, plan, settings.project) for image in plan.images}
    labels = {
        image.id: render.labels(
            image,
            revision=revisions[image.id].commit,
            created=revisions[image.id].created,
            base=plan.bases[image.os],
            held=render.toolkits_of(image.toolkits, sources),
        )
        for image in plan.images
    }
    return render.render(plan, sources, labels), revisions


def build(
    plan: Plan,
    sources: Sources,
    settings: Settings,
    console: Console,
    on_step: Callable[[Step], None],
    *,
    no_cache: bool = False,
) -> list[Built]:
    """Build every image of the plan and record it. Nothing is recorded when a step fails or Ctrl-C ends it.

    Raises SizeError at the end when images are over their ceilings: they are in the engine and on record then.
    """
    builder = settings.text("builder")
    engine = Engine.connect(settings.environment, context=builder if bake.is_context(builder) else "")
    disk = preflight.engine_disk(engine)
    if disk is not None and not settings.text("builder"):
        preflight.free_space(disk, settings.number("min-free-mb"), "invoke clean --cache")
    for base in plan.bases.values():
        if isinstance(base, Pulled):
            preflight.pulled_base(base)
    records = Records(settings.state)
    before = size.last_within(records.builds())
    size.refuse_unexplained(plan.images, before)
    rendered, revisions = rendering(plan, sources, settings)
    key = sha256_bytes(" ".join(image.id for image in plan.images).encode())[:12]
    folder = settings.state / "build" / key
    started = time.time()
    targets = {render.target_name(stage.name): stage.name for stage in plan.stages}
    seen: dict[int, Step] = {}

    def keep(step: Step) -> None:
        seen.setdefault(id(step), step)
        on_step(step)

    with locked(_made(folder.parent) / f"{key}.lock", lambda: console.note(_WAITING)):
        _lay_out(folder, rendered, plan, sources, settings, console)
        with _host_inputs(plan, settings) as variables:
            try:
                baked = bake.bake(
                    folder,
                    variables,
                    keep,
                    stages=targets,
                    builder=builder,
                    no_cache=no_cache,
                    cache=_caches(plan, settings.text("cache")),
                )
            except SlipwayError as error:
                logs = [_write_log(image, _own(plan, image, seen.values()), settings) for image in plan.images]
                error.fix = error.fix or f"the whole log: {' '.join(str(path) for path in logs)}"
                raise
    found = []
    for image in plan.images:
        exported = baked.images[image.id]
        own = _own(plan, image, baked.steps)
        last = before.get(image.id)
        record = _record(image, plan, sources, revisions[image.id], exported, engine, time.time() - started, last)
        found.append(Built(record, sum(step.cached for step in own), len(own), _write_log(image, own, settings)))
    for built in found:
        records.add_build(built.record)
    size.refuse_over(plan.images, {built.record.image: size.of_build(built.record) for built in found}, before)
    return found


def _caches(plan: Plan, repository: str) -> dict[str, str]:
    """Where the cache of each image is kept, one tag an image; nowhere without a repository."""
    if not repository:
        return {}
    return {render.target_name(image.id): f"{repository}:{image.id}" for image in plan.images}


def _own(plan: Plan, image: Image, steps: Iterable[Step]) -> list[Step]:
    """The steps of the stages that an image needs, lowest stage first."""
    known = list(steps)
    return [step for stage in plan.needed(image) for step in known if step.stage == stage.name and step.text != EXPORT]


def _lay_out(
    folder: Path, rendered: render.Rendering, plan: Plan, sources: Sources, settings: Settings, console: Console
) -> None:
    """Write the rendering, and beside it what build.sh would make: root filesystems and toolkit wheels."""
    made: set[Path] = set()
    render.write(rendered, folder)
    for stage in plan.stages:
        base = plan.bases[stage.os]
        if stage.template.startswith("base") and isinstance(base, Recipe):
            target = folder / stage.name / stage.values["rootfs"]
            same_file(rootfs.ensure(base, settings, console).tar, target)
            made.add(target)
        for name in stage.toolkits:
            wheel = _toolkit_wheel(name, sources, settings)
            target = folder / stage.name / "wheels" / wheel.name
            same_file(wheel, target)
            made.add(target)
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path not in made and path.relative_to(folder).as_posix() not in rendered.files:
            path.unlink()


def _toolkit_wheel(name: str, sources: Sources, settings: Settings) -> Path:
    """A toolkit's wheel, built once for each state of its source."""
    files = sources.toolkits[name]
    key = sha256_bytes("".join(f"{path}\0{sha256_bytes(data)}\n" for path, data in sorted(files.items())).encode())
    folder = settings.state / "toolkits" / f"{name}-{key[:16]}"
    ready = list(folder.glob("*.whl"))
    if ready:
        return ready[0]
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=_made(folder.parent)) as scratch:
        source = Path(scratch) / name
        for path, data in files.items():
            _made((source / path).parent)
            (source / path).write_bytes(data)
        wheel = wheels.build_toolkit(source, Path(scratch), epoch=EPOCH)
        target = _made(folder) / wheel.name
        wheel.replace(target)
    return target


@contextlib.contextmanager
def _host_inputs(plan: Plan, settings: Settings) -> Iterator[dict[str, str]]:
    """The bake variables that carry the host into the build: wheel folders, package settings, certificates.

    Settings live in a private folder that is gone afterwards: they may hold passwords.
    """
    pip = settings.pip()
    with tempfile.TemporaryDirectory(prefix="slipway-host-") as scratch:
        private = Path(scratch)
        empty = private / "empty"
        empty.mkdir()
        variables = {render.WHEELS_VARIABLE: str(empty), render.CA_VARIABLE: _certificates(pip, private)}
        for stage in plan.stages:
            if not stage.needs_host:
                continue
            index = ""
            if stage.takes_wheels:
                folder = settings.state / "wheels" / stage.name
                wheels.stage([stage.pins], pip, folder)
                variables[render.wheels_variable(stage.name)] = str(folder)
                index = _index(stage, folder, settings)
            path = private / f"{stage.name}.env"
            write_whole(path, host_settings(pip, settings.proxies(), index), mode=0o600)
            variables[render.host_variable(stage.name)] = str(path)
        yield variables


def _index(stage: Stage, folder: Path, settings: Settings) -> str:
    """The framework's own index, unless the host holds every wheel that only this index has (a local version)."""
    if not stage.wheel_index:
        return ""
    staged = {wheel.name.split("-")[0].lower().replace("_", "-") for wheel in folder.glob("*.whl")}
    special = {pin.name for pin in wheels.pins(stage.pins) if "+" in pin.version}
    if special <= staged:
        return ""
    return settings.text("wheel-index") or stage.wheel_index


def host_settings(pip: PipSettings, proxies: Mapping[str, str], wheel_index: str) -> str:
    """The host's package settings as shell assignments, for uv, pip and apt inside a RUN.

    What lies on the host's own disk is left out: it enters as a context, see `engine.wheels`.
    """

    def elsewhere(locations: Iterable[str]) -> tuple[str, ...]:
        return tuple(location for location in locations if wheels.local_path(location) is None)

    pip = replace(
        pip,
        index_url="".join(elsewhere([pip.index_url])) if pip.index_url else "",
        extra_index_urls=elsewhere(pip.extra_index_urls),
        find_links=elsewhere(pip.find_links),
    )
    values = {
        **lock.index_environment(pip, wheel_index),
        **proxies,
        "PIP_INDEX_URL": pip.index_url,
        "PIP_EXTRA_INDEX_URL": " ".join(pip.extra_index_urls),
        "PIP_FIND_LINKS": " ".join(pip.find_links),
        "PIP_TRUSTED_HOST": " ".join(pip.trusted_hosts),
    }
    if pip.cert:
        values |= dict.fromkeys(("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE"), "/run/secrets/ca")
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in sorted(values.items()) if value)


def _certificates(pip: PipSettings, private: Path) -> str:
    if pip.cert:
        if not Path(pip.cert).is_file():
            raise SpecError(
                f"the certificates that pip is to trust are not a file: {pip.cert}", fix="correct pip's setting cert"
            )
        return pip.cert
    nothing = private / "no-certificates"
    nothing.touch()
    return str(nothing)


def _record(
    image: Image,
    plan: Plan,
    sources: Sources,
    source: revision.Revision,
    exported: bake.Exported,
    engine: Engine,
    seconds: float,
    last: Build | None,
) -> Build:
    facts = engine.image(image.reference)
    known = last is not None and last.config_digest == exported.config_digest and last.layer_sizes
    held = size.of_build(last) if last and known else size.measure(engine, image.reference, plan.chain(image))
    locks = "".join(sources.locks[part.name] for part in lock.parts(image))
    return Build(
        image=image.id,
        framework=image.framework,
        version=image.version,
        scope=image.scope,
        processor=image.processor,
        python=image.python,
        repository=image.repository,
        tag=image.tag,
        reference=image.reference,
        config_digest=exported.config_digest,
        engine_id=facts["Id"],
        input_hash=plan.input_hash(image),
        size=held.unpacked,
        compressed=held.compressed,
        hidden=held.hidden,
        ceiling_mb=image.ceiling_mb,
        compressed_ceiling_mb=image.compressed_ceiling_mb,
        layer_sizes=tuple(held.layers.items()),
        packages=held.packages,
        revision=source.commit,
        created=source.created,
        base=describe(plan.bases[image.os]),
        lock_hash=sha256_bytes(locks.encode()),
        built_at=datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
        seconds=round(seconds, 1),
        layers=tuple(facts["RootFS"]["Layers"]),
    )


def _write_log(image: Image, steps: list[Step], settings: Settings) -> Path:
    path = settings.state / "logs" / f"{image.id}.log"
    lines = []
    for step in steps:
        took = "cached" if step.cached else f"{step.seconds:.1f} s"
        lines.append(f"== {step.stage}: {step.text} ({took})")
        lines += step.log
    write_whole(path, "".join(f"{line}\n" for line in lines))
    return path


def _made(folder: Path) -> Path:
    with naming_full_disk(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return folder
