"""What supervisor and worker say to each other, and how a worker is called."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict

from sagemaker_inference.server import sockets
from sagemaker_inference.service import Place

BOARD_DESCRIPTOR = 3
CHANNEL_DESCRIPTOR = 4

# To a worker.
CONNECTION = b"C"  # slot; with the connection's descriptor
DRAIN = b"D"
# From a worker.
READY = b"R"
FAILED = b"F"  # traceback
CLOSED = b"X"  # slot
CALL_DONE = b"I"
DRAINED = b"E"

FAILURE_BYTES = 60000

DUMP_SIGNAL = signal.SIGRTMIN + 11
"""Makes a worker write every thread's traceback, also of one that holds the interpreter's lock."""


def arguments(place: Place, handler_service: str) -> list[str]:
    """The command line of a worker, without the interpreter."""
    return ["-m", "sagemaker_inference.server.worker", json.dumps(asdict(place)), handler_service]


def with_slot(kind: bytes, slot: int) -> bytes:
    return kind + slot.to_bytes(4, "little")


def slot_of(message: bytes) -> int:
    return int.from_bytes(message[1:5], "little")


def tell(channel: socket.socket, message: bytes) -> None:
    """Sends without waiting; that the other side is gone is noticed elsewhere."""
    with suppress(OSError):
        channel.send(message, socket.MSG_DONTWAIT)


def messages(channel: socket.socket) -> Iterator[bytes]:
    """What the other side has told since."""
    while True:
        try:
            message, _ = sockets.receive_descriptor(channel)
        except OSError:
            return
        if not message:
            return
        yield message
