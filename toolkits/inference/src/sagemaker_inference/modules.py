"""Where the user's module is looked for, and how it is imported."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from dataclasses import dataclass
from types import ModuleType

from sagemaker_inference import collector
from sagemaker_inference.settings import DEFAULT, Settings

_STAND_INS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "standin")


class UserModuleError(Exception):
    """The user's module is not where it was said to be."""


@dataclass(frozen=True)
class Found:
    """The outcome of a search."""

    file: str | None
    """The module's file; None where there is none, and then the defaults serve."""
    name: str
    folder: str
    """What its imports start from: the folder that held it."""
    searched: tuple[str, ...]


def find(settings: Settings, model_dir: str) -> Found:
    """Looks in MODEL_DIR/code, then the submit directory, then the image's general code folder; the first file wins."""
    searched = _folders(settings, model_dir)
    for folder in searched:
        for name in dict.fromkeys((settings.program, settings.program.replace(".", "/"))):
            for file in (f"{name}.py", f"{name}/__init__.py"):
                path = os.path.join(folder, file)
                if os.path.isfile(path):
                    return _found(path, name, folder, searched)
    return Found(None, settings.program, "", searched)


def load(settings: Settings, model_dir: str) -> tuple[ModuleType | None, Found]:
    """Imports the user's module; None where there is none. Errors inside it pass through as they are.

    Raises UserModuleError where a module must have been meant but stands elsewhere.
    """
    found = prepare_path(settings, model_dir)
    if found.file is None:
        misplaced = _misplaced(settings.program, model_dir)
        if misplaced or (settings.program != "inference" and not settings.multi_model):
            raise UserModuleError(explain(settings, model_dir))
        return None, found
    spec = importlib.util.spec_from_file_location(found.name, found.file)
    if spec is None or spec.loader is None:
        raise UserModuleError(f"{found.file} is no Python module.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[found.name] = module
    try:
        with collector.importing():
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[found.name]
        raise
    return module, found


def prepare_path(settings: Settings, model_dir: str) -> Found:
    """Puts the code folders first on the search path, of this process and of its children; returns what was found.

    The model's folder may be read-only and is never written to: not even compiled code.
    """
    found = find(settings, model_dir)
    code = os.path.join(model_dir, "code")
    first = [path for path in (found.folder, code, os.path.join(code, "lib")) if path and os.path.isdir(path)]
    first = list(dict.fromkeys(first))
    sys.path[:] = first + [path for path in sys.path if path not in first]
    if _STAND_INS not in sys.path:
        sys.path.append(_STAND_INS)
    inherited = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and path not in first]
    os.environ["PYTHONPATH"] = os.pathsep.join(first + inherited)
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    importlib.invalidate_caches()
    return found


def explain(settings: Settings, model_dir: str) -> str:
    """Why no user module is in use: what was looked for, where, and what the model's folder holds."""
    found = find(settings, model_dir)
    if found.file:
        return f"{found.file} is in use."
    given = settings.sources.get("program", DEFAULT)
    origin = "" if given == DEFAULT else f" ({given})"
    text = f"No {settings.program}.py{origin} was found in {', '.join(found.searched)}."
    submitted = settings.submit_directory
    if submitted and _local(submitted) is None:
        text += f" {submitted} cannot be reached from inside the container."
    try:
        held = sorted(entry.name + ("/" if entry.is_dir() else "") for entry in os.scandir(model_dir))
        text += f" {model_dir} holds {', '.join(held[:20]) or 'nothing'}{', …' if len(held) > 20 else ''}."
    except OSError as error:
        text += f" {model_dir} cannot be read: {error.strerror}."
    misplaced = _misplaced(settings.program, model_dir)
    if misplaced:
        text += f" {misplaced} was packed with one folder too many: code/ must stand at the top of the archive."
    elif os.path.isfile(os.path.join(model_dir, f"{settings.program}.py")):
        text += f" {settings.program}.py stands beside the model: it must be in code/."
    return text


def _folders(settings: Settings, model_dir: str) -> tuple[str, ...]:
    submitted = _local(settings.submit_directory or "")
    folders = [os.path.join(model_dir, "code"), submitted, os.path.join(settings.base_dir, "code")]
    return tuple(dict.fromkeys(os.path.normpath(folder) for folder in folders if folder))


def _local(submitted: str) -> str | None:
    """A submit directory that is a folder in here: other addresses were for the SDK, which has acted upon them."""
    path = submitted.removeprefix("file://")
    return path if path.startswith("/") else None


def _found(path: str, name: str, folder: str, searched: tuple[str, ...]) -> Found:
    """A file in a folder of its own is a module of a package where that folder is one, else it starts anew there."""
    parent, _, last = name.rpartition("/")
    if not parent:
        return Found(path, name, folder, searched)
    if os.path.isfile(os.path.join(folder, parent, "__init__.py")):
        return Found(path, name.replace("/", "."), folder, searched)
    return Found(path, last, os.path.join(folder, parent), searched)


def _misplaced(program: str, model_dir: str) -> str | None:
    """The user's module below the only folder at the top of the archive."""
    try:
        entries = [entry for entry in os.scandir(model_dir) if not entry.name.startswith((".", "._"))]
    except OSError:
        return None
    if len(entries) != 1 or not entries[0].is_dir():
        return None
    path = os.path.join(entries[0].path, "code", f"{program}.py")
    return path if os.path.isfile(path) else None
