"""The helper process behind ``intermediate_output``: ``python -m sagemaker_training.uploads FOLDER S3_URL``."""

from __future__ import annotations

import os
import queue
import select
import shutil
import sys
import threading
import time
from typing import Any, Optional, Tuple

from sagemaker_training import aws, environment, logs
from sagemaker_training.inotify import Watcher
from sagemaker_training.intermediate_output import TMP_DIR_NAME
from sagemaker_training.logs import logger


def main(folder: str, destination: str) -> None:
    """Uploads each complete file of a folder until standard input ends and nothing is left."""
    logs.configure(environment.DEFAULT_LOG_LEVEL)
    temporary = os.path.join(folder, TMP_DIR_NAME)
    watcher = Watcher(folder, temporary)
    copies: queue.Queue[Optional[Tuple[str, str]]] = queue.Queue()
    uploader = threading.Thread(target=_upload_all, args=(copies, destination))
    uploader.start()
    poll = select.poll()
    poll.register(watcher.fd, select.POLLIN)
    poll.register(0, select.POLLIN)
    over = False
    while not over:
        for path in watcher.changed():
            _copy(path, folder, temporary, copies)
        over = any(fd == 0 for fd, _ in poll.poll())
    for path in watcher.changed():
        _copy(path, folder, temporary, copies)
    copies.put(None)
    uploader.join()


def _copy(path: str, folder: str, temporary: str, copies: queue.Queue[Optional[Tuple[str, str]]]) -> None:
    """Keeps the file as it is now: the script may write it again while it waits for its upload."""
    name = os.path.relpath(path, folder)
    copy = os.path.join(temporary, f"{time.time_ns()}.{name.replace(os.sep, '_')}")
    try:
        shutil.copyfile(path, copy)
    except OSError as error:
        logger.warning("intermediate output: %s is not uploaded: %s", name, error)
        return
    copies.put((copy, name))


def _upload_all(copies: queue.Queue[Optional[Tuple[str, str]]], destination: str) -> None:
    """One at a time, in order. An error costs that file its upload, not the job."""
    client: Any = None
    bucket, prefix = aws.split(destination)
    for copy, name in iter(copies.get, None):
        try:
            client = client or aws.client("s3", "Intermediate output")
            client.upload_file(copy, bucket, f"{prefix}/{name}".lstrip("/"))
        except Exception as error:
            logger.error("intermediate output: %s is not uploaded: %s", name, error)
        finally:
            os.unlink(copy)


if __name__ == "__main__":
    main(*sys.argv[1:3])
