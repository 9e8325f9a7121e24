"""Whatever comes over a connection: a clean answer or a clean end, the same worker, and the next client is served."""

from __future__ import annotations

import json
import re
import socket

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from . import serving

CODE = """
    import json
    def model_fn(model_dir):
        return None
    def input_fn(data, content_type):
        return bytes(data) if isinstance(data, (bytes, bytearray, memoryview)) else data.encode()
    def predict_fn(data, model):
        return {"size": len(data)}
"""
KNOWN = (
    "Accept", "Content-Type", "Expect", "X-Amzn-SageMaker-Custom-Attributes", "X-Amzn-SageMaker-Inference-Id",
    "X-Amzn-SageMaker-Session-Id", "X-Amzn-SageMaker-Target-Model", "x-unknown",
)  # fmt: skip
# The same each time: a check that fails by chance says nothing about what was changed.
SETTINGS = settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

visible = st.text(st.characters(min_codepoint=32, max_codepoint=255, exclude_characters="\x7f"), max_size=80)
paths = st.sampled_from(["/invocations", "/ping", "/execution-parameters", "/", "*", "http://x/ping"]) | st.text(
    st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=40
)
lines = st.sampled_from(
    [
        b"host: x",
        b"content-length: 5",
        b"content-length: 0",
        b"content-length: -1",
        b"content-length: 99999999999999999999",
        b"content-length: 5, 5",
        b"transfer-encoding: chunked",
        b"transfer-encoding: gzip, chunked",
        b"connection: close",
        b"connection: upgrade",
        b"upgrade: websocket",
        b"upgrade: h2c",
        b"expect: 100-continue",
        b"expect: nothing",
        b": x",
        b"no colon",
        b"a\0b: c",
        b" folded",
        b"x: " + b"y" * 5000,
    ]
)
bodies = st.sampled_from(
    [
        b"",
        b"hello",
        b"5\r\nhello\r\n0\r\n\r\n",
        b"ffffffffffffffffff\r\n",
        b"-1\r\n",
        b"5\r\nhel",
        b"5;" + b"x" * 300 + b"\r\nhello",
    ]
)
requests = st.builds(
    lambda method, path, version, heads, body: (
        b"\r\n".join([method + b" " + path.encode() + b" " + version, *heads, b"", b""]) + body
    ),
    st.sampled_from([b"GET", b"POST", b"HEAD", b"PUT", b"CONNECT", b"OPTIONS", b"PRI", b"get", b"\xff"]),
    paths,
    st.sampled_from([b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"HTTP/9.9", b"http/1.1", b""]),
    st.lists(lines, max_size=5),
    bodies,
)
_HEAD = re.compile(rb"HTTP/1\.[01] (\d{3}) [^\r\n]*\r\n((?:[!-9;-~]+: [^\r\n]*\r\n)*)\r\n")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    one = serving.make(tmp_path_factory.mktemp("server"), CODE, SAGEMAKER_ENABLE_STATEFUL_SESSIONS="true").start()
    one.ready()
    workers = one.workers()
    yield one
    try:
        # Nothing of it ended the worker, or made the supervisor or the worker stumble.
        assert one.workers() == workers
        assert "the supervisor failed" not in one.log
        assert "could not send" not in one.log
    finally:
        one.close()


def everything(server: serving.Server, data: bytes) -> bytes:
    """Sends bytes, ends, and reads to the server's end."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=serving.BOUND) as connection:
        found = b""
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while block := connection.recv(65536):
                found += block
        except ConnectionError:
            pass  # the server may end while we still send
        return found


def answers(found: bytes, head_only: bool) -> list[int]:
    """The status of each answer; every byte must belong to one, and every error say in JSON what it is."""
    statuses = []
    while found:
        head = _HEAD.match(found)
        assert head, f"no answer: {found[:300]!r}"
        status = int(head[1])
        headers = {name.lower(): value for name, _, value in (line.partition(b": ") for line in head[2].splitlines())}
        found = found[head.end() :]
        if status == 100:
            continue
        size = int(headers[b"content-length"])
        # uvicorn leaves the body of an answer to HEAD out, and says its length.
        if head_only and (not found or found.startswith(b"HTTP/1.")):
            size = 0
        body, found = found[:size], found[size:]
        if status >= 400 and body:
            error = json.loads(body)["error"]
            assert error["code"] == status
            assert error["message"]
        statuses.append(status)
    return statuses


@SETTINGS
@given(st.binary(max_size=300) | requests | st.lists(requests, min_size=2, max_size=3).map(b"".join))
def test_any_bytes_get_clean_answers_or_a_clean_end(server, data):
    statuses = answers(everything(server, data), b"HEAD " in data)
    assert set(statuses) <= {200, 400, 404, 405, 413, 415, 417, 426, 431}, statuses
    assert server.post(b"after", Content_Type="application/octet-stream").status == 200


@SETTINGS
@given(st.dictionaries(st.sampled_from(KNOWN), visible), st.binary(max_size=100))
def test_any_headers_of_the_platform_are_answered_without_a_failure(server, headers, body):
    sent = [f"{name}: {value}".encode("latin-1") for name, value in headers.items()]
    head = b"\r\n".join([b"POST /invocations HTTP/1.1", b"host: x", b"content-length: %d" % len(body), *sent, b"", b""])
    (status,) = answers(everything(server, head + body), head_only=False)
    assert status in (200, 400, 406, 415), status
    named = headers.get("X-Amzn-SageMaker-Session-Id", "").strip()
    if named and named != "NEW_SESSION":
        assert status == 400
