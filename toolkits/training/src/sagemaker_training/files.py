"""Marker files, small files, and the job's source."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from typing import Any, Iterator, Optional, Union

from sagemaker_training import errors, failures, layout
from sagemaker_training.logs import logger


def write_success_file() -> None:
    """Marks the job as successful. Raises OSError when it cannot: then it is not."""
    os.makedirs(layout.output_dir, exist_ok=True)
    write_file(layout.success_file, "")


def write_failure_file(failure_msg: str) -> None:
    """Writes the reason of a failure, unless one is there already: the script knows best."""
    if failures.exists():
        logger.info("%s exists already and is kept", layout.failure_file)
        return
    os.makedirs(layout.output_dir, exist_ok=True)
    write_file(layout.failure_file, failure_msg)


def write_file(path: str, data: Union[str, bytes], mode: str = "w") -> None:
    """Writes text (UTF-8) or, with a ``b`` in mode, bytes."""
    with open(path, mode, encoding=None if "b" in mode else "utf-8", errors=None if "b" in mode else "replace") as file:
        file.write(data)


def read_file(path: str, mode: str = "r") -> Any:
    """Text (UTF-8) or, with a ``b`` in mode, bytes."""
    with open(path, mode, encoding=None if "b" in mode else "utf-8") as file:
        return file.read()


def read_json(path: str) -> Any:
    with open(path, encoding="utf-8-sig") as file:
        return json.load(file)


def write_json(obj: Any, path: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        json.dump(obj, file)


@contextmanager
def tmpdir(suffix: str = "", prefix: str = "tmp", directory: Optional[str] = None) -> Iterator[str]:
    """A folder that is gone afterwards."""
    import tempfile

    with tempfile.TemporaryDirectory(suffix=suffix, prefix=prefix, dir=directory) as folder:
        yield folder


def download_and_extract(uri: str, path: str = layout.code_dir) -> None:
    """Puts the job's source into a folder: from ``s3://``, a folder, a gzipped tar archive or a single file.

    Code that is in the folder already (baked into the image, or mounted) wins, with a warning that names both.
    """
    source = uri[len("file://") :] if uri.startswith("file://") else uri
    if os.path.realpath(source) == os.path.realpath(path):
        return
    os.makedirs(path, exist_ok=True)
    if os.listdir(path):
        logger.warning("%s holds code already: it is used, and the source %s is not fetched", path, uri)
        return
    if source.startswith("s3://"):
        with tmpdir() as folder:
            archive = os.path.join(folder, "source")
            s3_download(source, archive)
            _extract(archive, path, uri)
    elif os.path.isdir(source):
        import shutil

        shutil.copytree(source, path, symlinks=True, dirs_exist_ok=True)
    elif os.path.isfile(source):
        _unpack_or_copy(source, path)
    else:
        raise errors.ClientError(
            f"The source {uri} is neither an s3:// address nor a file or folder in the container: "
            "correct sagemaker_submit_directory."
        )


def _unpack_or_copy(source: str, path: str) -> None:
    import tarfile

    if tarfile.is_tarfile(source):
        _extract(source, path, source)
    else:
        import shutil

        shutil.copy2(source, path)


def _extract(archive: str, path: str, name: str) -> None:
    from sagemaker_training import archives

    archives.extract(archive, path, name)


def s3_download(url: str, dst: str) -> None:
    """Downloads one object to a file."""
    from sagemaker_training import aws

    aws.download(url, dst)
