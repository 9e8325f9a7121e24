"""Errors of Multi Model Server's services."""

from __future__ import annotations


class PredictionException(Exception):
    """Raised by user code to choose the text and the status of the answer."""

    def __init__(self, message: str, error_code: int = 500) -> None:
        super().__init__(message, error_code)
        self.message = message
        self.error_code = error_code

    def __str__(self) -> str:
        return str(self.message)
