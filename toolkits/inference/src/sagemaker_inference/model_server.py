"""Starts the server: the port first, then everything that takes time."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Sequence
from typing import NoReturn

from sagemaker_inference import overlay, requirements
from sagemaker_inference.logging import configure_logger
from sagemaker_inference.server import exits
from sagemaker_inference.server.pool import Plan, Pool
from sagemaker_inference.server.supervisor import Supervisor
from sagemaker_inference.settings import Settings, SettingsError

DEFAULT_HANDLER_SERVICE = "sagemaker_inference.default_handler_service"
_BACKLOG = 2048

logger = logging.getLogger("sagemaker_inference.server")


def start_model_server(
    handler_service: str = DEFAULT_HANDLER_SERVICE, prepare: Sequence[Sequence[str]] = ()
) -> NoReturn:
    """Serves until the container is stopped, then ends the process; never returns.

    handler_service: a module name, or the path of a file. prepare: commands that must end well before the model is
    loaded, such as its download; the last line that one writes is the reason when it fails. Unused with many models.
    The process ends with a status of ``server.exits``.
    """
    # Process 1 has no default for it, and the server's own handler is not there yet.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(exits.STOPPED))
    try:
        settings = Settings.read()
    except SettingsError as error:
        sys.exit(_say(exits.SETTINGS, str(error)))
    if settings.multi_model:
        from sagemaker_inference import multi_model

        configure_logger(settings.log_level, settings.log_format)
        _tell(settings)
        sys.exit(multi_model.serve(settings, handler_service))
    try:
        listener = listen(settings.bind_port)
    except OSError as error:
        sys.exit(_say(exits.PORT, f"Port {settings.bind_port} cannot be listened on: {error.strerror}."))
    configure_logger(settings.log_level, settings.log_format)
    _tell(settings)
    plan = Plan(settings, "model", settings.model_dir, settings.handler or handler_service)
    with tempfile.TemporaryDirectory(prefix="serve-", ignore_cleanup_errors=True) as folder:
        status, last_words = run(plan, listener, os.path.join(folder, "packages"), prepare)
    sys.exit(_say(status, last_words))


def listen(port: int) -> socket.socket:
    """The port, open on all addresses. Raises OSError."""
    listener = socket.create_server(("0.0.0.0", port), backlog=_BACKLOG)
    listener.setblocking(False)
    return listener


def run(plan: Plan, listener: socket.socket, packages: str, prepare: Sequence[Sequence[str]] = ()) -> tuple[int, str]:
    """Serves on a listener: (exit status, what to say last).

    packages: where what the model's requirements lack is installed. prepare: what else to run before the first
    worker. The server answers 503 meanwhile.
    """
    supervisor = Supervisor(plan, listener)
    code_dir = os.path.join(plan.model_dir, "code")
    setup = list(prepare)
    if requirements.present(code_dir):
        setup.append(requirements.command(code_dir, packages))

    def in_front(pool: Pool) -> None:
        pool.interpreter = overlay.python(packages)
        pool.environ = {**os.environ, **overlay.environ(packages, os.environ)}

    return supervisor.run(setup, in_front), supervisor.last_words


def _tell(settings: Settings) -> None:
    for line in settings.describe():
        logger.info("%s", line)
    for note in settings.notes:
        logger.warning("%s", note)


def _say(status: int, last_words: str) -> int:
    """The exit status, after the reason, which is the last thing in the log."""
    logging.shutdown()
    sys.stdout.flush()
    if last_words:
        sys.stderr.write(last_words.rstrip("\n") + "\n")
        sys.stderr.flush()
    return status
