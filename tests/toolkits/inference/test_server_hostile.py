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


def peak(pid: int) -> int:
    """Bytes in memory, when they were most."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) << 10


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
    assert server.post(b"3", Content_Type="application/json").body == b"xxx"
    before = peak(server.workers()[0])
    deaf = [server.client() for _ in range(2)]
    for client in deaf:
        for _ in range(12):
            client.post(b"20000000", b"content-type: application/json")
    # Others are served in between, and often enough that every request of the deaf would have had its turn.
    for _ in range(40):
        assert server.post(b"3", Content_Type="application/json").body == b"xxx"
    assert peak(server.workers()[0]) - before < 260 << 20


def test_a_flood_of_requests_waits_in_the_kernel_or_is_refused(start, tmp_path):
    code = """
        import os, time
        def model_fn(model_dir):
            return None
        def transform_fn(model, data, content_type, accept):
            if data[:5] == b"hold ":
                path = bytes(data[5:]).decode()
                open(path, "w").close()
                while os.path.exists(path):
                    time.sleep(0.005)
            return b"%d" % len(data), "text/plain"
    """
    server = start(code, SLIPWAY_QUEUE_SIZE="20").ready()
    kind = b"content-type: application/octet-stream"
    held = tmp_path / "held"
    first = server.client().post(b"hold " + os.fsencode(held), kind)
    serving.wait_for(held.exists, server)
    before = resident(server.pid) + resident(server.workers()[0])
    flood = [server.client().post(b"x" * 100_000, kind) for _ in range(300)]
    left = 21 + 1
    # On a busy machine the supervisor takes its time to come to the last of them.
    serving.wait_for(lambda: sum(not refused_by_now(client, server) for client in flood) <= left, server)
    assert resident(server.pid) + resident(server.workers()[0]) - before < 8 << 20
    assert server.ping() == 200
    held.unlink()
    answers = [client.answer() for client in flood]
    assert first.answer().status == 200
    assert [answer.status for answer in answers].count(200) >= 20
    for answer in answers:
        assert answer.status in (200, 503)
        if answer.status == 503:
            assert (answer.error["type"], answer.headers["retry-after"]) == ("QueueFull", "1")


def refused_by_now(client: serving.Client, server: serving.Server) -> bool:
    """Whether a request was answered while the only worker is held; pings show that the supervisor has come so far."""
    server.ping()
    client.connection.setblocking(False)
    try:
        return bool(client.connection.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False
    finally:
        client.connection.settimeout(serving.BOUND)


@pytest.mark.parametrize("path", [b"/invocations", b"/ping"])
def test_heads_that_are_too_large_are_refused(start, path):
    server = start().ready()
    for lines in (b"x: " + b"y" * 1_000_000, b"\r\n".join(b"x%d: y" % number for number in range(50_000))):
        client = server.client()
        method = b"GET" if path == b"/ping" else b"POST"
        with contextlib.suppress(ConnectionError):  # it need not read to the end
            client.send(method + b" " + path + b" HTTP/1.1\r\nhost: x\r\n" + lines + b"\r\ncontent-length: 0\r\n\r\n")
        answer = client.answer()
        assert (answer.status, answer.error["type"]) == (431, "RequestHeaderFieldsTooLarge")
    assert server.post(b"x").body == b"x"


def test_a_client_that_stops_in_the_middle_of_its_body_is_given_up(start):
    code = """
        from sagemaker_inference.server import serving
        serving.READ_SECONDS = serving.SWEEP_SECONDS = 0.1
        def model_fn(model_dir):
            return None
        def transform_fn(model, data, content_type, accept):
            return data, accept
    """
    server = start(code).ready()
    stopped = server.client().send(b"POST /invocations HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nhalf")
    answer = stopped.answer()
    assert (answer.status, answer.error["type"]) == (408, "RequestTimeout")
    assert stopped.ended()
    assert server.post(b"x").body == b"x"


@pytest.mark.parametrize(
    "begun", [b"G", b"GET /ping", b"GET /ping HTTP/1.1\r\nhost: x\r\n", b"POST /invocations HTTP/1.1\r\n"]
)
def test_a_client_that_ends_in_the_middle_of_a_head_is_let_go(start, begun):
    server = start().ready()
    at_once = server.client().send(begun)
    at_once.connection.shutdown(socket.SHUT_WR)
    later = server.client().send(begun)
    assert server.ping() == 200  # what came is known
    later.connection.shutdown(socket.SHUT_WR)
    assert at_once.ended()
    assert later.ended()
