"""The toolkit's own log lines: on stderr, each masked, none before the level allows it."""

from __future__ import annotations

import logging
import sys

from sagemaker_training import masking

LOGGER_NAME = "sagemaker-training-toolkit"

logger = logging.getLogger(LOGGER_NAME)

# Whether the script left its last line on stderr without an end. The next line of the toolkit then begins with one:
# "loss=0.5" and a date on one line would read as another number.
midline = False

_FORMAT = "%(asctime)s %(name)-12s %(levelname)-8s %(message)s"


class _MaskingFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        global midline
        line = super().format(record)
        if record.name == LOGGER_NAME:
            line = masking.text(line)
        if midline:
            midline = False
            line = "\n" + line
        return line


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
