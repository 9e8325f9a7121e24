"""What is wrong in files whose form is right: names that do not exist, keys that contradict each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slipway.documents import Document, Place
from slipway.errors import Fault, nearest
from slipway.spec import naming
from slipway.spec.cells import Part
from slipway.spec.model import Image

if TYPE_CHECKING:
    from slipway.spec.schema import BuildspecFile, GroundPart, StackPart

NO_FRAMEWORK = "base"  # the one framework whose stacks need not name packages
_CEILINGS = {
    "ceiling-mb": "ceiling_mb",
    "compressed-ceiling-mb": "compressed_ceiling_mb",
    "ceiling-reason": "ceiling_reason",
}
_GIVEN_BELOW = ("version", "os", "processors")


@dataclass(frozen=True)
class Known:
    """What a buildspec file may name: the toolkits that exist, and the scopes that have a template."""

    toolkits: tuple[str, ...]
    scopes: tuple[str, ...]


def of_file(part: Part, parts: Sequence[Part], known: Known) -> list[Fault]:
    document, file = part.document, part.file
    found = [
        document.fault(("toolkits", scope, at), f"there is no toolkit {name!r}", nearest(name, known.toolkits))
        for scope in ("training", "inference")
        for at, name in enumerate(getattr(file.toolkits, scope))
        if name not in known.toolkits
    ]
    for key, stack in file.stacks.items():
        here: Place = ("stacks", key)
        if stack.stands_on is None:
            found += _missing(document, here, stack)
            found += _processors(document, file.framework, here, stack)
        else:
            found += _below(document, here, stack, parts)
        found += _repeats(document, here, stack)
        found += _scopes(document, here, file, stack, known)
    return found


def _missing(document: Document, here: Place, stack: StackPart) -> list[Fault]:
    dotted = ".".join(map(str, here))
    return [
        document.fault(here, f"{dotted}.{name} is missing", f"add `{name}:`, or `stands-on:` with another stack")
        for name in (*_GIVEN_BELOW, "python")
        if getattr(stack, name) is None
    ]


def _processors(document: Document, framework: str, here: Place, stack: StackPart) -> list[Fault]:
    found = []
    for name, part in (stack.processors or {}).items():
        place = (*here, "processors", name)
        if name == "gpu" and part.cuda is None:
            found.append(document.fault(place, "a gpu cell needs its CUDA version", 'add cuda: "13.0", say'))
        if name == "gpu" and part.cuda_architectures is None and framework != NO_FRAMEWORK:
            what = "a gpu cell needs the GPUs that its framework was compiled for"
            found.append(document.fault(place, what, "add cuda-architectures: [sm_80], say"))
        if name == "cpu" and part.cuda is not None:
            found.append(document.fault((*place, "cuda"), "a cpu cell has no CUDA version", "remove it"))
        if name == "cpu" and part.cuda_architectures is not None:
            what = "a cpu cell has no CUDA code"
            found.append(document.fault((*place, "cuda-architectures"), what, "remove it"))
        if framework != NO_FRAMEWORK and not stack.packages.common and not getattr(stack.packages, name):
            found.append(document.fault((*here, "packages"), f"no package is named for {name}", "name the framework's"))
    return found


def _below(document: Document, here: Place, stack: StackPart, parts: Sequence[Part]) -> list[Fault]:
    """What a stack says of the one that it stands on."""
    assert stack.stands_on is not None
    found = [
        document.fault((*here, name), f"{name} is that of the stack that this one stands on", "remove it")
        for name in _GIVEN_BELOW
        if getattr(stack, name) is not None
    ]
    ground, fault = _ground(document, here, stack.stands_on, parts)
    if ground is None:
        return [*found, *fault]
    if ground.stands_on is not None:
        found.append(
            document.fault((*here, "stands-on"), "this stack itself stands on another one", "name that other one")
        )
    lacking = [scope for scope in stack.scopes if scope not in ground.scopes]
    found += [
        document.fault((*here, "scopes"), f"the stack below has no {scope} images", "leave it out") for scope in lacking
    ]
    for at, python in enumerate(stack.python or []):
        if ground.python is not None and python not in ground.python:
            fix = f"it has {', '.join(ground.python)}"
            found.append(document.fault((*here, "python", at), f"the stack below has no Python {python}", fix))
    return found


def _ground(
    document: Document, here: Place, on: GroundPart, parts: Sequence[Part]
) -> tuple[StackPart | None, list[Fault]]:
    files = {part.file.framework: part.file for part in parts}
    if on.framework not in files:
        what = f"there is no framework {on.framework!r}"
        return None, [document.fault((*here, "stands-on", "framework"), what, nearest(on.framework, files))]
    stacks = files[on.framework].stacks
    if on.stack not in stacks:
        what = f"{on.framework} has no stack {on.stack!r}"
        return None, [document.fault((*here, "stands-on", "stack"), what, nearest(on.stack, stacks))]
    return stacks[on.stack], []


def _repeats(document: Document, here: Place, stack: StackPart) -> list[Fault]:
    found = []
    for field in ("python", "scopes"):
        for value, count in Counter(getattr(stack, field) or ()).items():
            if count > 1:
                found.append(document.fault((*here, field), f"{field}: {value} is given twice", "keep one"))
    for key, values in _CEILINGS.items():
        for scope in getattr(stack, values):
            if scope.removeprefix("gpu-") not in stack.scopes:
                what = f"{scope} is not among the scopes of this stack"
                found.append(document.fault((*here, key, scope), what, "remove it"))
    return found


def _scopes(document: Document, here: Place, file: BuildspecFile, stack: StackPart, known: Known) -> list[Fault]:
    found = []
    for at, scope in enumerate(stack.scopes):
        place: Place = (*here, "scopes", at)
        if scope not in known.scopes:
            fix = f"write dockerfiles/{scope}.Dockerfile.j2; known: {', '.join(known.scopes) or 'none'}"
            found.append(document.fault(place, f"there is no template for the scope {scope}", fix))
        if stack.toolkit == "slipway" and not stack.stands_on and not getattr(file.toolkits, scope):
            fix = f"name one in toolkits: {scope}:"
            found.append(document.fault(place, f"no toolkit starts the images of the scope {scope}", fix))
    return found


def duplicates(images: Iterable[Image]) -> list[Fault]:
    """Names that two cells would share: the framework of two files, the locks of two stacks, an image's own."""
    found = []
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
            found.append(Fault(what, f"first in {file.file}; one file says everything about it", image.file, 1))
        if (stack.file, stack.stack) != (image.file, image.stack) and (image.file, image.stack_id) not in told:
            told.add((image.file, image.stack_id))
            first = f"first at {stack.file}:{stack.lines[0][0]}; remove one"
            found.append(Fault(f"{image.stack_id} is declared twice", first, *place))
        if not naming.is_tag(f"{image.tag}-v1000"):
            found.append(Fault(f"{image.id} makes a tag of more than 128 characters", "shorten its version", *place))
    return found
