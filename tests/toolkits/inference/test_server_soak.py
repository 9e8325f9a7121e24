"""Long traffic while workers are killed: every request is answered once, and by its own answer."""

from __future__ import annotations

import os
import random
import re
import selectors
import signal
import socket
from pathlib import Path

import pytest

from . import serving

REQUESTS = 200_000
EACH_KILL = 2000
"""Requests between two kills, on average."""
CONNECTIONS = 16

CODE = """
    import os
    def model_fn(model_dir):
        return None
    def transform_fn(model, data, content_type, accept):
        return bytes(data) + b" %d" % os.getpid(), "text/plain"
"""
_LENGTH = re.compile(rb"content-length: (\d+)")


class Caller:
    """One client that asks, reads the answer, and asks again; on a new connection where the server closes one."""

    def __init__(self, server: serving.Server, number: int) -> None:
        self.server, self.number = server, number
        self.asked = self.answered = self.failed = 0
        self.worker = 0
        self.read = b""
        self.connect()

    def connect(self) -> None:
        self.connection = socket.create_connection(("127.0.0.1", self.server.port), timeout=serving.BOUND)

    def ask(self) -> None:
        self.asked += 1
        body = b"%d-%d" % (self.number, self.asked)
        head = b"POST /invocations HTTP/1.1\r\nhost: x\r\ncontent-type: application/octet-stream\r\n"
        self.connection.sendall(head + b"content-length: %d\r\n\r\n%s" % (len(body), body))

    def on_bytes(self) -> bool:
        """Reads; True: an answer is complete, and it was checked."""
        data = self.connection.recv(65536)
        assert data, f"the connection ended without an answer to {self.number}-{self.asked}"
        self.read += data
        head, end, body = self.read.partition(b"\r\n\r\n")
        if not end or len(body) < int(_LENGTH.search(head)[1]):
            return False
        assert len(body) == int(_LENGTH.search(head)[1]), "more than one answer"
        self.read = b""
        self.answered += 1
        if head.startswith(b"HTTP/1.1 200"):
            own, _, worker = body.partition(b" ")
            assert own == b"%d-%d" % (self.number, self.asked), "the answer to another request"
            self.worker = int(worker)
        else:
            assert b"WorkerDied" in body, body
            self.failed += 1
            assert self.connection.recv(1) == b"", "something after the last answer"
            self.connection.close()
        return True


def held(pid: int) -> tuple[int, int]:
    """MB in memory, and open descriptors."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) >> 10, len(list(Path(f"/proc/{pid}/fd").iterdir()))


@pytest.mark.slow
def test_two_hundred_thousand_requests_while_workers_are_killed(tmp_path):
    chance = random.Random(5)
    server = serving.make(tmp_path, CODE, SAGEMAKER_MODEL_SERVER_WORKERS="2").start()
    try:
        server.ready()
        serving.wait_for(lambda: server.log.count("ready after") == 2, server)
        callers = [Caller(server, number) for number in range(CONNECTIONS)]
        with selectors.DefaultSelector() as selector:
            killed = run(server, callers, selector, chance)
        assert sum(one.answered for one in callers) == REQUESTS
        # A worker takes no more with it than the request that it was computing.
        assert sum(one.failed for one in callers) <= killed
        assert killed > REQUESTS / EACH_KILL / 2
        memory, descriptors = held(server.pid)
        assert memory < 60
        assert descriptors < 40 + CONNECTIONS
        assert server.ping() == 200
        server.terminate()
        assert server.wait() == 0
    finally:
        server.close()


def run(server: serving.Server, callers: list[Caller], selector: selectors.BaseSelector, chance: random.Random) -> int:
    """All requests; how many workers were killed."""
    dead: set[int] = set()
    left = REQUESTS
    for one in callers:
        selector.register(one.connection, selectors.EVENT_READ, one)
        one.ask()
        left -= 1
    busy = len(callers)
    while busy:
        events = selector.select(serving.BOUND)
        waiting = [f"{one.number}-{one.asked}" for one in callers if one.asked > one.answered]
        assert events, f"no answer to {waiting}\n{server.log[-3000:]}"
        for key, _ in events:
            one = key.data
            connection = one.connection
            failed = one.failed
            if not one.on_bytes():
                continue
            if one.failed > failed:
                selector.unregister(connection)
                one.connect()
                selector.register(one.connection, selectors.EVENT_READ, one)
            if left:
                left -= 1
                one.ask()
            else:
                busy -= 1
            if chance.random() < 1 / EACH_KILL and one.worker and one.worker not in dead:
                dead.add(one.worker)
                os.kill(one.worker, signal.SIGKILL)
    return len(dead)
