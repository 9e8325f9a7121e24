"""What supervisor and worker say to each other, and how a worker is called."""

from __future__ import annotations

import json
import signal
import socket
import struct
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
TAKEN = b"T"  # slot; it was taken back
FORK = b"W"  # number; with the new worker's channel
# From a worker.
READY = b"R"
FAILED = b"F"  # traceback
CLOSED = b"X"  # slot
CALL_DONE = b"I"
DRAINED = b"E"
METRIC = b"M"  # name, value and unit, in JSON
PROCESS = b"P"  # process id, of a worker that was forked

FAILURE_BYTES = 60000

DUMP_SIGNAL = signal.SIGRTMIN + 11
"""Makes a worker write every thread's traceback, also of one that holds the interpreter's lock."""


def arguments(place: Place, handler_service: str, template: bool = False) -> list[str]:
    """The command line of a worker, without the interpreter; template: it is to be forked, not to serve."""
    words = ["-m", "sagemaker_inference.server.worker", json.dumps(asdict(place)), handler_service]
    return [*words, "template"] if template else words


def with_number(kind: bytes, number: int) -> bytes:
    """A message that carries a slot, a worker's number or a process id."""
    return kind + number.to_bytes(4, "little")


def number_of(message: bytes) -> int:
    return int.from_bytes(message[1:5], "little")


def peer(link: socket.socket) -> int:
    """The process that made a channel: the supervisor."""
    pid: int = struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
    return pid


def tell(channel: socket.socket, message: bytes) -> None:
    """Sends without waiting; that the other side is gone is noticed elsewhere."""
    with suppress(OSError):
        channel.send(message, socket.MSG_DONTWAIT)


def messages(channel: socket.socket) -> Iterator[bytes]:
    """What the other side has told since; an empty message: it has ended."""
    message = b"."
    while message:
        try:
            message, _ = sockets.receive_descriptor(channel)
        except (BlockingIOError, InterruptedError):
            return
        except ConnectionResetError:
            continue  # It ended with messages of ours unread; its own are still to come.
        yield message
