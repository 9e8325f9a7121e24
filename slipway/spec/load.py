"""buildspec/ -> Matrix, and the files that decide images -> Sources. Every fault of every file at once."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from slipway import documents
from slipway.documents import Document, Place
from slipway.errors import Fault, SpecError, nearest
from slipway.files import tree_files
from slipway.spec import naming
from slipway.spec.model import SCOPES, Image, Matrix, Sources

if TYPE_CHECKING:
    from slipway.spec.schema import BuildspecFile, ExcludedPart, StackPart


NO_FRAMEWORK = "base"  # the one whose stacks need not name packages


@dataclass(frozen=True)
class _Known:
    """What a buildspec file may name: the toolkits that exist, and the scopes that have a template."""

    toolkits: tuple[str, ...]
    scopes: tuple[str, ...]


def load(project: Path) -> Matrix:
    """Read every file of buildspec/. Raises SpecError that lists each fault with file, line and fix."""
    known = _Known(
        toolkits=tuple(sorted(path.parent.name for path in (project / "toolkits").glob("*/pyproject.toml"))),
        scopes=tuple(scope for scope in SCOPES if (project / "dockerfiles" / f"{scope}.Dockerfile.j2").is_file()),
    )
    images: list[Image] = []
    faults: list[Fault] = []
    paths = sorted((project / "buildspec").glob("*.yml"))
    if not paths:
        raise SpecError("buildspec/ holds no .yml file", fix="add one; docs/extending-the-matrix.md shows how")
    for path in paths:
        try:
            found, wrong = _read(documents.read(path, project), known)
        except SpecError as error:
            faults += error.faults or (Fault(error.message, error.fix, path.relative_to(project).as_posix()),)
            continue
        images += found
        faults += wrong
    faults += _duplicates(images)
    if faults:
        raise SpecError(f"buildspec/ has {len(faults)} fault{'s' if len(faults) > 1 else ''}", faults=faults)
    return Matrix(tuple(images))


def read_sources(project: Path) -> Sources:
    """Read templates, locks and toolkits."""
    locks = project / "buildspec" / "locks"
    toolkits = project / "toolkits"
    return Sources(
        templates={
            path.name: documents.read_text(path, path.relative_to(project).as_posix())
            for path in sorted((project / "dockerfiles").glob("*.j2"))
        },
        locks={
            path.relative_to(locks).with_suffix("").as_posix(): documents.read_text(
                path, path.relative_to(project).as_posix()
            )
            for path in sorted(locks.rglob("*.txt"))
        },
        toolkits={
            folder.name: {path.relative_to(folder).as_posix(): path.read_bytes() for path in tree_files(folder)}
            for folder in sorted(toolkits.iterdir())
            if folder.is_dir()
        }
        if toolkits.is_dir()
        else {},
    )


def _read(document: Document, known: _Known) -> tuple[list[Image], list[Fault]]:
    from slipway.spec.schema import BuildspecFile

    parsed, faults = document.validate(BuildspecFile)
    if parsed is None:
        return [], faults
    faults = [
        document.fault(("toolkits", scope, at), f"there is no toolkit {name!r}", nearest(name, known.toolkits))
        for scope in ("training", "inference")
        for at, name in enumerate(getattr(parsed.toolkits, scope))
        if name not in known.toolkits
    ]
    images = []
    newest = max(parsed.stacks, key=lambda key: _order(parsed.stacks[key].version))
    for key, stack in parsed.stacks.items():
        faults += _stack_faults(document, parsed.framework, key, stack)
        faults += _scope_faults(document, parsed, key, known)
        images += _cells(document, parsed, key, stack, newest=key == newest)
    for at, rule in enumerate(parsed.excluded):
        if not any(_fits(rule, image) for image in images):
            faults.append(document.fault(("excluded", at), "this excludes no cell", "remove it, or correct its axes"))
    return [_exclude(parsed.excluded, image) for image in images], faults


def _stack_faults(document: Document, framework: str, key: str, stack: StackPart) -> list[Fault]:
    here: Place = ("stacks", key)
    faults = []
    for name, part in stack.processors.items():
        place = (*here, "processors", name)
        if name == "gpu" and part.cuda is None:
            faults.append(document.fault(place, "a gpu cell needs its CUDA version", 'add cuda: "13.0", say'))
        if name == "cpu" and part.cuda is not None:
            faults.append(document.fault((*place, "cuda"), "a cpu cell has no CUDA version", "remove it"))
        if framework != NO_FRAMEWORK and not stack.packages.common and not getattr(stack.packages, name):
            faults.append(
                document.fault((*here, "packages"), f"no package is named for {name}", "name the framework's")
            )
    for field in ("python", "scopes"):
        for value, count in Counter(getattr(stack, field)).items():
            if count > 1:
                faults.append(document.fault((*here, field), f"{field}: {value} is given twice", "keep one"))
    for scope in stack.ceiling_mb:
        if scope not in stack.scopes:
            faults.append(
                document.fault(
                    (*here, "ceiling-mb", scope), f"{scope} is not among the scopes of this stack", "remove it"
                )
            )
    return faults


def _scope_faults(document: Document, file: BuildspecFile, key: str, known: _Known) -> list[Fault]:
    faults = []
    for at, scope in enumerate(file.stacks[key].scopes):
        place: Place = ("stacks", key, "scopes", at)
        if scope not in known.scopes:
            fix = f"write dockerfiles/{scope}.Dockerfile.j2; known: {', '.join(known.scopes) or 'none'}"
            faults.append(document.fault(place, f"there is no template for the scope {scope}", fix))
        if not getattr(file.toolkits, scope):
            fix = f"name one in toolkits: {scope}:"
            faults.append(document.fault(place, f"no toolkit starts the images of the scope {scope}", fix))
    return faults


def _cells(document: Document, file: BuildspecFile, key: str, stack: StackPart, *, newest: bool) -> list[Image]:
    spans = (
        document.span(("stacks", key)),
        document.span(("toolkits",)),
        document.span(("environment",)),
        document.span(("wheel-index",)),
    )
    lines = tuple(span for span in spans if span is not None)
    return [
        Image(
            framework=file.framework,
            stack=key,
            version=stack.version,
            scope=scope,
            processor=processor,
            python=python,
            os=stack.os,
            architecture=architecture,
            cuda=part.cuda or "",
            packages={
                "common": (*stack.packages.common, *getattr(stack.packages, processor)),
                scope: tuple(getattr(stack.packages, scope)),
            },
            leave_out=tuple(stack.leave_out),
            system_packages=tuple(sorted(getattr(stack.system_packages, scope))),
            toolkits=tuple(getattr(file.toolkits, scope)),
            environment=dict(sorted(getattr(file.environment, scope).items())),
            wheel_index=file.wheel_index.get(processor, ""),
            ceiling_mb=stack.ceiling_mb.get(scope, 0),
            supported_until=stack.supported_until.isoformat() if stack.supported_until else "",
            newest=newest,
            file=document.name,
            lines=lines,
        )
        for scope in stack.scopes
        for processor, part in stack.processors.items()
        for python in stack.python
        for architecture in part.architectures
    ]


def _exclude(rules: list[ExcludedPart], image: Image) -> Image:
    from dataclasses import replace

    for rule in rules:
        if _fits(rule, image):
            return replace(image, excluded=rule.reason)
    return image


def _fits(rule: ExcludedPart, image: Image) -> bool:
    axes = ("version", "scope", "processor", "python", "architecture")
    return all(getattr(rule, axis) in (None, getattr(image, axis)) for axis in axes)


def _duplicates(images: list[Image]) -> list[Fault]:
    """Names that two cells would share: the framework of two files, the locks of two stacks, an image's own."""
    faults = []
    frameworks: dict[str, Image] = {}
    stacks: dict[str, Image] = {}
    told: set[tuple[str, str]] = set()
    for image in images:
        file = frameworks.setdefault(image.framework, image)
        stack = stacks.setdefault(image.stack_id, image)
        place = (image.file, image.lines[0][0])
        if file.file != image.file and (image.file, "") not in told:
            told.add((image.file, ""))
            what = f"the framework {image.framework} is declared in two files"
            faults.append(Fault(what, f"first in {file.file}; one file says everything about it", image.file, 1))
        if (stack.file, stack.stack) != (image.file, image.stack) and (image.file, image.stack_id) not in told:
            told.add((image.file, image.stack_id))
            first = f"first at {stack.file}:{stack.lines[0][0]}; remove one"
            faults.append(Fault(f"{image.stack_id} is declared twice", first, *place))
        if not naming.is_tag(f"{image.tag}-v1000"):
            faults.append(Fault(f"{image.id} makes a tag of more than 128 characters", "shorten its version", *place))
    return faults


def _order(version: str) -> tuple[tuple[int, ...], bool]:
    """Versions in their order: by their numbers, and one that is finished after one that is not (2.13.0rc1)."""
    numbers = re.match(r"[0-9.]+", version)
    assert numbers is not None
    return tuple(int(part) for part in numbers[0].split(".") if part), re.search(r"(a|b|rc)\d", version) is None
