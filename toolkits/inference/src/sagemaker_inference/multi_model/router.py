"""The process of the router: its port, its stop, its log."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import socket
import tempfile
from contextlib import suppress

import uvicorn
import uvloop
from uvicorn.server import ServerState

from sagemaker_inference import model_server, parameters
from sagemaker_inference.multi_model.app import App
from sagemaker_inference.multi_model.front import Front
from sagemaker_inference.multi_model.model import Limits
from sagemaker_inference.multi_model.processes import Orphans
from sagemaker_inference.multi_model.registry import Registry
from sagemaker_inference.server import exits
from sagemaker_inference.settings import Settings

logger = logging.getLogger(__name__)

_BACKLOG = 2048
_KEEP_ALIVE_SECONDS = 75
_ORPHANS_SECONDS = 5.0
# An address of a Unix socket has 108 bytes, and this is what comes below the router's own folder.
_LONGEST_ROOT = 107 - len("/123456789/s")


def serve(settings: Settings, handler_service: str) -> int:
    """Runs the router until SIGTERM or SIGINT; the exit status of the process, of ``server.exits``."""
    try:
        listener = model_server.listen(settings.bind_port)
    except OSError as error:
        logger.error("port %d cannot be listened on: %s", settings.bind_port, error.strerror)
        return exits.PORT
    root = tempfile.mkdtemp(prefix="serve-")
    try:
        if len(os.fsencode(root)) > _LONGEST_ROOT:
            logger.error("the temporary folder %s is too deep for sockets: set TMPDIR to a shorter path", root)
            return exits.SETTINGS
        limits = Limits(settings.startup_timeout_seconds, settings.drain_seconds, settings.max_restarts)
        registry = Registry(settings.handler or handler_service, root, _environ(settings), limits)
        uvloop.run(_run(settings, registry, listener))
        return exits.STOPPED
    finally:
        listener.close()
        shutil.rmtree(root, ignore_errors=True)


def _environ(settings: Settings) -> dict[str, str]:
    """The environment of units. Models share the hardware: each has one worker, unless the user asks for more."""
    workers = {} if settings.workers else {parameters.MODEL_SERVER_WORKERS_ENV: "1"}
    return {**os.environ, **workers}


async def _run(settings: Settings, registry: Registry, listener: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stop.set)
    config = uvicorn.Config(
        App(registry, settings.metrics_path),
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
    )
    state = ServerState()
    server = await loop.create_server(lambda: Front(config, state, {}), sock=listener, backlog=_BACKLOG)
    logger.info("ready for models on port %d", settings.bind_port)
    orphans = Orphans()
    while not stop.is_set():
        orphans.collect()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(stop.wait(), _ORPHANS_SECONDS)
    logger.info("stopping: running requests have %g s", settings.drain_seconds)
    server.close()
    for connection in list(state.connections):
        connection.shutdown()
    end = loop.time() + settings.drain_seconds
    await registry.close(settings.drain_seconds)
    # What was answered last may not have left yet.
    while state.connections and loop.time() < end:
        await asyncio.sleep(0.01)
