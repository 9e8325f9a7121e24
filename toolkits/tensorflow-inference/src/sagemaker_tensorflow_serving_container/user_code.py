"""The user's ``code/inference.py``: which functions it has, and what they are given.

Rules tf-code-*, tf-context-*. ``handler(data, context)`` alone, else ``input_handler(data, context)`` together with
``output_handler(response, context)``.
"""

from __future__ import annotations

import inspect
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import ModuleType
from typing import TYPE_CHECKING, Any

from sagemaker_inference import functions

from sagemaker_tensorflow_serving_container.documents import Document

if TYPE_CHECKING:
    from sagemaker_inference.context import RequestProcessor

    from sagemaker_tensorflow_serving_container.backend import Answer

_NAMES = ("handler", "input_handler", "output_handler")
# Its functions are those of the other frameworks, which are never called here.
_OTHERS = tuple(functions.ARGUMENTS)


@dataclass(frozen=True)
class UserCode:
    """The functions in use: ``whole``, or both of the others."""

    whole: Callable[..., Any] | None
    before: Callable[..., Any] | None
    after: Callable[..., Any] | None

    @property
    def asynchronous(self) -> bool:
        return any(
            inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
            for function in (self.whole, self.before, self.after)
        )

    def describe(self) -> str:
        names = ("handler",) if self.whole else ("input_handler", "output_handler")
        return f"User functions: {', '.join(names)}."


def find(module: ModuleType | None) -> UserCode | None:
    """The functions of a module; None without one.

    Raises NotImplementedError for a module without them, TypeError for one that cannot be called with its arguments.
    """
    if module is None:
        return None
    found = {name: getattr(module, name) for name in _NAMES if hasattr(module, name)}
    for name, function in found.items():
        _check(name, function)
    whole, before, after = (found.get(name) for name in _NAMES)
    if whole is None and (before is None or after is None):
        others = [name for name in _OTHERS if hasattr(module, name)]
        raise NotImplementedError(
            f"{module.__file__} has {', '.join(found) or 'none of the functions that are called'}: give it "
            "handler(data, context), or both input_handler(data, context) and output_handler(response, context)."
            + (f" {', '.join(others)}: no such function is called for TensorFlow models." if others else "")
        )
    return UserCode(whole, None if whole else before, None if whole else after)


def _check(name: str, function: Any) -> None:
    first = "response" if name == "output_handler" else "data"
    try:
        inspect.signature(function).bind(None, None)
    except TypeError as error:
        raise TypeError(f"{name} must be a function of ({first}, context): {error}.") from None


class Context:
    """What a function learns about a request, by the names of the reference, and ``headers`` with everything else.

    model_version: as the request gives it; None for the newest. grpc_port: a text.
    """

    def __init__(self, *, grpc_port: str | None, processor: RequestProcessor, **fields: Any) -> None:
        self.model_name: str = fields["model_name"]
        self.model_version: str | None = fields["model_version"]
        self.method: str = fields["method"]
        self.rest_uri: str = fields["rest_uri"]
        self.custom_attributes: str | None = fields["custom_attributes"]
        self.request_content_type: str = fields["request_content_type"]
        self.accept_header: str = fields["accept_header"]
        self.content_length: int = fields["content_length"]
        self.timeout: float = fields["timeout"]
        self.headers: Mapping[str, str] = fields["headers"]
        self.request_id: str = fields["request_id"]
        self._grpc_port = grpc_port
        self._processor = processor

    @property
    def grpc_port(self) -> str:
        """The model server's port. Raises RuntimeError where the model is served in this process."""
        if self._grpc_port is None:
            raise RuntimeError(
                "There is no gRPC port: the model is served without tensorflow_model_server. Post to context.rest_uri, "
                "or use an image that has that program."
            )
        return self._grpc_port

    @property
    def channel(self) -> Any:
        """A gRPC channel to the model server, shared by all requests. Raises RuntimeError, ImportError."""
        return _channel(self.grpc_port)

    def set_response_header(self, name: str, value: str) -> None:
        self._processor.add_response_property(name, value)

    def set_response_status(self, code: int) -> None:
        self._processor.report_status(code)

    def __repr__(self) -> str:
        shown = {name: value for name, value in vars(self).items() if not name.startswith("_") and name != "headers"}
        return f"Context({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


_channels: dict[str, Any] = {}


def _channel(port: str) -> Any:
    if port not in _channels:
        import grpc

        _channels[port] = grpc.insecure_channel(f"127.0.0.1:{port}")
    return _channels[port]


class Response:
    """The model's answer, with the names that ``requests`` gives to such things."""

    encoding = "utf-8"

    def __init__(self, answer: Answer, url: str) -> None:
        self.status_code = answer.status
        self.url = url
        self.headers = {"Content-Type": "application/json"}
        self._document = answer.document

    @property
    def content(self) -> bytes:
        return self._document.data

    @property
    def text(self) -> str:
        return self.content.decode()

    @property
    def ok(self) -> bool:
        return self.status_code < 400

    @property
    def reason(self) -> str:
        return next((status.phrase for status in HTTPStatus if status == self.status_code), "Other")

    def json(self, **options: Any) -> Any:
        return json.loads(self.content, **options)

    def raise_for_status(self) -> None:
        """Raises RuntimeError for an answer that is an error."""
        if not self.ok:
            raise RuntimeError(f"{self.status_code} {self.reason}: {self.text}")


def stream(body: bytes) -> io.BytesIO:
    """The request's body, to be read like a file."""
    return io.BytesIO(body)


def document(result: Any) -> Document:
    """What ``input_handler`` returned, for the model. Raises TypeError for what is no body."""
    read = getattr(result, "read", None)
    if callable(read):
        result = read()
    if isinstance(result, str):
        return Document(data=result.encode())
    if isinstance(result, (bytes, bytearray, memoryview)):
        return Document(data=bytes(result))
    raise TypeError(f"input_handler must return a text or bytes to post to the model, not {type(result).__name__}.")
