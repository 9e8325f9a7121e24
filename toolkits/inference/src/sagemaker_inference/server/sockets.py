"""What the kernel knows of a connection, and how descriptors travel."""

from __future__ import annotations

import array
import fcntl
import select
import socket
import struct
import termios

_TCP_INFO_BYTES = struct.Struct("<QQ")
_TCP_INFO_OFFSET = 120  # of bytes_acked and bytes_received in struct tcp_info of Linux 4.1 and later

_LOOKS = 100


def traffic(connection: socket.socket) -> tuple[int, int] | None:
    """Bytes (consumed by readers, written by writers) since the connection was made; None where it cannot be known.

    The peer's end of stream counts as one consumed byte.
    """
    if connection.family == socket.AF_UNIX:
        return None
    try:
        queues = _queues(connection)
        for _ in range(_LOOKS):
            info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
            before, queues = queues, _queues(connection)
            if queues == before:
                # What moved between two of these calls would be counted twice, or not at all.
                break
        acknowledged, received = _TCP_INFO_BYTES.unpack_from(info, _TCP_INFO_OFFSET)
    except (OSError, struct.error):
        return None
    return received - queues[0], acknowledged + queues[1]


def readable(connection: socket.socket, most: int = 1) -> bytes:
    """The first of the bytes that wait to be read; empty: none, or the peer has ended."""
    try:
        return connection.recv(most, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except OSError:
        return b""


def ended(connection: socket.socket) -> bool:
    """Whether the peer sends no more; what it sent before may still be unread."""
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    return bool(poll.poll(0))


def send_descriptor(channel: socket.socket, message: bytes, descriptor: int) -> bool:
    """Sends a message with a descriptor; False: the channel is full."""
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
    try:
        channel.sendmsg([message], ancillary, socket.MSG_DONTWAIT)
    except (BlockingIOError, InterruptedError):
        return False
    return True


def receive_descriptor(channel: socket.socket, wait: bool = False) -> tuple[bytes, int | None]:
    """A message and the descriptor that came with it. Raises BlockingIOError; an empty message is the end."""
    flags = socket.MSG_CMSG_CLOEXEC if wait else socket.MSG_CMSG_CLOEXEC | socket.MSG_DONTWAIT
    message, ancillary, _, _ = channel.recvmsg(65536, socket.CMSG_SPACE(4), flags)
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            return message, int(array.array("i", data[:4])[0])
    return message, None


def _queues(connection: socket.socket) -> tuple[int, int]:
    """Bytes that wait to be read, and that wait to be sent or acknowledged."""
    return _queued(connection, termios.FIONREAD), _queued(connection, termios.TIOCOUTQ)


def _queued(connection: socket.socket, request: int) -> int:
    return int(struct.unpack("i", fcntl.ioctl(connection, request, b"\0" * 4))[0])
