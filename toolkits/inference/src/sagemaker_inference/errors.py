"""Errors that carry the status of the answer; any other error in user code is a 500."""

from __future__ import annotations

import json
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any


class BaseInferenceToolkitError(Exception):
    """Raised by user code to choose the status and the text of the answer.

    phrase is kept for code that reads it; the answer's status line always has the status's own phrase.
    """

    def __init__(self, status_code: int, message: str, phrase: str) -> None:
        super().__init__(status_code, message, phrase)
        self.status_code = status_code
        self.message = message
        self.phrase = phrase

    def __str__(self) -> str:
        return str(self.message)


class GenericInferenceToolkitError(BaseInferenceToolkitError):
    """The same, where the message serves as the phrase."""

    def __init__(self, status_code: int, message: str | None = None, phrase: str | None = None) -> None:
        message = message or "Invalid Request"
        super().__init__(status_code, message, phrase or message)


class UnsupportedFormatError(GenericInferenceToolkitError):
    """There is no decoder for a content type: 415. Raised while an answer is made, it means 406."""

    def __init__(self, content_type: str | None, supported: Iterable[str] = ()) -> None:
        self.content_type = content_type
        self.supported = tuple(supported)
        super().__init__(self.default_status, _unsupported(self.subject, content_type, self.supported))
        # What it is made of again where it comes out of another process.
        self.args = (content_type, self.supported)

    default_status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE.value
    subject = "Content type"


class NotAcceptableError(UnsupportedFormatError):
    """No type that the client accepts can be made: 406."""

    default_status = HTTPStatus.NOT_ACCEPTABLE.value
    subject = "Accept"


class UndecodableError(GenericInferenceToolkitError, ValueError):
    """A body is not what its content type says: 400 with the place of the fault."""

    def __init__(self, message: str) -> None:
        super().__init__(HTTPStatus.BAD_REQUEST.value, message)
        self.args = (message,)


def _unsupported(subject: str, content_type: str | None, supported: tuple[str, ...]) -> str:
    text = f"{subject} {content_type!r} is not supported"
    return f"{text}; supported: {', '.join(supported)}." if supported else f"{text}."


def status_of(error: BaseException, *, answering: bool = False, multi_model: bool = False) -> int:
    """The status that an error means; answering: it came out of the function that makes the answer."""
    if isinstance(error, UnsupportedFormatError):
        return HTTPStatus.NOT_ACCEPTABLE.value if answering else error.status_code
    if is_out_of_memory(error):
        # 507 makes the platform unload another model and try again; there is none beside a single one.
        return (HTTPStatus.INSUFFICIENT_STORAGE if multi_model else HTTPStatus.INTERNAL_SERVER_ERROR).value
    code = getattr(error, "status_code" if isinstance(error, BaseInferenceToolkitError) else "error_code", None)
    if isinstance(code, str) and code.isdecimal():
        code = int(code)
    chooses = isinstance(error, BaseInferenceToolkitError) or type(error).__name__ == "PredictionException"
    if chooses and isinstance(code, int) and 200 <= code <= 599:
        return int(code)
    return HTTPStatus.INTERNAL_SERVER_ERROR.value


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory, the host's or a device's, was not enough; frameworks agree on no common class."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & {"MemoryError", "OutOfMemoryError", "ResourceExhaustedError"}:
        return True
    text = str(error) if isinstance(error, RuntimeError) or "XlaRuntimeError" in names else ""
    # The last is PyTorch's on the CPU.
    return any(said in text for said in ("out of memory", "RESOURCE_EXHAUSTED", "can't allocate memory"))


def message_of(error: BaseException) -> str:
    """The text for the client: never empty."""
    return str(error) or type(error).__name__


def body(status: int, message: str, kind: str, request_id: str, **more: Any) -> bytes:
    """The JSON body of every error; the reason stands first since the platform may cut long bodies."""
    error = {"message": message, "code": status, "type": kind, "request_id": request_id, **more}
    return json.dumps({"error": error}).encode()
