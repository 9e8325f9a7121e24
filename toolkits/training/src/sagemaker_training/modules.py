"""The job's code as something to install and import."""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType
from typing import Dict, List

from sagemaker_training import errors, files, kinds, layout, masking, process, requirements, settings
from sagemaker_training.logs import logger
from sagemaker_training.runner import raise_for

DEFAULT_MODULE_NAME = "default_user_module_name"


def exists(name: str) -> bool:
    """Whether a module of that name can be imported."""
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def install(path: str, capture_error: bool = False) -> None:
    """Installs the package in a folder, and its requirements.txt. Raises InstallModuleError."""
    with requirements.effective(path) as file:
        _install(path, [".", *_from(file)], errors.InstallModuleError)


def install_requirements(path: str, capture_error: bool = False) -> None:
    """Installs the requirements.txt in a folder, if there is one. Raises InstallRequirementsError."""
    with requirements.effective(path) as file:
        if file:
            _install(path, _from(file), errors.InstallRequirementsError)


def has_requirements(path: str) -> bool:
    return os.path.isfile(os.path.join(path, requirements.FILE))


def _from(file: str) -> List[str]:
    return ["-r", file] if file else []


def _install(path: str, what: List[str], error_class: type) -> None:
    if settings.installer() == "uv":
        command = ["uv", "pip", "install", "--python", sys.executable]
    else:
        command = [sys.executable, "-m", "pip", "install"]
    command += [*what, "-c", requirements.CONSTRAINTS]
    logger.info("installing: %s", " ".join(masking.arguments(command)))
    try:
        outcome = process.run(command, path, _environ(), _mask)
    except OSError as error:
        raise error_class(
            command, 126, f"{type(error).__name__}: {error}", "The installer cannot be started."
        ) from error
    raise_for(outcome, error_class)


def _environ() -> Dict[str, str]:
    from sagemaker_training import codeartifact

    # Defaults only: whatever the user set for pip holds.
    defaults = {
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
        "PYTHONUNBUFFERED": "1",
        # A distribution's own Python (EXTERNALLY-MANAGED) refuses otherwise. In a container that ends with the job
        # there is no system to break.
        "PIP_BREAK_SYSTEM_PACKAGES": "1",
        "UV_BREAK_SYSTEM_PACKAGES": "1",
    }
    return {**defaults, **os.environ, **codeartifact.index_variables()}


def _mask(lines: bytes) -> bytes:
    return masking.text(lines.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def prepare(path: str, name: str) -> None:
    """Makes a folder of plain scripts installable under a name, unless it has a setup.py."""
    if os.path.exists(os.path.join(path, "setup.py")):
        return
    files.write_file(
        os.path.join(path, "setup.py"),
        "from setuptools import setup\n"
        f"setup(name={name!r}, version='1.0.0', py_modules=[{name!r}], package_dir={{'': '.'}}, "
        "include_package_data=True)\n",
    )
    if not os.path.exists(os.path.join(path, "MANIFEST.in")):
        files.write_file(os.path.join(path, "MANIFEST.in"), "recursive-include . *\nrecursive-exclude .git *\n")


def import_module(uri: str, name: str = DEFAULT_MODULE_NAME) -> ModuleType:
    """Fetches the code of an address, installs what it needs, and imports a module of it.

    Raises ImportModuleError, with the module's own error in its text.
    """
    files.download_and_extract(uri, layout.code_dir)
    if kinds.has_package(layout.code_dir):
        install(layout.code_dir)
    else:
        install_requirements(layout.code_dir)
    if layout.code_dir not in sys.path:
        sys.path.insert(0, layout.code_dir)
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise errors.ImportModuleError(f"{name} cannot be imported: {type(error).__name__}: {error}") from error
