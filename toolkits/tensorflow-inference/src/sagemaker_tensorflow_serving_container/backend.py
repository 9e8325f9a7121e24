"""What answers for the models: this process, or a ``tensorflow_model_server`` beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote

from sagemaker_tensorflow_serving_container.documents import Document


class OutOfMemory(MemoryError):
    """TensorFlow could not get the memory that a request takes."""


@dataclass(frozen=True)
class Target:
    """Which model a request means, and what of it."""

    name: str
    version: int | None
    method: str = "predict"

    @property
    def path(self) -> str:
        """TensorFlow Serving's path for it."""
        version = "" if self.version is None else f"/versions/{self.version}"
        return f"/v1/models/{quote(self.name, safe='')}{version}" + (f":{self.method}" if self.method else "")


@dataclass(frozen=True)
class Answer:
    """What TensorFlow Serving answers: a status and a JSON object."""

    status: int
    document: Document

    @classmethod
    def of(cls, value: Any, status: int = 200) -> Answer:
        return cls(status, Document(value))

    @classmethod
    def error(cls, status: int, text: str) -> Answer:
        return cls.of({"error": text}, status)


class Backend(Protocol):
    grpc_port: str | None
    rest_port: int | None
    """A port of this machine on which TensorFlow Serving's paths are answered; None where nobody asked for one."""

    def post(self, target: Target, document: Document) -> Answer:
        """TensorFlow Serving's answer. Raises OutOfMemory, or the OSError of a model server that does not answer."""

    def close(self) -> None: ...


def rest_uri(port: int | None, target: Target) -> str:
    """Where a request for a target is posted."""
    return f"http://localhost:{port}{target.path}"
