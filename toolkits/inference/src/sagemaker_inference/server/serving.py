"""What a worker does once it has its model: answers on the connections that it gets, until it is told to leave."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from email.utils import formatdate
from typing import Any

import uvicorn
import uvloop
from uvicorn.server import ServerState

from sagemaker_inference.server import board, channel, reported, sockets
from sagemaker_inference.server.app import App
from sagemaker_inference.server.protocol import KEEP_ALIVE_SECONDS, Connection
from sagemaker_inference.server.wire import Wire
from sagemaker_inference.service import Service
from sagemaker_inference.settings import Settings

SWEEP_SECONDS = 5.0
READ_SECONDS = 60.0
"""Without a byte, a request that is not complete is given up."""


class Serving:
    """Connections, a service, a loop."""

    def __init__(
        self, service: Service, link: socket.socket, shared: board.Board, worker: int, settings: Settings
    ) -> None:
        self._service = service
        self._link = link
        self._board = shared
        self._settings = settings
        self._draining = False
        self._state = ServerState()
        self._open: dict[int, Wire] = {}
        self._loop = uvloop.new_event_loop()
        self._config = uvicorn.Config(
            App(service, settings, shared, worker, self._loop, self._call_done),
            http=Connection,
            ws=_websockets(service),
            ws_ping_interval=None,  # the platform's side asks
            lifespan="off",
            log_config=None,
            access_log=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
        )
        self._config.load()
        if settings.metrics_path:
            reported.tell_on(link)

    def run(self) -> None:
        """Tells that the worker is ready, and answers until the supervisor is gone or has asked to drain."""
        asyncio.set_event_loop(self._loop)
        self._loop.add_reader(self._link.fileno(), self._on_link)
        self._loop.call_soon(self._tick)
        self._loop.call_later(SWEEP_SECONDS, self._sweep)
        self._tell(channel.READY)
        self._loop.run_forever()

    def _on_link(self) -> None:
        while True:
            try:
                message, descriptor = sockets.receive_descriptor(self._link)
            except (BlockingIOError, InterruptedError):
                return
            if not message:
                os._exit(0)  # The supervisor is gone, and with it the connections.
            if message[:1] == channel.DRAIN:
                self._drain()
            elif message[:1] == channel.TAKEN:
                wire = self._open.get(channel.number_of(message))
                if wire is not None:
                    wire.abort()
            elif descriptor is not None:
                self._adopt(channel.number_of(message), descriptor)

    def _adopt(self, slot: int, descriptor: int) -> None:
        connection = socket.socket(fileno=descriptor)
        if self._board.words[board.slot_cell(slot) + board.STATE] != board.PASSED:
            # Taken back before it was seen.
            connection.close()
            self._tell(channel.with_number(channel.CLOSED, slot))
            return
        connection.setblocking(False)
        wire = Wire(self._loop, connection, self._board, slot, self._on_closed)
        protocol = Connection(
            self._config, self._state, wire, self._settings.max_request_bytes, not self._service.asynchronous
        )
        protocol.draining = self._draining
        self._open[slot] = wire
        wire.open(protocol)

    def _on_closed(self, wire: Wire) -> None:
        self._open.pop(wire.slot, None)
        self._tell(channel.with_number(channel.CLOSED, wire.slot))
        if self._draining and not self._open:
            self._loop.call_soon(self._end_if_drained)

    def _call_done(self) -> None:
        self._tell(channel.CALL_DONE)

    def _tell(self, message: bytes) -> None:
        try:
            self._link.send(message)
        except OSError:
            os._exit(0)

    def _drain(self) -> None:
        self._draining = True
        for wire in list(self._open.values()):
            wire.protocol.drain()
        self._end_if_drained()

    def _end_if_drained(self) -> None:
        if self._draining and not self._open:
            self._tell(channel.DRAINED)
            self._loop.stop()

    def _tick(self) -> None:
        """The date of answers, once a second."""
        self._state.default_headers[:] = [(b"date", formatdate(usegmt=True).encode())]
        self._loop.call_later(1.0, self._tick)

    def _sweep(self) -> None:
        """Gives up requests whose client has stopped sending."""
        now = time.monotonic()
        for wire in list(self._open.values()):
            protocol = wire.protocol
            if protocol.receiving() and now - protocol.read_at > READ_SECONDS:
                protocol.give_up()
        self._loop.call_later(SWEEP_SECONDS, self._sweep)


def _websockets(service: Service) -> Any:
    if not service.converses:
        return "none"
    from sagemaker_inference.server.conversations import Conversation

    return Conversation
