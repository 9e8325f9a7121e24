"""A job's requirements.txt, without the packages whose place the toolkit takes."""

from __future__ import annotations

import importlib.util
import os
import re
from contextlib import contextmanager
from typing import Iterator, List, Tuple

from sagemaker_training import errors
from sagemaker_training.logs import logger

FILE = "requirements.txt"
CONSTRAINTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "constraints.txt")

_FILTERED = ".slipway-requirements.txt"

# Distribution -> the import name that it would overwrite.
_REPLACED = {
    "sagemaker-training": "sagemaker_training",
    "sagemaker-pytorch-training": "sagemaker_pytorch_container",
    "sagemaker-tensorflow-training": "sagemaker_tensorflow_container",
    "sagemaker-mxnet-training": "sagemaker_mxnet_container",
}

_NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:$|[\[<>=!~;@#\s\\])")


@contextmanager
def effective(folder: str) -> Iterator[str]:
    """Name of the file to install from, relative to the folder; empty when there is none.

    Lines that name a reference toolkit which this image provides are left out, each with a warning. The copy stands
    beside the original, so that relative paths in it mean the same.
    """
    path = os.path.join(folder, FILE)
    if not os.path.isfile(path):
        yield ""
        return
    with open(path, "rb") as file:
        text = file.read()
    kept, dropped = _split(text.decode("utf-8-sig", "surrogateescape"))
    if not dropped:
        yield FILE
        return
    for requirement in dropped:
        logger.warning("%s: %r is left out, this image's toolkit provides the same import name", FILE, requirement)
    copy = os.path.join(folder, _FILTERED)
    try:
        with open(copy, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(kept)
    except OSError as error:
        raise errors.ClientError(
            f"Remove {', '.join(dropped)} from {path}: {copy} cannot be written ({error})."
        ) from error
    try:
        yield _FILTERED
    finally:
        os.unlink(copy)


def _split(text: str) -> Tuple[str, List[str]]:
    """The text without replaced requirements, and those. A backslash at a line's end continues it."""
    kept: List[str] = []
    dropped: List[str] = []
    dropping = continued = False
    for line in text.splitlines(keepends=True):
        if not continued:
            dropping = _is_replaced(line)
            if dropping:
                dropped.append(line.strip().rstrip("\\").strip())
        if not dropping:
            kept.append(line)
        continued = line.rstrip("\r\n").endswith("\\")
    return "".join(kept), dropped


def _is_replaced(line: str) -> bool:
    match = _NAME.match(line)
    if not match:
        return False
    import_name = _REPLACED.get(re.sub(r"[-_.]+", "-", match[1]).lower())
    return import_name is not None and importlib.util.find_spec(import_name) is not None
