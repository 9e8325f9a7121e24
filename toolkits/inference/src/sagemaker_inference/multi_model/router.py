"""The process of the router: its port, its stop, its log."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import socket
import tempfile

import uvicorn
import uvloop
from uvicorn.server import ServerState

from sagemaker_inference import parameters
from sagemaker_inference.multi_model.app import App
from sagemaker_inference.multi_model.front import Front
from sagemaker_inference.multi_model.model import Limits
from sagemaker_inference.multi_model.registry import Registry
from sagemaker_inference.settings import Settings

logger = logging.getLogger(__name__)

_BACKLOG = 2048
_KEEP_ALIVE_SECONDS = 75
# An address of a Unix socket has 108 bytes, and this is what comes below the router's own folder.
_LONGEST_ROOT = 107 - len("/123456789/s")


class StartError(Exception):
    """The router cannot start: the text says why."""


def serve(settings: Settings, handler_service: str) -> int:
    """Runs the router until SIGTERM or SIGINT; the exit status of the process. Raises StartError."""
    # A model can be large, and many share the hardware: one worker each, unless the user asks for more.
    environ = {parameters.MODEL_SERVER_WORKERS_ENV: "1", **os.environ}
    root = tempfile.mkdtemp(prefix="slipway-")
    try:
        if len(root) > _LONGEST_ROOT:
            raise StartError(
                f"The path of the temporary folder, {root}, is too long for sockets: set TMPDIR to a shorter."
            )
        limits = Limits(settings.startup_timeout_seconds, settings.drain_seconds, settings.max_restarts)
        registry = Registry(settings.handler or handler_service, root, environ, limits)
        uvloop.run(_run(settings, registry))
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return 0


async def _run(settings: Settings, registry: Registry) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stop.set)
    config = uvicorn.Config(
        App(registry),
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
    )
    state = ServerState()
    server = await loop.create_server(
        lambda: Front(config, state, {}), sock=_listen(settings.bind_port), backlog=_BACKLOG
    )
    logger.info("ready for models on port %d", settings.bind_port)
    await stop.wait()
    logger.info("stopping: running requests have %g s", settings.drain_seconds)
    server.close()
    for connection in list(state.connections):
        connection.shutdown()
    end = loop.time() + settings.drain_seconds
    await registry.close(settings.drain_seconds)
    # What was answered last may not have left yet.
    while state.connections and loop.time() < end:
        await asyncio.sleep(0.01)


def _listen(port: int) -> socket.socket:
    try:
        return socket.create_server(("0.0.0.0", port), backlog=_BACKLOG, reuse_port=False)
    except OSError as error:
        raise StartError(f"Port {port} cannot be listened on: {error.strerror}.") from error
