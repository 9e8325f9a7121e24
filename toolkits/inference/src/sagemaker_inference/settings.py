"""Every variable that steers serving, read in one place: value, source and faults.

Durations are seconds and sizes bytes, whatever unit a variable of another server had; where the units differ, or a
variable has no meaning here, a note says so.
"""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sagemaker_inference import parameters, values

DEFAULT = "default"

#: What one stored answer of an asynchronous endpoint may have had as its request; no platform limit is larger.
_LARGEST_REQUEST = 1024 * values.MIB


class SettingsError(ValueError):
    """Variables with wrong values: one line each."""


@dataclass(frozen=True)
class Settings:
    """What one container serves with."""

    base_dir: str
    model_dir: str
    """The model's folder; with several models, the folder that holds theirs."""
    program: str
    """The user's module, without ``.py``; may hold slashes."""
    submit_directory: str | None
    bind_port: int
    safe_port_range: tuple[int, int] | None
    default_accept: str
    workers: int | None
    """Worker processes of each model; None: by hardware."""
    timeout_seconds: float
    """For one request, from its arrival at a worker to its first byte."""
    startup_timeout_seconds: float | None
    """For loading; None: no limit but the platform's own."""
    max_request_bytes: int | None
    queue_size: int
    multi_model: bool
    handler: str | None
    log_level: int
    log_format: str
    metrics_path: str | None
    metrics_log_seconds: float
    """Between two lines of the log that sum up what was served; 0: none."""
    batch: bool
    """Whether this is a batch transform job."""
    batch_strategy: str | None
    max_concurrent_transforms: int | None
    max_payload_mb: int | None
    batch_size: int
    """Requests that are put together for one call; 1: none."""
    max_batch_delay_ms: float
    drain_seconds: float
    max_restarts: int
    """Deaths of a loaded worker in a row that are forgiven."""
    preload: bool
    """Load once, then fork the workers."""
    sessions_enabled: bool
    sessions_expiration: int
    sessions_path: str
    debug: bool
    """Tracebacks in answers, not only in the log."""
    region: str | None
    ca_repository_arn: str | None
    sources: Mapping[str, str] = field(default_factory=dict)
    """Name of a value -> the variable that gave it, or ``default``."""
    notes: tuple[str, ...] = ()
    """What the log should say once about the variables."""

    @property
    def code_dir(self) -> str:
        return os.path.join(self.model_dir, "code")

    @classmethod
    def read(cls, environ: Mapping[str, str] | None = None) -> Settings:
        """Settings of an environment. Raises SettingsError that names every wrong variable."""
        return _Reader(os.environ if environ is None else environ).settings()

    def describe(self) -> list[str]:
        """One line for each value, with its source."""
        lines = []
        for item in dataclasses.fields(self):
            if item.name in ("sources", "notes"):
                continue
            value = getattr(self, item.name)
            if item.name == "log_level":
                value = logging.getLevelName(value)
            lines.append(f"{item.name} = {_shown(value)} ({self.sources.get(item.name, DEFAULT)})")
        return lines


@dataclass(frozen=True)
class _Variable:
    name: str
    parse: Callable[[str], Any]
    note: str = ""
    """What to say when it is used."""


@dataclass(frozen=True)
class _Field:
    """A value, the variables that may give it (the first that is set wins) and what it is otherwise."""

    default: Any
    variables: tuple[_Variable, ...]


def _field(default: Any, parse: Callable[[str], Any], *names: str | _Variable) -> _Field:
    return _Field(default, tuple(name if isinstance(name, _Variable) else _Variable(name, parse) for name in names))


_SECONDS = values.number(0.001, 86400, "seconds")
_COUNT = values.integer(1, 1024)
_IN_SECONDS = "is read as seconds; Multi Model Server took minutes"

_FIELDS: Mapping[str, _Field] = {
    "base_dir": _field("/opt/ml", values.folder, parameters.BASE_PATH_ENV),
    "program": _field("inference", values.module_name, parameters.USER_PROGRAM_ENV),
    "submit_directory": _field(None, str, "SAGEMAKER_SUBMIT_DIRECTORY"),
    "bind_port": _field(8080, values.integer(1, 65535), parameters.BIND_TO_PORT_ENV),
    "safe_port_range": _field(None, values.port_range, parameters.SAFE_PORT_RANGE_ENV),
    "default_accept": _field("application/json", values.media_type, parameters.DEFAULT_INVOCATIONS_ACCEPT_ENV),
    "workers": _field(
        None,
        _COUNT,
        parameters.MODEL_SERVER_WORKERS_ENV,
        "SAGEMAKER_NUM_MODEL_WORKERS",
        "SAGEMAKER_TS_MAX_WORKERS",
        "SAGEMAKER_TS_MIN_WORKERS",
        "MMS_DEFAULT_WORKERS_PER_MODEL",
        "TS_DEFAULT_WORKERS_PER_MODEL",
    ),
    "timeout_seconds": _field(
        60.0,
        _SECONDS,
        parameters.MODEL_SERVER_TIMEOUT_SECONDS_ENV,
        _Variable(parameters.MODEL_SERVER_TIMEOUT_ENV, _SECONDS, _IN_SECONDS),
        "SAGEMAKER_TS_RESPONSE_TIMEOUT",
        _Variable("MMS_DEFAULT_RESPONSE_TIMEOUT", _SECONDS, _IN_SECONDS),
        "TS_DEFAULT_RESPONSE_TIMEOUT",
    ),
    "startup_timeout_seconds": _field(
        None, _SECONDS, parameters.STARTUP_TIMEOUT_ENV, "MMS_DEFAULT_STARTUP_TIMEOUT", "TS_DEFAULT_STARTUP_TIMEOUT"
    ),
    "max_request_bytes": _Field(
        _LARGEST_REQUEST,
        (
            _Variable(parameters.MAX_REQUEST_SIZE, values.mebibytes),
            _Variable("MMS_MAX_REQUEST_SIZE", values.size_in_bytes, "is in bytes"),
            _Variable("TS_MAX_REQUEST_SIZE", values.size_in_bytes, "is in bytes"),
        ),
    ),
    "queue_size": _field(
        100, values.integer(1, 1_000_000), "SLIPWAY_QUEUE_SIZE", "MMS_JOB_QUEUE_SIZE", "TS_JOB_QUEUE_SIZE"
    ),
    "multi_model": _field(False, values.flag, parameters.MULTI_MODEL_ENV),
    "handler": _field(None, str, "SAGEMAKER_HANDLER"),
    "log_level": _field(logging.INFO, values.log_level, parameters.LOG_LEVEL_ENV),
    "log_format": _field("text", values.choice("text", "json"), "SLIPWAY_LOG_FORMAT"),
    "metrics_path": _field(None, values.url_path, "SLIPWAY_METRICS_PATH"),
    "metrics_log_seconds": _field(0.0, values.number(0, 86400, "seconds"), "SLIPWAY_METRICS_LOG_SECONDS"),
    "batch": _field(False, values.flag, "SAGEMAKER_BATCH"),
    "batch_strategy": _field(None, values.choice("MULTI_RECORD", "SINGLE_RECORD"), "SAGEMAKER_BATCH_STRATEGY"),
    "max_concurrent_transforms": _field(None, values.integer(0, 1024), "SAGEMAKER_MAX_CONCURRENT_TRANSFORMS"),
    "max_payload_mb": _field(None, values.integer(0, 1024 * 1024), parameters.MAX_REQUEST_SIZE),
    "batch_size": _field(1, _COUNT, "SLIPWAY_BATCH_SIZE", "SAGEMAKER_TS_BATCH_SIZE"),
    "max_batch_delay_ms": _field(
        100.0, values.number(0, 60000, "milliseconds"), "SLIPWAY_MAX_BATCH_DELAY_MS", "SAGEMAKER_TS_MAX_BATCH_DELAY"
    ),
    # The platform kills after 30 seconds; a longer drain would promise what it cannot keep.
    "drain_seconds": _field(25.0, values.number(0, 28, "seconds"), "SLIPWAY_DRAIN_SECONDS"),
    "max_restarts": _field(5, values.integer(0, 1000), "SLIPWAY_MAX_RESTARTS"),
    "preload": _field(False, values.flag, "SLIPWAY_PRELOAD"),
    "sessions_enabled": _field(False, values.flag, "SAGEMAKER_ENABLE_STATEFUL_SESSIONS"),
    "sessions_expiration": _field(1200, values.integer(1, 604800), "SAGEMAKER_SESSIONS_EXPIRATION"),
    "sessions_path": _field("/dev/shm", values.folder, "SAGEMAKER_SESSIONS_PATH"),
    "debug": _field(False, values.flag, "SLIPWAY_DEBUG"),
    "region": _field(None, str, "AWS_REGION", "SAGEMAKER_REGION", "AWS_DEFAULT_REGION"),
    "ca_repository_arn": _field(None, str, "CA_REPOSITORY_ARN"),
}

_KNOWN = frozenset(variable.name for item in _FIELDS.values() for variable in item.variables)

_WITHOUT_MEANING = {
    parameters.MODEL_SERVER_VMARGS: "this server runs without a Java machine",
    "MMS_MAX_RESPONSE_SIZE": "answers have no size limit",
    "TS_MAX_RESPONSE_SIZE": "answers have no size limit",
    "LOG_LOCATION": "the log goes to standard output",
    "METRICS_LOCATION": "metrics are served at SLIPWAY_METRICS_PATH",
}


class _Reader:
    """One reading of an environment: collects values, sources, notes and faults."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        # An empty variable is an unset one: the SDK writes "" for what the user left out.
        self._environ = {name: value.strip() for name, value in environ.items() if value.strip()}
        self._sources: dict[str, str] = {}
        self._notes: list[str] = []
        self._faults: list[str] = []

    def settings(self) -> Settings:
        found = {name: self._value(name, item) for name, item in _FIELDS.items()}
        if self._faults:
            raise SettingsError("\n".join(dict.fromkeys(self._faults)))
        found["model_dir"] = os.path.join(found["base_dir"], "models" if found["multi_model"] else "model")
        self._sources["model_dir"] = self._sources["base_dir"]
        if found["batch"] and self._sources["timeout_seconds"] == DEFAULT:
            # The job's own limit (up to an hour) is not told to the container; ours must not be the smaller one.
            found["timeout_seconds"] = 3600.0
            self._sources["timeout_seconds"] = "SAGEMAKER_BATCH"
        if found["timeout_seconds"] > 3600:
            self._notes.append(
                f"{self._sources['timeout_seconds']}={found['timeout_seconds']:g} is in seconds, "
                "and the platform waits an hour at most."
            )
        self._note_the_rest()
        return Settings(**found, sources=self._sources, notes=tuple(self._notes))

    def _value(self, name: str, item: _Field) -> Any:
        given = []
        for variable in item.variables:
            if variable.name not in self._environ:
                continue
            text = self._environ[variable.name]
            try:
                given.append((variable, variable.parse(text)))
            except ValueError as error:
                self._faults.append(f"{variable.name}={_shown(text)}: {error}.")
        if not given:
            self._sources[name] = DEFAULT
            return item.default
        winner, value = given[0]
        self._sources[name] = winner.name
        if winner.note:
            self._notes.append(f"{winner.name}={self._environ[winner.name]} {winner.note}.")
        for other, different in given[1:]:
            if different != value:
                self._notes.append(
                    f"{other.name}={_shown(self._environ[other.name])} is not used: {winner.name} says {_shown(value)}."
                )
        return value

    def _note_the_rest(self) -> None:
        for name in sorted(self._environ):
            if name in _KNOWN:
                continue
            if name in _WITHOUT_MEANING:
                self._notes.append(f"{name} is not used: {_WITHOUT_MEANING[name]}.")
            elif name.startswith(("MMS_", "TS_")):
                self._notes.append(f"{name} is not used: it sets up a server that this container does not have.")
            elif name.startswith(("SAGEMAKER_", "SLIPWAY_")):
                near = _nearest(name)
                if near:
                    self._notes.append(f"{name} is not read here; {near} is.")


def _nearest(name: str) -> str | None:
    """The variable that a name is nearly."""
    import difflib

    return next(iter(difflib.get_close_matches(name, _KNOWN, 1, 0.9)), None)


def _shown(value: object) -> str:
    from sagemaker_inference import masking

    return "none" if value is None else masking.text(str(value))
