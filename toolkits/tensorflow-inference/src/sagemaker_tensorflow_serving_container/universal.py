"""The code that all models of a multi-model endpoint share.

Rule tf-load-4. A model's own ``code/`` comes first. Without one it is the folder ``code`` beside the models, or what
SAGEMAKER_MULTI_MODEL_UNIVERSAL_BUCKET holds below SAGEMAKER_MULTI_MODEL_UNIVERSAL_PREFIX, fetched once for the
container.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import glob
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from sagemaker_inference import requirements
from sagemaker_inference.settings import Settings as BaseSettings

from sagemaker_tensorflow_serving_container.settings import BUCKET, Settings


class UniversalCodeError(Exception):
    """The shared code cannot be fetched. The text says what to change."""


def settings(base: BaseSettings, own: Settings, model_dir: str) -> BaseSettings:
    """The settings with which a model's module is looked for. Raises UniversalCodeError."""
    if not base.multi_model or base.submit_directory or os.path.isdir(os.path.join(model_dir, "code")):
        return base
    folder = fetched(own.bucket, own.prefix) if own.bucket else os.path.join(base.base_dir, "models", "code")
    if not os.path.isdir(folder):
        return base
    install(folder)
    return dataclasses.replace(base, submit_directory=folder)


def install(code: str) -> None:
    """Puts the packages of the shared code's requirements on this process's path. Raises UniversalCodeError."""
    if not requirements.present(code):
        return
    folder = _private("universal-packages")
    packages = os.path.join(folder, "packages")
    with _once(folder) as first:
        if first:
            done = subprocess.run(requirements.command(code, packages), stdin=subprocess.DEVNULL, check=False)
            if done.returncode:
                with open(requirements.reason_of(packages), encoding="utf-8") as file:
                    raise UniversalCodeError(file.read())
    sys.path[:0] = [path for path in glob.glob(f"{packages}/lib/python*/site-packages") if path not in sys.path]


def fetched(bucket: str, prefix: str, client: Any = None) -> str:
    """The folder with the shared code of a bucket. Raises UniversalCodeError."""
    folder = _private("universal-code")
    with _once(folder) as first:
        if first:
            _fetch(client or _client(), bucket, prefix, folder)
    return folder


def _private(name: str) -> str:
    """A folder that only this user writes to. Raises UniversalCodeError."""
    folder = os.path.join(tempfile.gettempdir(), f"{name}-{os.getuid()}")
    os.makedirs(folder, 0o700, exist_ok=True)
    if os.lstat(folder).st_uid != os.getuid():
        raise UniversalCodeError(f"{folder} belongs to another user: set TMPDIR to a private folder.")
    return folder


@contextlib.contextmanager
def _once(folder: str) -> Iterator[bool]:
    """Whether the block has to fill a folder: not where another process of the container has done so, in full."""
    done = os.path.join(folder, ".complete")
    with open(os.path.join(folder, ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield not os.path.exists(done)
        with open(done, "w"):
            pass


def _client() -> Any:
    try:
        import boto3
    except ImportError:
        raise UniversalCodeError(f"{BUCKET} is set, but this image has no boto3 to read a bucket with.") from None
    return boto3.client("s3")


def _fetch(client: Any, bucket: str, prefix: str, folder: str) -> None:
    prefix = prefix.strip("/")
    start = f"{prefix}/" if prefix else ""
    found = False
    try:
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=start):
            for item in page.get("Contents", ()):
                name = item["Key"][len(start) :]
                if not name or name.endswith("/"):
                    continue
                path = _inside(folder, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                client.download_file(bucket, item["Key"], path)
                found = True
    except UniversalCodeError:
        raise
    except Exception as error:
        raise UniversalCodeError(f"s3://{bucket}/{prefix} cannot be read: {error}") from error
    if not found:
        raise UniversalCodeError(f"s3://{bucket}/{prefix} holds no code: put inference.py there.")


def _inside(folder: str, name: str) -> str:
    """A key's place below the folder. Raises UniversalCodeError for one that leads out of it."""
    path = os.path.normpath(os.path.join(folder, name))
    if not path.startswith(folder + os.sep):
        raise UniversalCodeError(f"The key {name!r} leads out of the code's folder.")
    return path
