"""The toolkit's own log lines: on stderr, each masked, none before the level allows it."""

from __future__ import annotations

import logging
import sys

from sagemaker_training import masking

LOGGER_NAME = "sagemaker-training-toolkit"

logger = logging.getLogger(LOGGER_NAME)

_FORMAT = "%(asctime)s %(name)-12s %(levelname)-8s %(message)s"


class _MaskingFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = super().format(record)
        return masking.text(line) if record.name == LOGGER_NAME else line


def configure(level: int) -> None:
    """Sets up the root logger, once the framework module had its chance to do so first.

    boto's loggers follow only from INFO upwards: at DEBUG they print request headers.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_MaskingFormatter(_FORMAT))
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level)
    if level >= logging.INFO:
        for name in ("boto3", "botocore", "s3transfer"):
            logging.getLogger(name).setLevel(level)
    else:
        for name in ("boto3", "botocore", "s3transfer"):
            logging.getLogger(name).setLevel(logging.INFO)
