"""Names: image IDs, repositories and tags, in the grammar that users of AWS's images know.

    ID          <framework>-<scope>-<version>-<processor>-<py>[-<cuda>][-arm64]    pytorch-training-2.13.0-cpu-py311
    repository  <framework>-<scope>                                                pytorch-training
    tag         <version>-<processor>-<py>[-<cuda>]-<os>[-arm64]                   2.13.0-cpu-py311-debian12
    A stack on another one's: <version>-<library><version> in place of the version   2.13.0-transformers5.24.0
    built       <tag>-dev        moves with every build
    released    <tag>-v<N>       never moves

A tag has at most 128 characters of [A-Za-z0-9_.-] and does not begin with `.` or `-` (OCI distribution specification).
"""

from __future__ import annotations

import re

_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
REPOSITORY = re.compile(r"(?=.{2,256}$)[a-z0-9]+(?:[._-][a-z0-9]+)*(?:/[a-z0-9]+(?:[._-][a-z0-9]+)*)*")


def python_tag(python: str) -> str:
    """`3.11` -> `py311`."""
    return "py" + python.replace(".", "")


def cuda_tag(cuda: str) -> str:
    """`13.0` -> `cu130`."""
    return "cu" + cuda.replace(".", "")


def version_tag(version: str) -> str:
    """A version as a tag may hold it: the `+` of a local version becomes `.`."""
    return version.replace("+", ".")


def repository(framework: str, scope: str) -> str:
    return f"{framework}-{scope}".replace("_", "-")


def stack_id(framework: str, version: str, processor: str, python: str, cuda: str, architecture: str) -> str:
    """What the images of one stack share; also the folder of its locks."""
    return "-".join([framework, *_cell(version, processor, python, cuda), *_arch(architecture)])


def image_id(
    framework: str, scope: str, version: str, processor: str, python: str, cuda: str, architecture: str
) -> str:
    return "-".join([framework, scope, *_cell(version, processor, python, cuda), *_arch(architecture)])


def tag(version: str, processor: str, python: str, cuda: str, os: str, architecture: str) -> str:
    """The tag without `-dev` or `-vN`."""
    return "-".join([*_cell(version, processor, python, cuda), os, *_arch(architecture)])


def is_tag(text: str) -> bool:
    return _TAG.fullmatch(text) is not None


def _cell(version: str, processor: str, python: str, cuda: str) -> list[str]:
    return [version_tag(version), processor, python_tag(python), *([cuda_tag(cuda)] if cuda else [])]


def _arch(architecture: str) -> list[str]:
    return [] if architecture == "amd64" else [architecture]
