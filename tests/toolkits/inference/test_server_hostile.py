"""Clients that mean no good, and containers that allow little."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
from pathlib import Path

import pytest

from . import serving


@pytest.fixture
def start(tmp_path):
    servers = []

    def started(code: str = serving.ECHO, **variables: str) -> serving.Server:
        one = serving.make(tmp_path, code, **variables)
        servers.append(one)
        return one.start()

    yield started
    for one in servers:
        one.close()


def resident(pid: int) -> int:
    """Bytes in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


def test_silent_clients_keep_nobody_out(start):
    server = start().ready()
    silent = [server.client() for _ in range(300)]
    half = [server.client().send(b"GET /pi") for _ in range(100)]
    slow = [server.client().send(b"POST /invocations HTTP/1.1\r\ncontent-length: 9\r\n\r\nx") for _ in range(100)]
    assert server.ping() == 200
    assert server.post(b"x").body == b"x"
    # The slow ones are served too, once they go on.
    assert slow[0].send(b"12345678").answer().body == b"x12345678"
    assert half[0].send(b"ng HTTP/1.1\r\n\r\n").answer().status == 200
    assert silent[0].post(b"late").answer().body == b"late"


def test_a_server_out_of_descriptors_drops_the_oldest_silent_client_and_goes_on(start):
    server = start()
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (100, 100))
    server.ready()
    silent = [server.client() for _ in range(300)]
    assert server.ping() == 200
    assert server.post(b"x").body == b"x"
    assert silent[0].ended()


def test_heads_that_never_end_take_no_memory(start):
    server = start().ready()
    before = resident(server.workers()[0])
    line = b"x: " + b"y" * 60000 + b"\r\n"
    for _ in range(50):
        client = server.client().send(b"POST /invocations HTTP/1.1\r\n")
        with socket.socket(fileno=os.dup(client.connection.fileno())) as raw:
            raw.setblocking(False)
            with contextlib.suppress(OSError):
                for _ in range(20):
                    raw.send(line)
    assert server.post(b"x").status == 200
    assert resident(server.workers()[0]) - before < 50 << 20


def test_a_client_that_reads_nothing_holds_its_own_answer_only(start):
    code = """
        def model_fn(model_dir):
            return None
        def transform_fn(model, data, content_type, accept):
            return b"x" * int(data), "application/octet-stream"
    """
    server = start(code).ready()
    deaf = server.client()
    for _ in range(12):
        deaf.post(b"20000000", b"content-type: application/json")
    assert server.post(b"3", Content_Type="application/json").body == b"xxx"
    assert resident(server.workers()[0]) < 400 << 20
