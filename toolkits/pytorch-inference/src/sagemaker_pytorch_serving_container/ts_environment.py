"""The variables of TorchServe as a class that scripts import. The server itself reads them as settings."""

from __future__ import annotations

import os

from sagemaker_inference.environment import Environment
from sagemaker_inference.settings import Settings


class TorchServeEnvironment(Environment):
    """Values of the ``SAGEMAKER_TS_…`` variables, beside those of the base class. Raises SettingsError."""

    def __init__(self) -> None:
        super().__init__()
        settings = Settings.read(os.environ)
        self._batch_size = settings.batch_size
        self._max_batch_delay = settings.max_batch_delay_ms
        self._workers = settings.workers or 1
        self._response_timeout = settings.timeout_seconds

    @property
    def batch_size(self) -> int:
        """Requests that are grouped for one call."""
        return self._batch_size

    @property
    def max_batch_delay(self) -> int:
        """Milliseconds to wait for a full group."""
        return round(self._max_batch_delay)

    @property
    def min_workers(self) -> int:
        """Worker processes: the number is fixed here, so both ends of the range are equal."""
        return self._workers

    @property
    def max_workers(self) -> int:
        return self._workers

    @property
    def response_timeout(self) -> int:
        """Seconds for one request."""
        return round(self._response_timeout)
