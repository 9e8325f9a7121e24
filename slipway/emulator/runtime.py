"""The SageMaker Runtime API on loopback, over an endpoint of this machine.

boto3 and the SageMaker SDK reach it with `endpoint_url`: `invoke_endpoint`, `invoke_endpoint_with_response_stream` and,
where the endpoint has a queue, `invoke_endpoint_async`.
The container's own paths (/ping, /invocations) are passed through, for curl.

Source of the rules: the API reference of SageMaker Runtime; the event stream's encoding as botocore reads it.
"""

from __future__ import annotations

import binascii
import contextlib
import json
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from slipway.emulator.exchange import Answer, BrokenStream, Request
from slipway.emulator.hosting import MB, Serving
from slipway.emulator.multi_model import MultiModel
from slipway.errors import InputError, SlipwayError

INVOCATION_LIMIT = 60.0
"""Seconds in which a container must answer a real-time request."""

_PATH = re.compile(r"/endpoints/(?P<name>[^/]+)/(?P<call>invocations|invocations-response-stream|async-invocations)")
_FROM_CLIENT = (
    "accept",
    "content-type",
    "x-amzn-sagemaker-custom-attributes",
    "x-amzn-sagemaker-enable-explanations",
    "x-amzn-sagemaker-inference-component",
    "x-amzn-sagemaker-inference-id",
    "x-amzn-sagemaker-session-id",
    "x-amzn-sagemaker-target-container-hostname",
    "x-amzn-sagemaker-target-variant",
)
_STREAMED_ACCEPT = "x-amzn-sagemaker-accept"
"""What clients of response streaming call their Accept."""
_FROM_CONTAINER = (
    "content-type",
    "x-amzn-sagemaker-custom-attributes",
    "x-amzn-sagemaker-new-session-id",
    "x-amzn-sagemaker-closed-session-id",
)


@dataclass(frozen=True)
class Limits:
    """What a kind of endpoint takes: bytes each way, seconds for an answer."""

    body: int = 25 * MB
    seconds: float = INVOCATION_LIMIT


SERVERLESS = Limits(body=4 * MB)


class ModelError(Exception):
    """The container's answer was no success, or there was none: what a client sees as ModelError (HTTP 424)."""

    def __init__(self, status: int, message: str, log: str) -> None:
        super().__init__(message)
        self.status, self.message, self.log = status, message, log


@dataclass(frozen=True)
class Accepted:
    """The answer to an asynchronous request: where its result will lie, or why there is none. Both are s3://."""

    inference_id: str
    output: str
    failure: str


Take = Callable[[Mapping[str, str], bytes], Accepted]
"""Takes the headers (by lower-case name) and the body of an asynchronous request. Raises InputError."""


@dataclass(frozen=True)
class Endpoint:
    """An endpoint by its name: one container, a pipeline of several, or one of many models."""

    name: str
    containers: tuple[Serving, ...]
    models: MultiModel | None = None
    limits: Limits = Limits()

    def invoke(self, body: bytes, headers: Mapping[str, str], target: str = "") -> Answer:
        """One request through the endpoint. `headers` by lower-case name.

        Raises InputError for what the service itself refuses (a ValidationError there), ModelError for the container's
        failures.
        """
        self._check_size(body)
        if bool(target) != (self.models is not None):
            what = "a multi-model endpoint needs TargetModel" if self.models else "TargetModel without a multi-model"
            raise InputError(what)
        last = self.containers[-1]
        answer = self._whole(last, self._for_the_last(body, headers), target)
        if len(answer.body) > self.limits.body:
            raise ModelError(answer.status, f"the answer has {len(answer.body):,} bytes", str(last.log))
        kept = {name: value for name, value in answer.headers.items() if name in _FROM_CONTAINER}
        return replace(answer, headers=kept)

    @contextlib.contextmanager
    def stream(self, body: bytes, headers: Mapping[str, str]) -> Iterator[tuple[Answer, Iterator[bytes]]]:
        """The same, with the last container's answer as it comes: its head, and its parts, which raise BrokenStream."""
        self._check_size(body)
        if self.models is not None:
            raise InputError(
                "response streaming does not reach a multi-model endpoint: the call has no TargetModel",
                fix="use invoke_endpoint",
            )
        last = self.containers[-1]
        request = self._for_the_last(body, headers)
        with contextlib.ExitStack() as stack:
            try:
                head, parts = stack.enter_context(last.stream(request))
                if not _is_success(head):
                    raise ModelError(head.status, b"".join(parts).decode("utf-8", "replace"), str(last.log))
            except SlipwayError as error:
                raise ModelError(0, error.message, str(last.log)) from None
            except BrokenStream as error:
                raise ModelError(head.status, str(error), str(last.log)) from None
            yield head, parts

    def _check_size(self, body: bytes) -> None:
        if len(body) > self.limits.body:
            raise InputError(f"the body has {len(body):,} bytes; this endpoint takes {self.limits.body:,}")

    def _for_the_last(self, body: bytes, headers: Mapping[str, str]) -> Request:
        """What the last container is asked, when those before it have answered."""
        request = Request("POST", "/invocations", body, _forwarded(headers), self.limits.seconds)
        for container in self.containers[:-1]:
            answer = self._whole(container, request)
            # The answer of one container is what the next is asked, its type too.
            sent = {**(request.headers or {}), "content-type": answer.content_type}
            request = replace(request, body=answer.body, headers=sent)
        return request

    def _whole(self, container: Serving, request: Request, target: str = "") -> Answer:
        try:
            answer = self.models.invoke(target, request) if self.models else container.call(request)
        except SlipwayError as error:
            raise ModelError(0, error.message, str(container.log)) from None
        if not _is_success(answer):
            raise ModelError(answer.status, answer.body.decode("utf-8", "replace"), str(container.log))
        return answer


def _is_success(answer: Answer) -> bool:
    return 200 <= answer.status < 300


class RuntimeServer(ThreadingHTTPServer):
    """The API, on loopback alone. `port` 0: any free one. `take`: what takes asynchronous requests, if any are."""

    daemon_threads = True

    def __init__(self, endpoint: Endpoint, port: int = 0, take: Take | None = None) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.endpoint, self.take = endpoint, take

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: RuntimeServer

    def do_GET(self) -> None:
        self._pass_through()

    def do_DELETE(self) -> None:
        self._pass_through()

    def do_POST(self) -> None:
        found = _PATH.fullmatch(self.path)
        if found is None:
            self._pass_through()
            return
        body = self._body()  # in any case, or its rest would be taken for the next request
        try:
            if found["name"] != self.server.endpoint.name:
                raise InputError(f"Endpoint {found['name']} not found; this is {self.server.endpoint.name}")
            if found["call"] == "invocations":
                self._invoke(body)
            elif found["call"] == "async-invocations":
                self._enqueue(body)
            else:
                self._stream(body)
        except InputError as error:
            self._fault(400, "ValidationError", {"Message": error.message})
        except ModelError as error:
            self._fault(424, "ModelError", _told(error))

    def _invoke(self, body: bytes) -> None:
        headers = self._headers()
        answer = self.server.endpoint.invoke(body, headers, headers.get("x-amzn-sagemaker-target-model", ""))
        kept = {"x-amzn-invoked-production-variant": "AllTraffic", **answer.headers}
        self._answer(200, kept, answer.body)

    def _enqueue(self, body: bytes) -> None:
        if self.server.take is None:
            raise InputError("this endpoint takes no asynchronous requests")
        accepted = self.server.take(self._headers(), body)
        headers = {
            "Content-Type": "application/json",
            "X-Amzn-SageMaker-OutputLocation": accepted.output,
            "X-Amzn-SageMaker-FailureLocation": accepted.failure,
        }
        self._answer(202, headers, json.dumps({"InferenceId": accepted.inference_id}).encode())

    def _stream(self, body: bytes) -> None:
        with self.server.endpoint.stream(body, self._headers()) as (head, parts):
            self.send_response(200)
            self.send_header("Content-Type", "application/vnd.amazon.eventstream")
            self.send_header("X-Amzn-SageMaker-Content-Type", head.content_type)
            self.send_header("x-amzn-Invoked-Production-Variant", "AllTraffic")
            if attributes := head.headers.get("x-amzn-sagemaker-custom-attributes"):
                self.send_header("X-Amzn-SageMaker-Custom-Attributes", attributes)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            try:
                for part in parts:
                    self._chunk(event({":event-type": "PayloadPart", **_EVENT}, part))
            except BrokenStream as error:
                told = json.dumps({"Message": str(error), "ErrorCode": "StreamBroken"}).encode()
                self._chunk(event({":exception-type": "ModelStreamError", **_EXCEPTION}, told))
            self._chunk(b"")

    def _pass_through(self) -> None:
        """The container's own surface, untouched."""
        container = self.server.endpoint.containers[0]
        sent = _forwarded(self._headers())
        try:
            answer = container.call(
                Request(self.command, self.path, self._body(), sent, self.server.endpoint.limits.seconds)
            )
        except SlipwayError as error:
            self._fault(502, "ServiceUnavailable", {"Message": error.message})
            return
        kept = {
            name: value
            for name, value in answer.headers.items()
            if name not in ("connection", "content-length", "date", "server", "transfer-encoding")
        }
        self._answer(answer.status, kept, answer.body)

    def _headers(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.headers.items()}

    def _body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            return b"".join(iter(self._read_chunk, b""))
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _read_chunk(self) -> bytes:
        size = int(self.rfile.readline().split(b";")[0], 16)
        data = self.rfile.read(size)
        self.rfile.readline()
        return data

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _answer(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _fault(self, status: int, kind: str, told: Mapping[str, Any]) -> None:
        headers = {"Content-Type": "application/json", "x-amzn-ErrorType": kind}
        self._answer(status, headers, json.dumps(told).encode())

    def log_message(self, format: str, *args: Any) -> None:
        """The container's log says what was asked."""


def _forwarded(headers: Mapping[str, str]) -> dict[str, str]:
    """The client's headers that the platform hands on."""
    found = {name: value for name, value in headers.items() if name in _FROM_CLIENT}
    if _STREAMED_ACCEPT in headers:
        found["accept"] = headers[_STREAMED_ACCEPT]
    return found


def _told(error: ModelError) -> dict[str, Any]:
    how = f"Received server error ({error.status})" if error.status else "Received no answer"
    return {
        "Message": f'{how} from primary with message "{error.message}". See {error.log}.',
        "OriginalStatusCode": error.status,
        "OriginalMessage": error.message,
        "LogStreamArn": error.log,
    }


_EVENT = {":message-type": "event", ":content-type": "application/octet-stream"}
_EXCEPTION = {":message-type": "exception", ":content-type": "application/json"}


def event(headers: Mapping[str, str], payload: bytes) -> bytes:
    """One message of the event stream: lengths, CRC, headers as strings (type 7), payload, CRC."""
    packed = b"".join(
        struct.pack(">B", len(name)) + name.encode() + struct.pack(">BH", 7, len(value)) + value.encode()
        for name, value in headers.items()
    )
    prelude = struct.pack(">II", len(packed) + len(payload) + 16, len(packed))
    head = prelude + struct.pack(">I", binascii.crc32(prelude))
    body = head + packed + payload
    return body + struct.pack(">I", binascii.crc32(body))
