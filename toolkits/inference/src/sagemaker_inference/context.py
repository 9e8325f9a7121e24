"""What user functions learn about the model and the request, and how they shape the answer.

The names are those of Multi Model Server and TorchServe. Here each request has a context of its own, so threads
and tasks never see each other's; a group of requests shares one, in which ``idx`` says which request is meant.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from sagemaker_inference import __version__, metrics_sink, utils
from sagemaker_inference.service import Place, Request

_NAME = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)
#: Headers that the server writes itself.
_SERVERS_OWN = frozenset(("connection", "content-length", "date", "keep-alive", "transfer-encoding", "upgrade"))


class RequestProcessor:
    """One request and the answer that is being made for it."""

    __slots__ = ("_headers", "_request", "_status")

    def __init__(self, request: Request | None) -> None:
        self._request = request
        self._status: tuple[int, str] | None = None
        self._headers: dict[str, str] | None = None

    def get_request_properties(self) -> dict[str, str]:
        """The request's headers, names in lower case."""
        return dict(self._request.headers) if self._request else {}

    def get_request_property(self, key: str) -> str | None:
        """One header, whatever the case of its name; None where it is missing."""
        return self._request.headers.get(key) if self._request else None

    def report_status(self, code: int, reason_phrase: str | None = None) -> None:
        """Sets the status of the answer. The phrase is only kept: the status line has the status's own."""
        code = int(code)
        if not 200 <= code <= 599:
            raise ValueError(f"{code} is no status of an answer: use 200 to 599.")
        self._status = code, utils.remove_crlf(reason_phrase or "")

    def get_response_status_code(self) -> int:
        return self._status[0] if self._status else 200

    def get_response_status_phrase(self) -> str:
        return self._status[1] if self._status else ""

    def add_response_property(self, key: str, value: str) -> None:
        """Sets a header of the answer. Raises ValueError for a name that is none, or is the server's own."""
        name = str(key).strip()
        if not _NAME.fullmatch(name):
            raise ValueError(f"{key!r} is no name of a header.")
        if name.lower() in _SERVERS_OWN:
            raise ValueError(f"The server itself sets the header {name}.")
        if self._headers is None:
            self._headers = {}
        self._headers[name.lower()] = utils.remove_crlf(str(value)).strip()

    def get_response_headers(self) -> dict[str, str]:
        return dict(self._headers or {})

    def get_response_header(self, key: str) -> str | None:
        return (self._headers or {}).get(key.lower())

    @property
    def request_id(self) -> str:
        return self._request.id if self._request else ""


class Context:
    """The context of the user functions."""

    __slots__ = ("_place", "_processors", "_requests")

    def __init__(self, place: Place, requests: Sequence[Request] = ()) -> None:
        self._place = place
        self._requests = requests
        self._processors: list[RequestProcessor] | None = None

    @classmethod
    def of_group(cls, contexts: Sequence[Context]) -> Context:
        """One context for requests that are handled together; what is set in it is set for each of them."""
        group = cls(contexts[0]._place)
        group._processors = [context.request_processor[0] for context in contexts]
        return group

    def single(self, idx: int) -> Context:
        """A context for one request of a group, in which its index is 0."""
        one = type(self)(self._place)
        one._processors = [self.request_processor[idx]]
        return one

    @property
    def request_processor(self) -> list[RequestProcessor]:
        """One for each request; one without a request while the model is loaded."""
        if self._processors is None:
            self._processors = [RequestProcessor(request) for request in self._requests] or [RequestProcessor(None)]
        return self._processors

    @property
    def is_used(self) -> bool:
        """Whether anything was asked of it: where not, nothing about the answer was set either."""
        return self._processors is not None

    @property
    def model_name(self) -> str:
        return self._place.model_name

    @property
    def manifest(self) -> dict[str, Any]:
        return {"model": {"modelName": self._place.model_name}}

    @property
    def system_properties(self) -> dict[str, Any]:
        place = self._place
        return {
            "model_dir": place.model_dir,
            "gpu_id": place.gpu_id,
            "batch_size": place.batch_size,
            "server_name": "Slipway",
            "server_version": __version__,
        }

    @property
    def request_ids(self) -> dict[int, str]:
        return {idx: processor.request_id for idx, processor in enumerate(self.request_processor)}

    @property
    def metrics(self) -> metrics_sink.Metrics:
        return metrics_sink.Metrics(self._place.model_name)

    def get_request_id(self, idx: int = 0) -> str:
        return self.request_processor[idx].request_id

    def get_request_header(self, idx: int, key: str) -> str | None:
        return self.request_processor[idx].get_request_property(key)

    def get_all_request_header(self, idx: int = 0) -> dict[str, str]:
        return self.request_processor[idx].get_request_properties()

    def set_response_content_type(self, idx: int, value: str) -> None:
        self.request_processor[idx].add_response_property("content-type", value)

    def get_response_content_type(self, idx: int = 0) -> str | None:
        return self.request_processor[idx].get_response_header("content-type")

    def set_response_header(self, idx: int, key: str, value: str) -> None:
        self.request_processor[idx].add_response_property(key, value)

    def get_response_headers(self, idx: int = 0) -> dict[str, str]:
        return self.request_processor[idx].get_response_headers()

    def set_response_status(self, code: int = 200, phrase: str | None = "", idx: int = 0) -> None:
        self.request_processor[idx].report_status(code, phrase)

    def get_response_status(self, idx: int = 0) -> tuple[int, str]:
        processor = self.request_processor[idx]
        return processor.get_response_status_code(), processor.get_response_status_phrase()

    def set_all_response_status(self, code: int = 200, phrase: str | None = "") -> None:
        for processor in self.request_processor:
            processor.report_status(code, phrase)
