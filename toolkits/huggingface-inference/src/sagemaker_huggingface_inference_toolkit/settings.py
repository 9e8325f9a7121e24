"""The variables that are Hugging Face's own: value, source and faults. The server's are read by the base toolkit."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sagemaker_inference.settings import DEFAULT, SettingsError

from sagemaker_huggingface_inference_toolkit import tasks

T = TypeVar("T")

TASK = "HF_TASK"
MODEL_ID = "HF_MODEL_ID"
REVISION = "HF_MODEL_REVISION"
TRUST_REMOTE_CODE = "HF_TRUST_REMOTE_CODE"
DEVICE_MAP = "HF_DEVICE_MAP"
BATCH_SIZE = "HF_OPTIMUM_BATCH_SIZE"
SEQUENCE_LENGTH = "HF_OPTIMUM_SEQUENCE_LENGTH"
#: In the order in which they win.
TOKENS = ("HF_API_TOKEN", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")

_TRUE = ("y", "yes", "t", "true", "on", "1")
_FALSE = ("n", "no", "f", "false", "off", "0")
_DEVICE_MAPS = ("auto", "balanced", "balanced_low_0", "sequential")
# As the hub names repositories: one or two parts, each of letters, digits and inner . - _
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?")


@dataclass(frozen=True)
class HuggingFaceSettings:
    """What one container serves with, beside the server's own settings."""

    task: str | None
    """HF_TASK by its one name; None: told from the model."""
    model_id: str | None
    """A repository of the hub, or the path of a folder in the container."""
    revision: str | None
    token: str | None = field(repr=False)
    trust_remote_code: bool
    device_map: str | dict[str, Any] | None
    """For accelerate; None: the whole model on the worker's device."""
    offline: bool
    optimum_batch_size: int
    optimum_sequence_length: int | None
    sources: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, environ: Mapping[str, str] | None = None) -> HuggingFaceSettings:
        """Settings of an environment. Raises SettingsError that names every wrong variable."""
        return _Reader(os.environ if environ is None else environ).settings()

    @property
    def local_folder(self) -> str | None:
        """HF_MODEL_ID where it is a folder of the container."""
        return self.model_id if self.model_id and self.model_id.startswith("/") else None

    @property
    def repository(self) -> str | None:
        """HF_MODEL_ID where it is a repository of the hub."""
        return self.model_id if self.model_id and not self.model_id.startswith("/") else None

    def describe(self) -> list[str]:
        """One line for each value, with its source; the token masked."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "sources"}
        if self.token:
            values["token"] = "***"
        return [
            f"{name} = {'none' if value is None else value} ({self.sources.get(name, DEFAULT)})"
            for name, value in values.items()
        ]


class _Reader:
    def __init__(self, environ: Mapping[str, str]) -> None:
        # An empty variable is an unset one: the SDK writes "" for what the user left out.
        self._environ = {name: value.strip() for name, value in environ.items() if value.strip()}
        self._sources: dict[str, str] = {}
        self._faults: list[str] = []

    def settings(self) -> HuggingFaceSettings:
        found = HuggingFaceSettings(
            task=self._value("task", tasks.canonical, None, TASK),
            model_id=self._value("model_id", _model_id, None, MODEL_ID),
            revision=self._value("revision", str, None, REVISION),
            token=self._value("token", str, None, *TOKENS),
            trust_remote_code=self._value("trust_remote_code", strtobool, False, TRUST_REMOTE_CODE),
            device_map=self._value("device_map", _device_map, None, DEVICE_MAP),
            offline=any(self._environ.get(name, "").lower() in _TRUE for name in OFFLINE),
            optimum_batch_size=self._value("optimum_batch_size", _positive, 1, BATCH_SIZE),
            optimum_sequence_length=self._value("optimum_sequence_length", _positive, None, SEQUENCE_LENGTH),
            sources=self._sources,
        )
        if found.offline:
            self._sources["offline"] = next(name for name in OFFLINE if self._environ.get(name, "").lower() in _TRUE)
        if found.revision and not found.repository and MODEL_ID not in "".join(self._faults):
            self._faults.append(f"{REVISION}={found.revision} needs {MODEL_ID} beside it, a repository of the hub.")
        if self._faults:
            raise SettingsError("\n".join(self._faults))
        return found

    def _value(self, name: str, parse: Callable[[str], T], default: T | None, *variables: str) -> Any:
        for variable in variables:
            if variable not in self._environ:
                continue
            self._sources[name] = variable
            try:
                return parse(self._environ[variable])
            except ValueError as error:
                self._faults.append(f"{variable}={self._environ[variable]}: {error}.")
                return default
        return default


def strtobool(text: str) -> bool:
    """True or False of the words that HF_TRUST_REMOTE_CODE takes, in any case. Raises ValueError."""
    word = text.strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise ValueError(f"use one of {', '.join((*_TRUE, *_FALSE))}")


def _model_id(text: str) -> str:
    if text.startswith("/"):
        if os.path.isdir(text):
            return text
        raise ValueError("there is no such folder in the container")
    if "://" in text:
        raise ValueError("use the name of a repository, for example org/name; a model in S3 is given as ModelDataUrl")
    if not _REPOSITORY.fullmatch(text) or ".." in text or "--" in text:
        raise ValueError("use the name of a repository of the hub, for example org/name, or the path of a folder")
    return text


def _positive(text: str) -> int:
    if re.fullmatch(r"[0-9]{1,9}", text) and int(text):
        return int(text)
    raise ValueError("use a whole number above 0")


def _device_map(text: str) -> str | dict[str, Any]:
    if text in _DEVICE_MAPS or re.fullmatch(r"cpu|cuda(:[0-9]+)?", text):
        return text
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if isinstance(value, dict) and value:
        return value
    raise ValueError(f"use {', '.join(_DEVICE_MAPS)}, a device, or a JSON object of module names and devices")
