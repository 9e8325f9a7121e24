"""Where models and the library's caches lie: never below /opt/ml/model, and one place for all workers."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping

HOME = "HF_HOME"
MODULES = "HF_MODULES_CACHE"
#: The folder of the model that the workers load, set once it is there.
LOADED_FOLDER = "SLIPWAY_HF_MODEL_DIR"


def home(environ: Mapping[str, str]) -> str:
    """HF_HOME; else the library's own default where an image already holds something there; else a temporary folder.

    The platform's large disk is below the temporary folder, and under a read-only root nothing else can be written.
    """
    if environ.get(HOME):
        return os.path.abspath(os.path.expanduser(environ[HOME]))
    cache = environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    default = os.path.join(cache, "huggingface")
    return default if os.path.isdir(os.path.join(default, "hub")) else os.path.join(temporary(environ), "huggingface")


def temporary(environ: Mapping[str, str]) -> str:
    return environ.get("TMPDIR") or tempfile.gettempdir()


def variables(environ: Mapping[str, str]) -> dict[str, str]:
    """What the library must find in the environment, beyond what the user set."""
    folder = home(environ)
    found = {HOME: folder}
    if MODULES not in environ and not writable(folder):
        found[MODULES] = os.path.join(temporary(environ), "huggingface-modules")
    return found


def writable(folder: str) -> bool:
    """Whether files can be made in a folder, which need not be there yet."""
    while not os.path.exists(folder):
        folder = os.path.dirname(folder)
    return os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)


def link_name(model_id: str, revision: str | None) -> str:
    """``org__name``, with ``.revision`` where one is asked for: what the folder is called for user code."""
    return model_id.replace("/", "__") + (f".{revision.replace('/', '__')}" if revision else "")
