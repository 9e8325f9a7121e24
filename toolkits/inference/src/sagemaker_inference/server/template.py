"""A process that loads the model and is forked for each worker, so that all share the model's memory."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

from sagemaker_inference.server import channel, children, sockets


def stand(link: socket.socket, serve: Callable[[socket.socket, int], None]) -> None:
    """Forks when told to, until the supervisor is gone. serve: runs a worker on its own channel, with its number."""
    channel.tell(link, channel.READY)
    while True:
        message, descriptor = sockets.receive_descriptor(link, wait=True)
        if not message:
            os._exit(0)
        if message[:1] == channel.DRAIN:
            os._exit(0)
        if descriptor is None:
            continue
        child = os.fork()
        if child == 0:
            _between(link, descriptor, channel.number_of(message), serve)
        os.close(descriptor)
        os.waitpid(child, 0)


def _between(link: socket.socket, descriptor: int, number: int, serve: Callable[[socket.socket, int], None]) -> None:
    """Forks once more and ends, so that the worker becomes the supervisor's own child."""
    between = os.getpid()
    if os.fork():
        os._exit(0)
    link.close()
    os.setpgid(0, 0)
    while os.getppid() == between:
        os.sched_yield()
    own = socket.socket(fileno=descriptor)
    children.die_with_parent(channel.peer(own))
    channel.tell(own, channel.with_number(channel.PROCESS, os.getpid()))
    try:
        serve(own, number)
    finally:
        os._exit(0)
