"""The settings under the names that user code reads them by; see ``settings`` for all of them.

``base_dir``, ``model_dir`` and ``code_dir`` of this module are those of the moment they are read.
"""

from __future__ import annotations

from sagemaker_inference import parameters
from sagemaker_inference.settings import DEFAULT, Settings


class Environment:
    """The settings at the time it was made."""

    def __init__(self) -> None:
        self._settings = Settings.read()

    @property
    def module_name(self) -> str:
        return self._settings.program

    @property
    def model_server_timeout(self) -> int:
        """Seconds."""
        return int(self._settings.timeout_seconds)

    @property
    def model_server_timeout_seconds(self) -> int | None:
        """Seconds; None unless the variable with the unit in its name gave them."""
        named = self._settings.sources["timeout_seconds"] == parameters.MODEL_SERVER_TIMEOUT_SECONDS_ENV
        return int(self._settings.timeout_seconds) if named else None

    @property
    def model_server_workers(self) -> int | None:
        return self._settings.workers

    @property
    def startup_timeout(self) -> int:
        """Seconds; 600 where none is set, which this server itself does not insist on."""
        limit = self._settings.startup_timeout_seconds
        return 600 if limit is None else int(limit)

    @property
    def default_accept(self) -> str:
        return self._settings.default_accept

    @property
    def inference_http_port(self) -> str:
        return str(self._settings.bind_port)

    @property
    def management_http_port(self) -> str:
        return str(self._settings.bind_port)

    @property
    def safe_port_range(self) -> str | None:
        ports = self._settings.safe_port_range
        return f"{ports[0]}-{ports[1]}" if ports else None

    @property
    def vmargs(self) -> str:
        """Always empty: there is no Java machine."""
        return ""

    @property
    def max_request_size(self) -> int | None:
        """Bytes; None where no variable limits them."""
        return None if self._settings.sources["max_request_bytes"] == DEFAULT else self._settings.max_request_bytes


def __getattr__(name: str) -> str:
    if name in ("base_dir", "model_dir", "code_dir"):
        return str(getattr(Settings.read(), name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
