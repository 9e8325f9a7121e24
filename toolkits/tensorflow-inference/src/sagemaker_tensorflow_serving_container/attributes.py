"""What a request asks for in X-Amzn-SageMaker-Custom-Attributes: a model, a version, a method.

Rule tf-attr-1. The header is free text: what does not begin with one of the three names is left to the user's code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

HEADER = "X-Amzn-SageMaker-Custom-Attributes"
METHODS = ("predict", "classify", "regress")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_VERSION = re.compile(r"[0-9]{1,18}")


class AttributeFault(ValueError):
    """A named attribute has a value that cannot be used: the request's fault."""


@dataclass(frozen=True)
class Attributes:
    model_name: str | None = None
    model_version: int | None = None
    method: str = "predict"


def parse(header: str | None) -> Attributes:
    """The three attributes of a header. Raises AttributeFault that names every wrong one."""
    values: dict[str, str] = {}
    faults = []
    for part in (header or "").split(","):
        key, equals, value = part.strip().partition("=")
        key = key.strip().lower()
        if not equals or key not in _CHECKS:
            continue
        if key in values:
            faults.append(f"{key} is given twice")
        values[key] = value.strip()
        if not _CHECKS[key][0](values[key]):
            faults.append(f"{key}={values[key]!r}: use {_CHECKS[key][1]}")
    if faults:
        raise AttributeFault(f"{HEADER}: {'; '.join(faults)}.")
    version = values.get("tfs-model-version")
    return Attributes(
        model_name=values.get("tfs-model-name"),
        model_version=None if version is None else int(version),
        method=values.get("tfs-method", "predict"),
    )


_CHECKS: Mapping[str, tuple[Callable[[str], bool], str]] = {
    "tfs-model-name": (
        lambda value: bool(_NAME.fullmatch(value)),
        "letters, digits, '.', '_' and '-', beginning with a letter or digit",
    ),
    "tfs-model-version": (lambda value: bool(_VERSION.fullmatch(value)), "digits"),
    "tfs-method": (lambda value: value in METHODS, "predict, classify or regress"),
}
