"""Why a call is not done: the status and the text of its answer."""

from __future__ import annotations

from http import HTTPStatus


class Refusal(Exception):
    """A call is refused. status: of the answer. kind: a word for programs. headers: beside the usual ones."""

    def __init__(
        self, status: HTTPStatus, kind: str, message: str, headers: tuple[tuple[bytes, bytes], ...] = ()
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message
        self.headers = headers


def bad_request(message: str) -> Refusal:
    return Refusal(HTTPStatus.BAD_REQUEST, "BadRequest", message)


def not_found(message: str) -> Refusal:
    return Refusal(HTTPStatus.NOT_FOUND, "NotFound", message)


def conflict(message: str) -> Refusal:
    return Refusal(HTTPStatus.CONFLICT, "Conflict", message)


def no_memory(message: str) -> Refusal:
    """The platform then unloads other models, and tries again."""
    return Refusal(HTTPStatus.INSUFFICIENT_STORAGE, "OutOfMemory", message)


def unavailable(message: str) -> Refusal:
    return Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "Unavailable", message, ((b"retry-after", b"1"),))


def failed(message: str, kind: str = "ModelError") -> Refusal:
    return Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, kind, message)
