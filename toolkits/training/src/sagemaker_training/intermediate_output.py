"""Uploads what the script writes to ``output/intermediate`` while it runs.

A helper process does it, so that neither boto3's start-up nor its memory is the launcher's. Its standard input ends
with the job: then it works off what is left, and ends.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from typing import Optional

from sagemaker_training import layout, process
from sagemaker_training.logs import logger

TMP_DIR_NAME = ".tmp.sagemaker_s3_sync"


class Sync:
    """The running upload."""

    def __init__(self, helper: subprocess.Popen[bytes], pipe: int) -> None:
        self._helper = helper
        self._pipe = pipe

    def join(self, timeout: Optional[float] = None) -> None:
        """Lets it upload what is left. timeout: seconds; None waits as long as it takes."""
        with suppress(OSError):
            os.close(self._pipe)
        try:
            self._helper.wait(timeout)
        except subprocess.TimeoutExpired:
            logger.error("intermediate output: the upload is cut off, the grace period of the stop is over")


def start_sync(s3_output_location: Optional[str], job_name: Optional[str] = None) -> Optional[Sync]:
    """Starts the upload to ``s3://bucket/prefix``; with ``file://`` only the folders are made.

    Nothing happens without a location, or when the folder exists already. Raises ValueError for another scheme.
    """
    if not s3_output_location or os.path.exists(layout.output_intermediate_dir):
        return None
    scheme = s3_output_location.partition("://")[0]
    if scheme not in ("s3", "file"):
        raise ValueError(f"Expected s3:// or file:// for the output location, got {s3_output_location!r}.")
    os.makedirs(os.path.join(layout.output_intermediate_dir, TMP_DIR_NAME))
    if scheme == "file":
        return None
    parts = [s3_output_location.rstrip("/"), job_name, "output", "intermediate"]
    destination = "/".join(part for part in parts if part)
    reader, writer = os.pipe()
    command = [sys.executable, "-m", "sagemaker_training.uploads", layout.output_intermediate_dir, destination]
    try:
        helper = process.start_service(command, stdin=reader)
    finally:
        os.close(reader)
    return Sync(helper, writer)
