"""What TensorFlow's own variables say, read in one place. Everything else is sagemaker_inference.settings'.

Rules tf-var-*. Variables of the reference's proxies (nginx, gunicorn) that still mean something are turned into the
base toolkit's by ``inherited``; the others are accepted and said to be without effect.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sagemaker_inference import values

ENABLE_BATCHING = "SAGEMAKER_TFS_ENABLE_BATCHING"
MAX_BATCH_SIZE = "SAGEMAKER_TFS_MAX_BATCH_SIZE"
BATCH_TIMEOUT_MICROS = "SAGEMAKER_TFS_BATCH_TIMEOUT_MICROS"
NUM_BATCH_THREADS = "SAGEMAKER_TFS_NUM_BATCH_THREADS"
MAX_ENQUEUED_BATCHES = "SAGEMAKER_TFS_MAX_ENQUEUED_BATCHES"
INSTANCE_COUNT = "SAGEMAKER_TFS_INSTANCE_COUNT"
GPU_MARGIN = "SAGEMAKER_TFS_FRACTIONAL_GPU_MEM_MARGIN"
INTER_OP = "SAGEMAKER_TFS_INTER_OP_PARALLELISM"
INTRA_OP = "SAGEMAKER_TFS_INTRA_OP_PARALLELISM"
WAIT_TIME = "SAGEMAKER_TFS_WAIT_TIME_SECONDS"
DEFAULT_MODEL = "SAGEMAKER_TFS_DEFAULT_MODEL_NAME"
BUCKET = "SAGEMAKER_MULTI_MODEL_UNIVERSAL_BUCKET"
PREFIX = "SAGEMAKER_MULTI_MODEL_UNIVERSAL_PREFIX"
GUNICORN_WORKERS = "SAGEMAKER_GUNICORN_WORKERS"
GUNICORN_TIMEOUT = "SAGEMAKER_GUNICORN_TIMEOUT_SECONDS"
GUNICORN_LOGLEVEL = "SAGEMAKER_GUNICORN_LOGLEVEL"
NGINX_TIMEOUT = "SAGEMAKER_NGINX_PROXY_READ_TIMEOUT_SECONDS"
WITHOUT_EFFECT = (
    "SAGEMAKER_GUNICORN_THREADS",
    "SAGEMAKER_GUNICORN_WORKER_CLASS",
    "SAGEMAKER_TFS_NGINX_LOGLEVEL",
)

# The base toolkit's.
WORKERS = "SAGEMAKER_MODEL_SERVER_WORKERS"
TIMEOUTS = ("SAGEMAKER_MODEL_SERVER_TIMEOUT_SECONDS", "SAGEMAKER_MODEL_SERVER_TIMEOUT")
TIMEOUT = TIMEOUTS[0]
STARTUP_TIMEOUT = "SAGEMAKER_STARTUP_TIMEOUT"
LOG_LEVEL = "SAGEMAKER_CONTAINER_LOG_LEVEL"
BATCH_SIZE = "SAGEMAKER_TS_BATCH_SIZE"
BATCH_DELAY = "SAGEMAKER_TS_MAX_BATCH_DELAY"
BATCH_TRANSFORM = "SAGEMAKER_BATCH"


class SettingsError(ValueError):
    """Variables have values that cannot be used. The text names each of them, its value and what to give instead."""


@dataclass(frozen=True)
class Settings:
    """TensorFlow's variables. ``None`` where the default depends on the machine or on the base toolkit."""

    batching: bool
    max_batch_size: int
    batch_timeout_micros: int
    batch_threads: int
    max_enqueued_batches: int
    instances: int | None
    gpu_margin: float
    inter_op: int
    intra_op: int
    wait_seconds: float
    default_model: str | None
    bucket: str | None
    prefix: str
    gunicorn_workers: int | None
    timeout_seconds: float | None
    log_level: str | None

    @classmethod
    def read(cls, environ: Mapping[str, str], cpus: int | None = None) -> Settings:
        """The settings of an environment. Raises one SettingsError with every fault."""
        reader = _Reader(environ)
        cpus = cpus or usable_cpus()
        transform = environ.get(BATCH_TRANSFORM, "").strip().lower() == "true"
        timeouts = [reader.read(name, None, _SECONDS) for name in (GUNICORN_TIMEOUT, NGINX_TIMEOUT)]
        settings = cls(
            batching=reader.read(ENABLE_BATCHING, False, _true_or_false),
            max_batch_size=reader.read(MAX_BATCH_SIZE, 8, _COUNT),
            batch_timeout_micros=reader.read(BATCH_TIMEOUT_MICROS, 1000, _WHOLE),
            batch_threads=reader.read(NUM_BATCH_THREADS, cpus, _COUNT),
            max_enqueued_batches=reader.read(MAX_ENQUEUED_BATCHES, 100_000_000 if transform else cpus, _COUNT),
            instances=reader.read(INSTANCE_COUNT, None, values.integer(1, 1024)),
            gpu_margin=reader.read(GPU_MARGIN, 0.2, values.number(0, 0.99, "parts of the whole")),
            inter_op=reader.read(INTER_OP, 0, _WHOLE),
            intra_op=reader.read(INTRA_OP, 0, _WHOLE),
            wait_seconds=reader.read(WAIT_TIME, 300.0, _SECONDS),
            default_model=reader.read(DEFAULT_MODEL, None, str),
            bucket=reader.read(BUCKET, None, str),
            prefix=reader.read(PREFIX, "", str),
            gunicorn_workers=reader.read(GUNICORN_WORKERS, None, values.integer(1, 1024)),
            timeout_seconds=max((given for given in timeouts if given is not None), default=None),
            log_level=reader.read(GUNICORN_LOGLEVEL, None, _log_level),
        )
        if reader.faults:
            raise SettingsError("\n".join(reader.faults))
        return settings

    def inherited(self, environ: Mapping[str, str], model_server: bool) -> dict[str, str]:
        """The base toolkit's variables that follow from TensorFlow's, without those that are set already."""
        derived: dict[str, str] = {}
        workers = self.workers(model_server)
        if workers is not None:
            derived[WORKERS] = str(workers)
        if self.timeout_seconds is not None and not any(environ.get(name) for name in TIMEOUTS):
            derived[TIMEOUT] = f"{self.timeout_seconds:g}"
        if environ.get(WAIT_TIME):
            derived[STARTUP_TIMEOUT] = f"{self.wait_seconds:g}"
        if self.log_level is not None:
            derived[LOG_LEVEL] = self.log_level
        if self.batching and not model_server:
            derived[BATCH_SIZE] = str(self.max_batch_size)
            derived[BATCH_DELAY] = str(max(1, round(self.batch_timeout_micros / 1000)))
        return {name: value for name, value in derived.items() if not environ.get(name)}

    def workers(self, model_server: bool) -> int | None:
        """How many workers are asked for: one for each instance and each process of Python code."""
        asked = [count for count in (self.instances, self.gunicorn_workers) if count is not None]
        return max(asked) if asked else (1 if model_server else None)


def notes(environ: Mapping[str, str]) -> list[str]:
    """What is set and has no effect."""
    return [f"{name} has no effect: there is no such proxy." for name in WITHOUT_EFFECT if environ.get(name)]


def usable_cpus() -> int:
    return len(os.sched_getaffinity(0))


def _true_or_false(text: str) -> bool:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    raise ValueError("use true or false")


def _log_level(text: str) -> str:
    values.log_level(text)
    return text


_SECONDS = values.number(0.001, 86400, "seconds")
_WHOLE = values.integer(0, 1 << 31)
_COUNT = values.integer(1, 1 << 31)


class _Reader:
    """Reads values and gathers what is wrong with them."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.faults: list[str] = []

    def read(self, name: str, default: Any, parse: Callable[[str], Any]) -> Any:
        text = self._environ.get(name, "").strip()
        if not text:
            return default
        try:
            return parse(text)
        except ValueError as error:
            self.faults.append(f"{name}={text}: {error}.")
            return default
