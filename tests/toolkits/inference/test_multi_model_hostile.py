"""Clients that mean no good, in front of many models: bounded memory, clean answers, and the others are served."""

from __future__ import annotations

import contextlib
import json
import resource
import socket
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from . import router as routers
from .serving import BOUND
from .test_server_fuzz import answers, everything, requests
from .test_server_hostile import resident

SETTINGS = settings(
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def router(tmp_path_factory):
    one = routers.started(tmp_path_factory.mktemp("hostile")).loaded("good")
    yield one
    one.close()


@pytest.fixture(autouse=True)
def unharmed(router):
    """Whatever a test does: the model still serves, by the same process, and nothing failed on the way."""
    before = router.family()
    yield
    assert router.ping() == 200
    assert router.invoke("good", b"x").body == b"x"
    assert router.names() == ["good"]
    assert router.family() == before
    assert "Traceback" not in router.log


def test_silent_clients_keep_nobody_out(router):
    silent = [router.client() for _ in range(200)]
    half = [router.client().send(b"GET /pi") for _ in range(50)]
    slow = [
        router.client().send(b"POST /models/good/invoke HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nx")
        for _ in range(50)
    ]
    assert router.ping() == 200
    assert router.invoke("good", b"y").body == b"y"
    # They are served too, once they go on.
    assert slow[0].send(b"12345678").answer().body == b"x12345678"
    assert half[0].send(b"ng HTTP/1.1\r\nhost: x\r\n\r\n").answer().status == 200
    assert silent[0].post(b"late", path=b"/models/good/invoke").answer().body == b"late"


@pytest.mark.parametrize("path", [b"/ping", b"/models", b"/models/good/invoke"])
def test_heads_that_are_too_large_are_refused(router, path):
    before = resident(router.pid)
    for lines in (b"x: " + b"y" * 1_000_000, b"\r\n".join(b"x%d: y" % number for number in range(50_000))):
        client = router.client()
        with contextlib.suppress(ConnectionError):  # it need not read to the end
            client.send(b"GET " + path + b" HTTP/1.1\r\nhost: x\r\n" + lines + b"\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            assert client.answer().status in (400, 431)
        assert router.ping() == 200
    assert resident(router.pid) - before < 30 << 20


@SETTINGS
@given(st.binary(max_size=300) | requests | st.lists(requests, min_size=2, max_size=3).map(b"".join))
def test_any_bytes_get_clean_answers_or_a_clean_end(router, data):
    statuses = answers(everything(router, data), b"HEAD " in data)
    assert set(statuses) <= {200, 400, 404, 405, 413, 415, 417, 426, 431}, statuses


@SETTINGS
@given(st.text(st.characters(min_codepoint=1, max_codepoint=0x2FF), min_size=1, max_size=60), st.binary(max_size=80))
def test_any_name_and_body_of_a_load_is_refused_cleanly(router, name, body):
    for data in (body, json.dumps({"model_name": name, "url": "/nowhere"}).encode(), b"[" * 10_000):
        answer = router.post(data, "/models")
        assert answer.status in (400, 404, 409), answer
        assert answer.error["message"]


def test_a_router_out_of_descriptors_goes_on_when_clients_leave(tmp_path):
    one = routers.started(tmp_path).loaded("good")
    try:
        used = len(list(Path(f"/proc/{one.pid}/fd").iterdir()))
        resource.prlimit(one.pid, resource.RLIMIT_NOFILE, (used + 20, used + 20))
        silent = [one.client() for _ in range(100)]
        # A client that has its connection is served, or told what is lacking.
        answer = silent[0].post(b"x", path=b"/models/good/invoke").answer()
        assert answer.status in (200, 503, 507), answer
        for client in silent:
            client.close()
        with socket.create_connection(("127.0.0.1", one.port), timeout=BOUND):
            assert one.ping() == 200
        assert one.invoke("good", b"x").body == b"x"
    finally:
        one.close()
