"""Keras files as SavedModels: exported by a process of their own, loaded like any other.

Keras takes seconds and hundreds of megabytes to import. A worker lets ``keras_export`` do that, and needs neither it
nor the exported copy once TensorFlow has read that. The workers of one model share the copy.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence

from sagemaker_tensorflow_serving_container.models import Model, ModelError, Version


@contextlib.contextmanager
def saved_model(version: Version, shared: bool) -> Iterator[str]:
    """The folder of a version's SavedModel, to be read at once. Raises ModelError.

    shared: keep what was made of a Keras file for the container's other workers; else it is gone afterwards.
    """
    if not version.keras:
        yield version.path
    elif shared:
        yield _kept(version.path)
    else:
        with tempfile.TemporaryDirectory(prefix="keras-") as folder:
            target = os.path.join(folder, "1")
            _export(version.path, target)
            yield target


def exported(models: Sequence[Model], folder: str) -> list[Model]:
    """The same models, those with Keras files as folders of SavedModels, for a model server. Raises ModelError."""
    made = []
    for model in models:
        if not any(version.keras for version in model.versions):
            made.append(model)
            continue
        base = os.path.join(folder, model.name)
        os.mkdir(base)
        versions = []
        for version in model.versions:
            path = os.path.join(base, str(version.number))
            if version.keras:
                _export(version.path, path)
            else:
                os.symlink(version.path, path)
            versions.append(Version(version.number, path))
        made.append(dataclasses.replace(model, base=base, versions=tuple(versions)))
    return made


def _kept(path: str) -> str:
    """The copy of this very file that another worker of the container has made, or a new one."""
    stat = os.stat(path)
    identity = f"{os.path.realpath(path)}\0{stat.st_size}\0{stat.st_mtime_ns}\0{os.getuid()}"
    folder = os.path.join(tempfile.gettempdir(), f"keras-{hashlib.sha256(identity.encode()).hexdigest()[:24]}")
    # Private: what another user put there must not be loaded.
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    if os.lstat(folder).st_uid != os.getuid():
        raise ModelError(f"{folder} belongs to another user: set TMPDIR to a private folder.")
    target = os.path.join(folder, "1")
    with open(os.path.join(folder, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.isdir(target):
            with tempfile.TemporaryDirectory(dir=folder) as part:
                _export(path, os.path.join(part, "1"))
                os.rename(os.path.join(part, "1"), target)
    return target


def _export(path: str, target: str) -> None:
    command = [sys.executable, "-m", "sagemaker_tensorflow_serving_container.keras_export", path, target]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, env=_environment(), check=False)
    if done.returncode:
        told = done.stderr.decode("utf-8", "replace").rstrip()
        raise ModelError(f"{path} cannot be loaded by Keras:\n{told or f'exit code {done.returncode}'}")


def _environment() -> dict[str, str]:
    """This process's own, with the import path that it has by now: the user's code may register Keras classes."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
        "KERAS_BACKEND": "tensorflow",
        # The export traces and writes; a device would only be taken from the workers.
        "CUDA_VISIBLE_DEVICES": "-1",
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }
