"""Parsed files -> cells. A stack that stands on another framework's takes over all that it does not add to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from slipway.documents import Document
from slipway.errors import Fault
from slipway.spec.model import Image

if TYPE_CHECKING:
    from slipway.spec.schema import BuildspecFile, ExcludedPart, StackPart


# The variables by which `train` and `serve` find the module that does the work.
_STARTERS = ("SAGEMAKER_TRAINING_MODULE", "SAGEMAKER_SERVING_MODULE")

Value = TypeVar("Value")
Order = tuple[tuple[int, ...], bool]


@dataclass(frozen=True)
class Part:
    """One file of buildspec/, as read and as parsed."""

    document: Document
    file: BuildspecFile


def images(parts: Sequence[Part]) -> tuple[tuple[Image, ...], list[Fault]]:
    """The cells of all files, in the files' order, and the exclusions that exclude nothing.

    Stacks whose own faults keep them from being cells are passed over: those faults are told elsewhere.
    """
    made: dict[str, list[Image]] = {}
    for part in sorted(parts, key=lambda part: any(stack.stands_on for stack in part.file.stacks.values())):
        below = [image for cells in made.values() for image in cells]
        made[part.document.name] = _of_file(part, below)
    faults, found = [], []
    for part in parts:
        cells = made[part.document.name]
        faults += _idle_rules(part, cells)
        found += _newest_marked(cells)
    return tuple(found), faults


def _of_file(part: Part, below: Sequence[Image]) -> list[Image]:
    cells = []
    for key, stack in part.file.stacks.items():
        cells += _standing(part, key, stack, below) if stack.stands_on else _own(part, key, stack)
    return [_excluded(part.file.excluded, image) for image in cells]


def _own(part: Part, key: str, stack: StackPart) -> list[Image]:
    if stack.version is None or stack.os is None or stack.python is None or stack.processors is None:
        return []
    file = part.file
    return [
        Image(
            framework=file.framework,
            family=file.family or "",
            stack=key,
            version=stack.version,
            library=_library(stack)[0],
            library_version=_library(stack)[1],
            scope=scope,
            processor=processor,
            python=python,
            os=stack.os,
            architecture=architecture,
            cuda=of_processor.cuda or "",
            cuda_architectures=tuple(of_processor.cuda_architectures or ()),
            packages=_packages(stack, processor, scope),
            layers=tuple(map(tuple, [*of_processor.layers, *file.layers])),
            leave_out=_paths(stack),
            without=dict(stack.without),
            system_packages=tuple(sorted(getattr(stack.system_packages, scope))),
            toolkit=stack.toolkit,
            toolkits=_toolkits(stack, getattr(file.toolkits, scope)),
            environment=_environment(stack, getattr(file.environment, scope)),
            wheel_index=_index(file, processor),
            ceiling_mb=_weighed(stack.ceiling_mb, scope, processor, 0),
            compressed_ceiling_mb=_weighed(stack.compressed_ceiling_mb, scope, processor, 0),
            ceiling_reason=_weighed(stack.ceiling_reason, scope, processor, ""),
            supported_until=stack.supported_until.isoformat() if stack.supported_until else "",
            file=part.document.name,
            lines=_lines(part.document, key),
        )
        for scope in stack.scopes
        for processor, of_processor in stack.processors.items()
        for python in stack.python
        for architecture in of_processor.architectures
    ]


def _standing(part: Part, key: str, stack: StackPart, below: Sequence[Image]) -> list[Image]:
    """One cell on each cell of the stack below that has a scope, and a Python, of this one."""
    assert stack.stands_on is not None
    file = part.file
    cells = []
    for ground in below:
        if (ground.framework, ground.stack) != (stack.stands_on.framework, stack.stands_on.stack) or ground.below:
            continue
        scope = ground.scope
        if scope not in stack.scopes or ground.python not in (stack.python or [ground.python]):
            continue
        own = _packages(stack, ground.processor, scope)
        system = {*ground.system_packages, *getattr(stack.system_packages, scope)}
        until = stack.supported_until.isoformat() if stack.supported_until else ground.supported_until
        cells.append(
            replace(
                ground,
                framework=file.framework,
                family=file.family or "",
                stack=key,
                library=_library(stack)[0],
                library_version=_library(stack)[1],
                below=ground,
                packages={"common": own["common"], scope: (*ground.packages[scope], *own[scope])},
                leave_out={**ground.leave_out, **_paths(stack)},
                without={**ground.without, **stack.without},
                system_packages=tuple(sorted(system)),
                toolkit=stack.toolkit,
                toolkits=_toolkits(stack, (*ground.toolkits, *getattr(file.toolkits, scope))),
                environment=_environment(stack, {**ground.environment, **getattr(file.environment, scope)}),
                wheel_index=_index(file, ground.processor) or ground.wheel_index,
                ceiling_mb=_weighed(stack.ceiling_mb, scope, ground.processor, 0),
                compressed_ceiling_mb=_weighed(stack.compressed_ceiling_mb, scope, ground.processor, 0),
                ceiling_reason=_weighed(stack.ceiling_reason, scope, ground.processor, ""),
                supported_until=until,
                excluded=f"stands on an excluded image: {ground.excluded}" if ground.excluded else "",
                file=part.document.name,
                lines=_lines(part.document, key),
            )
        )
    return cells


def _toolkits(stack: StackPart, ours: Iterable[str]) -> tuple[str, ...]:
    return tuple(ours) if stack.toolkit == "slipway" else ()


def _environment(stack: StackPart, given: Mapping[str, str]) -> dict[str, str]:
    """Sorted by name. Without a toolkit no variable names a module of one; AWS's has the modules that ours replaces."""
    return {name: value for name, value in sorted(given.items()) if stack.toolkit != "none" or name not in _STARTERS}


def _weighed(values: Mapping[Any, Value], scope: str, processor: str, default: Value) -> Value:
    """What a stack says of the size of a scope's images; its GPU images may have a word of their own."""
    return values.get(f"{processor}-{scope}", values.get(scope, default))


def _library(stack: StackPart) -> tuple[str, str]:
    name, _, version = (stack.library or "").partition("==")
    return name, version


def _packages(stack: StackPart, processor: str, scope: str) -> dict[str, tuple[str, ...]]:
    library = (stack.library,) if stack.library else ()
    return {
        "common": (*library, *stack.packages.common, *getattr(stack.packages, processor)),
        scope: tuple(getattr(stack.packages, scope)),
    }


def _index(file: BuildspecFile, processor: str) -> str:
    return next((address for name, address in file.wheel_index.items() if name == processor), "")


def _paths(stack: StackPart) -> dict[str, tuple[str, ...]]:
    return {name: tuple(paths) for name, paths in stack.leave_out.items()}


def _lines(document: Document, key: str) -> tuple[tuple[int, int], ...]:
    spans = (document.span(place) for place in (("stacks", key), ("toolkits",), ("environment",), ("wheel-index",)))
    return tuple(span for span in spans if span is not None)


def _excluded(rules: Iterable[ExcludedPart], image: Image) -> Image:
    reasons = [rule.reason for rule in rules if fits(rule, image)]
    return replace(image, excluded=reasons[0]) if reasons and not image.excluded else image


def fits(rule: ExcludedPart, image: Image) -> bool:
    axes = ("stack", "version", "scope", "processor", "python", "architecture")
    return all(getattr(rule, axis) in (None, getattr(image, axis)) for axis in axes)


def _idle_rules(part: Part, cells: Sequence[Image]) -> list[Fault]:
    return [
        part.document.fault(("excluded", at), "this excludes no cell", "remove it, or correct its axes")
        for at, rule in enumerate(part.file.excluded)
        if not any(fits(rule, image) for image in cells)
    ]


def _newest_marked(cells: Sequence[Image]) -> list[Image]:
    """Of each processor the newest stack: a version may have been built for one of them alone."""
    best = {
        processor: max((image for image in cells if image.processor == processor), key=_order).stack
        for processor in {image.processor for image in cells}
    }
    return [replace(image, newest=image.stack == best[image.processor]) for image in cells]


def _order(image: Image) -> tuple[Order, Order]:
    return order(image.version), order(image.library_version)


def order(version: str) -> Order:
    """Versions in their order: by their numbers, and one that is finished after one that is not (2.13.0rc1)."""
    numbers = re.findall(r"\d+", re.split(r"[^\d.]", version, maxsplit=1)[0])
    return tuple(map(int, numbers)), re.search(r"(a|b|rc)\d", version) is None
