"""A Python environment in front of the image's own: new packages go into it, the image's stay visible behind it.

The standard library's virtual environments do this: pip counts what is behind as installed, leaves it alone, and puts
another version in front. It works in a private folder, under any user, on a read-only root, and on systems whose Python
is marked as externally managed; and each model of a container can have its own.
"""

from __future__ import annotations

import glob
import os
import site
import sys
from collections.abc import Mapping


def make(folder: str) -> None:
    """Makes an environment in front of the running interpreter's. Raises OSError."""
    import venv

    behind = sys.prefix != sys.base_prefix
    visible = not behind or any(path.startswith(sys.base_prefix) for path in site.getsitepackages())
    venv.EnvBuilder(system_site_packages=visible, symlinks=True).create(folder)
    if behind:
        # A virtual environment on a virtual environment sees only the base: name the one between.
        between = [path for path in site.getsitepackages() if path.startswith(sys.prefix)]
        with open(os.path.join(_packages(folder), "behind.pth"), "w", encoding="utf-8") as file:
            file.writelines(f"{path}\n" for path in between)


def python(folder: str) -> str:
    """The interpreter to run in an environment: the running one where none was made there."""
    own = os.path.join(folder, "bin", "python")
    return own if os.path.exists(own) else sys.executable


def environ(folder: str, given: Mapping[str, str]) -> dict[str, str]:
    """Variables by which children of the environment's processes find its programs; none where none was made."""
    if python(folder) == sys.executable:
        return {}
    programs = os.path.join(folder, "bin")
    return {"VIRTUAL_ENV": folder, "PATH": os.pathsep.join([programs, given.get("PATH", os.defpath)])}


def _packages(folder: str) -> str:
    return glob.glob(os.path.join(glob.escape(folder), "lib", "python*", "site-packages"))[0]
