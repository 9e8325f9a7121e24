"""Small helpers that handler code imports."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sagemaker_inference import negotiation


def read_file(path: str, mode: str = "r") -> Any:
    """The content of a file: text, or bytes with mode ``rb``."""
    return Path(path).read_bytes() if "b" in mode else Path(path).read_text()


def write_file(path: str, data: str | bytes, mode: str = "w") -> None:
    """Writes text, or bytes with mode ``wb``; ``a`` appends."""
    with open(path, mode) as file:
        file.write(data)


def parse_accept(accept: str) -> list[str]:
    """The media types of an Accept header without parameters: by weight, ties in order, weight 0 left out."""
    return negotiation.preferred(accept)


def retrieve_content_type_header(request_property: Mapping[str, str]) -> str | None:
    """The Content-Type among headers, whatever the case of its name; None where it is missing."""
    for name, value in request_property.items():
        if name.lower() == "content-type":
            return value
    return None


def remove_crlf(illegal_string: str) -> str:
    """The text on one line: each CR and LF becomes a blank."""
    return illegal_string.replace("\n", " ").replace("\r", " ")
