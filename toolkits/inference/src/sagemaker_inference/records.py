"""Records of a batch body: lines in, lines out, so that a job can join answers to their inputs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from sagemaker_inference import errors


def lines(text: str) -> list[str]:
    """Lines that hold anything, without their ends; only LF and CRLF end a line, as in the platform's splitter."""
    return [line for _, line in _numbered(text)]


def parse_json_lines(text: str) -> list[Any]:
    """One value for each line. Raises UndecodableError that names the line."""
    found = []
    for number, line in _numbered(text):
        try:
            found.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            raise errors.UndecodableError(f"Line {number} is no JSON: {error}.") from error
    return found


def join(encoded: Iterable[str]) -> str:
    """One line for each record, and no line end after the last: the platform adds its own."""
    return "\n".join(encoded)


def text(body: str | bytes | bytearray | memoryview, charset: str = "utf-8") -> str:
    """A body as text. Raises UndecodableError (400), or UnsupportedFormatError (415) for an unknown charset."""
    if isinstance(body, str):
        return body
    try:
        return str(body, charset)
    except LookupError as error:
        raise errors.UnsupportedFormatError(f"charset={charset}") from error
    except UnicodeDecodeError as error:
        raise errors.UndecodableError(
            f"The body is no {charset} text: byte {error.start} is {error.object[error.start]:#04x}."
        ) from error
    except ValueError as error:
        raise errors.UndecodableError(f"The body is no {charset} text: {error}.") from error


def _numbered(text: str) -> list[tuple[int, str]]:
    numbered = ((number, line.strip("\r")) for number, line in enumerate(text.split("\n"), 1))
    return [(number, line) for number, line in numbered if line.strip()]
