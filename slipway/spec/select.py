"""Selectors -> the images that they mean."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from slipway.errors import Fault, UsageError, nearest
from slipway.spec.model import Image, Matrix

_NUMBERS = re.compile(r"\d+(\.\d+)+((a|b|rc)\d+)?")
_ADD = "`invoke add` adds a version"


@dataclass(frozen=True, kw_only=True)
class Selector:
    """What a command's options ask for. Empty means not given."""

    framework: str = ""
    version: str = ""  # a full version, or a stack's name such as 2.13
    scope: str = ""
    processor: str = ""
    python: str = ""  # 3.11 or py311
    only: str = ""  # an image's ID; stands alone
    everything: bool = False

    @property
    def given(self) -> dict[str, str]:
        axes = ("framework", "version", "scope", "processor", "python", "only")
        return {axis: getattr(self, axis) for axis in axes if getattr(self, axis)}


def select(
    matrix: Matrix, selector: Selector, *, excluded: bool = False, warn: Callable[[str], None] | None = None
) -> tuple[Image, ...]:
    """The images that a selector means, in the matrix's order.

    A framework alone means its default cells: newest stack, CPU, every scope. A version, processor or Python that is
    named widens that axis to what it names; --all widens every axis that is not named. `excluded` keeps excluded cells
    in. An unknown version stands for the nearest known one where there is someone to `warn` of it. Raises UsageError
    for other unknown values, all of them at once, and when nothing is left, with the reasons.
    """
    if selector.everything and not selector.given:
        return matrix.images if excluded else matrix.buildable
    if selector.only:
        if len(selector.given) > 1 or selector.everything:
            raise UsageError("--only stands alone", fix="leave the other selectors out")
        return (_by_id(matrix, selector.only, excluded),)
    if not selector.given:
        raise UsageError(
            "no image was named", fix="give --framework NAME, --only ID or --all; `invoke list` shows them"
        )
    if warn is not None:
        selector = _with_known_version(matrix, selector, warn)
    _refuse_unknown(matrix, selector)
    fitting = [image for image in matrix.images if _fits(image, selector)]
    chosen = [image for image in fitting if excluded or not image.excluded]
    if fitting and not chosen:
        reasons = [Fault(f"{image.id}: {image.excluded}") for image in fitting]
        raise UsageError("every image that fits is excluded", faults=reasons, fix="`invoke plan` shows all cells")
    if not chosen:
        raise UsageError(
            f"no image has {_flags(selector.given)} together", fix="`invoke list` shows the combinations that exist"
        )
    return tuple(chosen)


def _by_id(matrix: Matrix, wanted: str, excluded: bool) -> Image:
    for image in matrix.images:
        if image.id == wanted:
            if image.excluded and not excluded:
                raise UsageError(f"{wanted} is excluded: {image.excluded}", fix="choose another; see `invoke list`")
            return image
    raise UsageError(f"there is no image {wanted!r}", fix=nearest(wanted, (image.id for image in matrix.images)))


def _fits(image: Image, selector: Selector) -> bool:
    if selector.framework and selector.framework not in (image.framework, image.family):
        return False
    if selector.scope and image.scope != selector.scope:
        return False
    if selector.version:
        if selector.version not in _versions(image):
            return False
    elif not image.newest and not selector.everything:
        return False
    if selector.everything:
        return selector.processor in ("", image.processor) and _fits_python(image, selector)
    if image.processor != (selector.processor or "cpu") or image.architecture != "amd64":
        return False
    return _fits_python(image, selector)


def _fits_python(image: Image, selector: Selector) -> bool:
    return not selector.python or selector.python in _python_forms(image.python)


def _versions(image: Image) -> set[str]:
    """What --version may call it: the framework's, the library's and the whole version, and the stack's name."""
    return {image.version, image.library_version, image.release, image.stack} - {""}


def _with_known_version(matrix: Matrix, selector: Selector, warn: Callable[[str], None]) -> Selector:
    """The selector with the newest known version that is not newer than the one it names; where all are, the oldest."""
    from slipway.spec.cells import order

    wanted, framework = selector.version, selector.framework
    of_framework = [image for image in matrix.images if framework in ("", image.framework, image.family)]
    known = {name for image in of_framework for name in _versions(image)}
    numbers = [name for name in known if _NUMBERS.fullmatch(name)]
    if not numbers or not _NUMBERS.fullmatch(wanted) or wanted in known:
        return selector
    older = [name for name in numbers if order(name) <= order(wanted)]
    instead = max(older, key=order) if older else min(numbers, key=order)
    warn(f"--version {wanted} is not in buildspec/: {instead} is the nearest, and is taken ({_ADD})")
    return replace(selector, version=instead)


def _python_forms(python: str) -> tuple[str, str]:
    return python, "py" + python.replace(".", "")


def _refuse_unknown(matrix: Matrix, selector: Selector) -> None:
    known = {
        "framework": {name for image in matrix.images for name in (image.framework, image.family) if name},
        "version": {name for image in matrix.images for name in _versions(image)},
        "scope": {image.scope for image in matrix.images},
        "processor": {image.processor for image in matrix.images},
        "python": {form for image in matrix.images for form in _python_forms(image.python)},
    }
    faults = [
        Fault(
            f"--{axis} {value}: there is no such {axis}",
            nearest(value, known[axis]) + (f"; {_ADD}" if axis == "version" else ""),
        )
        for axis, value in selector.given.items()
        if value not in known[axis]
    ]
    if faults:
        raise UsageError("the selectors name what does not exist", faults=faults)


def _flags(given: dict[str, str]) -> str:
    return ", ".join(f"--{axis} {value}" for axis, value in given.items())
