"""The log of server and user code: lines of text, or of JSON with the ids of the request."""

from __future__ import annotations

import json
import logging
import sys
from contextvars import ContextVar
from typing import TextIO

NAME = "sagemaker-inference"

#: (request id, inference id) of the request that is being handled; set only where lines are JSON.
request_ids: ContextVar[tuple[str, str] | None] = ContextVar("request_ids", default=None)

_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_TEXT_OF_MODEL = "%(asctime)s %(levelname)s {model}: %(name)s: %(message)s"
_PLAIN_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time (UTC), level, logger, message, the request's ids, traceback, and all ``extra``.

    model: named in each line, where the container has many.
    """

    def __init__(self, model: str = "") -> None:
        super().__init__()
        self._common: dict[str, object] = {"model": model} if model else {}

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "process": record.process,
            **self._common,
        }
        ids = request_ids.get()
        if ids:
            entry["request_id"], entry["inference_id"] = ids
        entry.update((name, value) for name, value in vars(record).items() if name not in _PLAIN_FIELDS)
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


def configure_logger(
    level: int | str = logging.INFO, log_format: str = "text", stream: TextIO | None = None, model: str = ""
) -> logging.Logger:
    """Sends the log of this process, user code's too, to standard output.

    log_format: ``text`` or ``json``. model: named in each line, where the container has many.
    """
    import time

    # A percent sign in a name is no field.
    text = _TEXT_OF_MODEL.format(model=model.replace("%", "%%")) if model else _TEXT
    formatter = JsonFormatter(model) if log_format == "json" else logging.Formatter(text)
    formatter.converter = time.gmtime
    handler = logging.StreamHandler(stream or sys.stdout)
    handler.setFormatter(formatter)
    logging.basicConfig(level=level, handlers=[handler], force=True)
    return get_logger()


def get_logger(name: str = NAME) -> logging.Logger:
    return logging.getLogger(name)
