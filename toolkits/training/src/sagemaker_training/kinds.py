"""Entry points: which names are allowed, what kind each is, and how one process runs it."""

from __future__ import annotations

import enum
import os
import re
import stat
import sys
from typing import List, Optional, Sequence

from sagemaker_training import errors

_FORBIDDEN = re.compile(r"[^A-Za-z0-9._+\-/]")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Kind(enum.Enum):
    """What an entry point is. The values are the historical names."""

    PYTHON_PACKAGE = "PYTHON_PACKAGE"
    PYTHON_PROGRAM = "PYTHON_PROGRAM"
    COMMAND = "COMMAND"


def check_name(name: Optional[str]) -> str:
    """The name of an entry point, when it may be one: a relative path of characters that no shell treats specially.

    Raises ClientError.
    """
    if not name:
        raise errors.ClientError(
            "The job names no entry point. Give it as hyperparameter sagemaker_program, or as environment "
            "variable SAGEMAKER_PROGRAM: the name of a file relative to the source folder, such as train.py."
        )
    forbidden = sorted(set(_FORBIDDEN.findall(name)))
    if forbidden:
        raise errors.ClientError(
            f"The entry point {name!r} contains {' '.join(map(repr, forbidden))}: "
            "use letters, digits and . _ + - / only."
        )
    if name[0] in "-/" or any(part in ("", ".", "..") for part in name.split("/")):
        raise errors.ClientError(
            f"The entry point {name!r} must be a path inside the source folder: "
            "no leading - or /, and no empty, . or .. part."
        )
    return name


def kind_of(name: str, code_dir: str) -> Kind:
    """The kind of an entry point, from its name and from what lies in the code folder."""
    if name.endswith(".sh"):
        return Kind.COMMAND
    if has_package(code_dir):
        return Kind.PYTHON_PACKAGE
    if name.endswith(".py"):
        return Kind.PYTHON_PROGRAM
    return Kind.COMMAND


def has_package(code_dir: str) -> bool:
    """Whether the code folder is a package to install. An empty setup.py makes none."""
    try:
        with open(os.path.join(code_dir, "setup.py"), encoding="utf-8", errors="replace") as file:
            return any(line.strip() and not line.lstrip().startswith("#") for line in file)
    except OSError:
        return False


def check_exists(name: str, code_dir: str) -> None:
    """Raises ClientError, listing what is there, when the entry point is not.

    A package may bring its module from another folder (``src/``), so a missing file is no fault there yet.
    """
    path = os.path.join(code_dir, name)
    root = os.path.realpath(code_dir)
    if not os.path.realpath(path).startswith(root + os.sep):
        raise errors.ClientError(f"The entry point {name!r} is a link that leads out of {code_dir}.")
    if os.path.isfile(path) or kind_of(name, code_dir) is Kind.PYTHON_PACKAGE:
        return
    try:
        there = sorted(os.listdir(code_dir))
    except OSError:
        there = []
    listing = ", ".join(there[:20]) + (", ..." if len(there) > 20 else "")
    raise errors.ClientError(f"The entry point {name} is not in {code_dir}, which holds: {listing or 'nothing'}.")


def module_name(name: str) -> Optional[str]:
    """``a/b.py`` as module ``a.b``; None when it is no module path."""
    stem = name[: -len(".py")] if name.endswith(".py") else name
    parts = stem.split("/")
    parts = [piece for part in parts for piece in part.split(".")]
    return ".".join(parts) if all(_IDENTIFIER.fullmatch(part) for part in parts) else None


def script_command(name: str, args: Sequence[str], code_dir: str) -> List[str]:
    """The argument vector by which one process runs an entry point, with the code folder as working directory."""
    kind = kind_of(name, code_dir)
    if kind is Kind.PYTHON_PACKAGE:
        module = module_name(name)
        if module:
            return [sys.executable, "-m", module, *args]
    if kind is Kind.COMMAND:
        return _shell_command(name, args, code_dir)
    return [sys.executable, "--", name, *args]


def _shell_command(name: str, args: Sequence[str], code_dir: str) -> List[str]:
    path = os.path.join(code_dir, name)
    if _make_executable(path):
        import shlex

        return ["/bin/sh", "-c", " ".join(shlex.quote(part) for part in ["./" + name, *args])]
    return [*_interpreter(path), "./" + name, *args]


def _make_executable(path: str) -> bool:
    """Whether the file can be executed, after trying to make it so (a read-only mount forbids that)."""
    try:
        mode = os.stat(path).st_mode
        if not mode & stat.S_IXUSR:
            os.chmod(path, stat.S_IMODE(mode) | 0o111)
    except OSError:
        pass
    return os.access(path, os.X_OK)


def _interpreter(path: str) -> List[str]:
    """The program that the first line names, else the shell."""
    try:
        with open(path, "rb") as file:
            first = file.readline(512).decode("utf-8", "replace").strip()
    except OSError:
        first = ""
    return first[2:].split(None, 1) if first.startswith("#!") and first[2:].strip() else ["/bin/sh"]
