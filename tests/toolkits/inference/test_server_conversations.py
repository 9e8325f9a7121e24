"""Bidirectional streams over WebSocket, as the platform's side-car opens them."""

from __future__ import annotations

import os
import signal
import socket

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from . import serving

CODE = """
    import os
    base = os.environ["SAGEMAKER_BASE_DIR"]
    def model_fn(model_dir):
        return "model"
    def transform_fn(model, data, content_type, accept):
        return data, accept
    async def bidirectional_fn(messages, model, context):
        yield context.get_request_header(0, "x-hello") or "hello"
        try:
            async for message in messages:
                if message == "fail":
                    raise ValueError("as asked")
                if message == "end":
                    return
                yield message
        finally:
            open(base + "/closed", "w").close()
"""


@pytest.fixture
def start(tmp_path):
    servers = []

    def started(code: str = CODE, **variables: str) -> serving.Server:
        one = serving.make(tmp_path, code, **variables)
        servers.append(one)
        return one.start()

    yield started
    for one in servers:
        one.close()


def address(server: serving.Server, path: str = "/invocations-bidirectional-stream") -> str:
    return f"ws://127.0.0.1:{server.port}{path}"


def test_messages_go_both_ways_and_keep_their_kind(start, tmp_path):
    server = start().ready()
    with connect(address(server), additional_headers={"X-Hello": "hi"}) as link:
        assert link.recv(serving.BOUND) == "hi"
        link.send("text")
        assert link.recv(serving.BOUND) == "text"
        link.send(b"binary")
        assert link.recv(serving.BOUND) == b"binary"
        # A message in fragments is one message.
        link.send(["a", "b", "c"])
        assert link.recv(serving.BOUND) == "abc"
        assert link.ping().wait(serving.BOUND)
        # Requests are served beside it.
        assert server.post(b"x").body == b"x"
        link.send("end")
        with pytest.raises(ConnectionClosed) as ended:
            link.recv(serving.BOUND)
    assert ended.value.rcvd.code == 1000


def test_an_error_closes_the_stream_with_its_reason(start):
    server = start().ready()
    with connect(address(server)) as link:
        link.recv(serving.BOUND)
        link.send("fail")
        with pytest.raises(ConnectionClosed) as ended:
            link.recv(serving.BOUND)
    assert (ended.value.rcvd.code, ended.value.rcvd.reason) == (1011, "as asked")
    assert "ValueError: as asked" in server.log


def test_a_client_that_leaves_ends_the_function(start, tmp_path):
    server = start().ready()
    with connect(address(server)) as link:
        link.recv(serving.BOUND)
    serving.wait_for((tmp_path / "closed").exists, server)
    (tmp_path / "closed").unlink()
    with connect(address(server)) as link:
        link.recv(serving.BOUND)
        link.socket.shutdown(socket.SHUT_RDWR)  # without a word
        serving.wait_for((tmp_path / "closed").exists, server)
    assert server.post(b"x").status == 200


@pytest.mark.parametrize(
    ("code", "path"), [(serving.ECHO, "/invocations-bidirectional-stream"), (CODE, "/other"), (CODE, "/ping/ws")]
)
def test_without_a_function_or_on_another_path_the_upgrade_is_a_404(start, code, path):
    server = start(code).ready()
    with pytest.raises(InvalidStatus) as refused, connect(address(server, path)):
        pass
    assert refused.value.response.status_code == 404
    assert b'"NotFound"' in refused.value.response.body


def test_a_worker_that_dies_ends_the_stream(start):
    server = start().ready()
    with connect(address(server)) as link:
        link.recv(serving.BOUND)
        os.kill(server.workers()[0], signal.SIGKILL)
        with pytest.raises(ConnectionClosed) as ended:
            link.recv(serving.BOUND)
    # Nothing came that a client would take for a part of the stream.
    assert (ended.value.rcvd, ended.value.sent) == (None, None)
    assert server.post(b"x").status == 200


def test_a_stop_closes_streams(start):
    server = start().ready()
    with connect(address(server)) as link:
        link.recv(serving.BOUND)
        server.terminate()
        with pytest.raises(ConnectionClosed) as ended:
            link.recv(serving.BOUND)
    assert ended.value.rcvd.code == 1012
    assert server.wait() == 0


def test_a_function_that_is_no_async_generator_ends_the_start(start):
    server = start("def model_fn(model_dir): ...\ndef bidirectional_fn(messages, model): ...")
    assert server.wait() == 5
    assert "async generator" in server.log.splitlines()[-1]
