"""list, plan, render, build: from the matrix to images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipway import base as bases
from slipway.commands.guard import command
from slipway.console import Console
from slipway.errors import UsageError
from slipway.settings import Settings
from slipway.spec import load
from slipway.spec.model import Image, Matrix, Sources
from slipway.spec.select import Selector, select

if TYPE_CHECKING:
    from slipway.plan import Plan


def list_images(selector: Selector, json: bool, **flags: str | None) -> None:
    """Every cell of the matrix, with what is said of it."""
    with command(json, **flags) as (settings, console):
        matrix = load.load(settings.project, settings.own)
        chosen = _chosen(matrix, selector, console)
        rows = [(image.id, f"{image.repository}:{image.tag}", _state(image), image.supported_until) for image in chosen]
        console.table(("image", "repository:tag", "state", "supported until"), rows)
        console.result([_facts(image) for image in chosen])


def plan(selector: Selector, json: bool, layers: bool = False, **flags: str | None) -> None:
    """The graph of stages, and every excluded cell with its reason; with `layers` what images share, as last built."""
    from slipway import plan as plans

    with command(json, **flags) as (settings, console):
        matrix, _, built = planned(selector, settings, console, warn=console.warn)
        if layers:
            _show_sharing(built, settings, console)
            return
        rows = [
            (stage.name, stage.hash[:12], ", ".join(sorted(set(stage.parents.values()))), len(built.shared(stage)))
            for stage in built.stages
        ]
        console.table(("stage", "input hash", "stands on", "images"), rows)
        excluded = [image for image in matrix.images if image.excluded]
        if excluded:
            console.say("")
            console.table(("excluded image", "reason"), [(image.id, image.excluded) for image in excluded])
        missed = {(i.stack_id, name): reason for i in built.images for name, reason in i.without.items()}
        if missed:
            console.say("")
            console.table(("stack", "without", "reason"), [(*key, reason) for key, reason in missed.items()])
        facts = {image.id: image.excluded for image in excluded}
        without = {image.id: dict(image.without) for image in built.images if image.without}
        answer = {**plans.describe(built), "images": [i.id for i in built.images], "excluded": facts}
        console.result({**answer, "without": without})


def render(selector: Selector, output: str, json: bool, **flags: str | None) -> None:
    """Write a folder that builds with plain `docker buildx bake`."""
    from slipway import build as building
    from slipway import render as rendering

    with command(json, **flags) as (settings, console):
        _, sources, built = planned(selector, settings, console)
        folder = Path(output) if output else settings.state / "render"
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"{folder} is a file", fix="name a folder with --output")
        if folder.is_dir() and any(folder.iterdir()) and not (folder / "docker-bake.json").is_file():
            raise UsageError(f"{folder} holds other files", fix="name a new folder, or one that was rendered before")
        _warn_of_doubt(settings, console)
        rendered, _ = building.rendering(built, sources, settings)
        rendering.write(rendered, folder)
        console.say(f"{len(rendered.files)} files in {folder}; build them with {folder}/build.sh")
        console.result({"folder": str(folder), "files": sorted(rendered.files)})


def build(selector: Selector, dry_run: bool, no_cache: bool, json: bool, **flags: str | None) -> None:
    """Build images and record them."""
    from slipway import build as building
    from slipway.commands.progress import Progress

    with command(json, **flags) as (settings, console):
        _, sources, built = planned(selector, settings, console, must_name=True)
        if dry_run:
            _show_dry_run(built, console)
            return
        _warn_of_doubt(settings, console)
        with Progress(console) as progress:
            done = building.build(built, sources, settings, console, progress.step, no_cache=no_cache)
        rows = [
            (
                item.record.reference,
                item.record.config_digest[7:19],
                round(item.record.size / 1e6),
                item.record.seconds,
                f"{item.cached} of {item.steps} steps",
            )
            for item in done
        ]
        console.table(("image", "digest", "MB", "seconds", "cached"), rows)
        console.say("")
        console.say(f"next: invoke verify {_again(selector)}")
        console.result([{**vars(item.record), "cached_steps": item.cached, "steps": item.steps} for item in done])


def planned(
    selector: Selector,
    settings: Settings,
    console: Console,
    *,
    must_name: bool = False,
    warn: Callable[[str], None] | None = None,
) -> tuple[Matrix, Sources, Plan]:
    """The plan of what was selected; without a selector that of the whole matrix, unless images must be named.

    An unknown version stops what makes something, or is a warning: see `select`.
    """
    from slipway import plan as plans

    matrix = load.load(settings.project, settings.own)
    sources = load.read_sources(settings.project, settings.own)
    named = must_name or selector.given or selector.everything
    chosen = select(matrix, selector, warn=warn) if named else matrix.buildable
    found = {
        image.os: bases.of(
            image.os,
            base=settings.text("base"),
            mirror=settings.text("apt-mirror"),
            snapshot=settings.snapshot(),
        )
        for image in chosen
    }
    for name, base in found.items():
        console.note(f"base: {bases.describe(base)} for {name} (setting base, from {settings.values['base'].source})")
    return matrix, sources, plans.plan(chosen, sources, found)


def _chosen(matrix: Matrix, selector: Selector, console: Console) -> Sequence[Image]:
    if selector.given or selector.everything:
        return select(matrix, selector, excluded=True, warn=console.warn)
    return matrix.images


def _show_sharing(built: Plan, settings: Settings, console: Console) -> None:
    from slipway import size
    from slipway.records import Records

    ids = {image.id for image in built.images}
    builds = {build.image: build for build in Records(settings.state).builds() if build.image in ids}
    for missing in sorted(ids - set(builds)):
        console.warn(f"{missing} was not built here, so it is left out")
    shared = size.sharing(builds.values())
    largest = sorted(shared.stages.items(), key=lambda item: -item[1][0])
    rows = [(name, round(held / 1e6), count) for name, (held, count) in largest]
    console.table(("layer of", "MB", "images"), rows)
    percent = round(100 * shared.unique / shared.total) if shared.total else 0
    console.say("")
    console.say(
        f"{shared.unique / 1e6:.0f} MB in all, {percent} % of the {shared.total / 1e6:.0f} MB of the images apart"
    )
    console.result({"layers": dict(shared.stages), "unique": shared.unique, "total": shared.total})


def _show_dry_run(built: Plan, console: Console) -> None:
    rows = [(stage.name, stage.image.reference if stage.image else "", stage.hash[:12]) for stage in built.stages]
    console.table(("would build", "as", "input hash"), rows)
    console.result([{"stage": name, "reference": reference, "hash": key} for name, reference, key in rows])


def _warn_of_doubt(settings: Settings, console: Console) -> None:
    from slipway import revision

    doubt = revision.doubt(settings.project)
    if doubt:
        console.warn(doubt)


def _again(selector: Selector) -> str:
    words = [f"--{axis} {value}" for axis, value in selector.given.items()]
    return " ".join(["--all", *words] if selector.everything else words)


def _state(image: Image) -> str:
    if image.excluded:
        return f"excluded: {image.excluded}"
    return "default" if image.default else "on request"


def _facts(image: Image) -> dict[str, Any]:
    names = ("id", "framework", "version", "scope", "processor", "python", "os", "architecture", "cuda")
    facts = {name: getattr(image, name) for name in names}
    return {
        **facts,
        "repository": image.repository,
        "tag": image.tag,
        "default": image.default,
        "excluded": image.excluded,
    }
