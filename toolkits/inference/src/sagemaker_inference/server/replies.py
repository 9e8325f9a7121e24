"""Answers that the server gives by itself, as whole HTTP/1.1 responses. Every error is JSON with the reason first."""

from __future__ import annotations

import itertools
import os
from http import HTTPStatus

from sagemaker_inference import errors

JSON = b"application/json"
RETRY_AFTER = b"1"

_prefix = ""
_count = itertools.count(1)

_KINDS = {
    400: "BadRequest",
    404: "NotFound",
    405: "MethodNotAllowed",
    408: "RequestTimeout",
    413: "PayloadTooLarge",
    431: "RequestHeaderFieldsTooLarge",
    500: "WorkerDied",
    503: "ServiceUnavailable",
    504: "Timeout",
}


def request_id() -> str:
    """A new id: unique among the processes of all containers, and cheap to make."""
    global _prefix
    if not _prefix:
        _prefix = os.urandom(6).hex()
        os.register_at_fork(after_in_child=_forget_prefix)
    return f"{_prefix}-{next(_count):x}"


def _forget_prefix() -> None:
    global _prefix
    _prefix = ""


def error(status: int, message: str, kind: str = "", identity: str = "") -> bytes:
    """The JSON body of an error of the server's own."""
    return errors.body(status, message, kind or _KINDS.get(status, "ServerError"), identity or request_id())


def whole(
    status: int,
    message: str,
    *,
    close: bool = False,
    headers: tuple[tuple[bytes, bytes], ...] = (),
    identity: str = "",
    kind: str = "",
) -> bytes:
    """A whole error response."""
    return response(status, error(status, message, kind, identity), JSON, close=close, headers=headers)


def response(
    status: int,
    body: bytes,
    content_type: bytes = b"",
    *,
    close: bool = False,
    headers: tuple[tuple[bytes, bytes], ...] = (),
) -> bytes:
    """A whole response."""
    lines = [b"HTTP/1.1 %d %s" % (status, phrase(status))]
    if content_type:
        lines.append(b"content-type: " + content_type)
    lines.append(b"content-length: %d" % len(body))
    lines += [name + b": " + value for name, value in headers]
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        lines.append(b"retry-after: " + RETRY_AFTER)
    if close:
        lines.append(b"connection: close")
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def phrase(status: int) -> bytes:
    try:
        return HTTPStatus(status).phrase.encode()
    except ValueError:
        return b""


def too_large(size: int, limit: int, more: bool = False) -> str:
    """The message of a 413, with both sizes."""
    return (
        f"The request's body is {'more than ' if more else ''}{size} bytes, and the limit is {limit} bytes; "
        "SAGEMAKER_MAX_PAYLOAD_IN_MB raises it."
    )


def worker_died(how: str) -> str:
    return f"The worker died ({how}) while it handled this request."


def took_too_long(limit: float) -> str:
    return f"The request took longer than {limit:g} s, and was ended; SAGEMAKER_MODEL_SERVER_TIMEOUT raises the limit."
