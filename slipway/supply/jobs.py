"""The images of a selection as jobs of a CI pipeline: what shares its layers is built on one runner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slipway.spec.model import Image, Matrix
from slipway.spec.select import Selector, select

RUNNERS = {"amd64": "ubuntu-24.04", "arm64": "ubuntu-24.04-arm"}


@dataclass(frozen=True)
class Job:
    """Images that one runner builds, and the options which select exactly them."""

    name: str
    select: str
    images: tuple[str, ...]
    runner: str
    processor: str


def of(matrix: Matrix, images: Sequence[Image]) -> list[Job]:
    """One job for each stack; one for each image where options cannot name the stack's images alone."""
    groups: dict[tuple[str, ...], list[Image]] = {}
    for image in images:
        key = (image.framework, image.version, image.processor, image.python, image.architecture)
        groups.setdefault(key, []).append(image)
    found = []
    for (framework, version, processor, python, _), members in groups.items():
        asked = Selector(framework=framework, version=version, processor=processor, python=python)
        if {image.id for image in select(matrix, asked)} == {image.id for image in members}:
            options = f"--framework {framework} --version {version} --processor {processor} --python {python}"
            found.append(_job(f"{framework} {version} {processor} {python}", options, members))
        else:
            found += [_job(image.id, f"--only {image.id}", [image]) for image in members]
    return found


def _job(name: str, options: str, images: Sequence[Image]) -> Job:
    first = images[0]
    return Job(name, options, tuple(image.id for image in images), RUNNERS[first.architecture], first.processor)
