"""HTTP as the platform and its clients speak it: paths, methods, keep-alive, bodies, refusals."""

from __future__ import annotations

import json

import pytest

from . import serving


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    base = tmp_path_factory.mktemp("http")
    code = """
        def model_fn(model_dir):
            return None
        def transform_fn(model, data, content_type, accept, context):
            if content_type == "text/x-sleep":
                import time
                time.sleep(float(data))
            return data, "application/octet-stream"
    """
    one = serving.make(base, code, SAGEMAKER_MAX_PAYLOAD_IN_MB="128")
    yield one.start().ready()
    one.close()


def test_ping_is_empty_and_ok(server):
    answer = server.get("/ping")
    assert (answer.status, answer.body) == (200, b"")


@pytest.mark.parametrize("path", ["/", "/models", "/invocations/", "/ping/x", "/invocations-bidirectional-stream"])
def test_an_unknown_path_is_a_404_in_json(server, path):
    answer = server.get(path)
    assert answer.status == 404
    assert answer.headers["content-type"] == "application/json"
    assert answer.error["code"] == 404
    assert path in answer.error["message"]


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/invocations", "POST"),
        ("DELETE", "/invocations", "POST"),
        ("POST", "/ping", "GET"),
        ("PUT", "/execution-parameters", "GET"),
    ],
)
def test_another_method_is_a_405_that_names_the_right_one(server, method, path, allowed):
    answer = server.request(method, path)
    assert (answer.status, answer.headers["allow"]) == (405, allowed)
    assert answer.error["type"] == "MethodNotAllowed"


def test_unknown_headers_are_ignored(server):
    assert server.post(b"x", X_Whatever="1", X_Amzn_SageMaker_Target_Variant="v").status == 200


def test_requests_of_one_connection_follow_each_other(server):
    client = server.client()
    for number in range(5):
        assert client.post(b"%d" % number).answer().body == b"%d" % number


def test_pipelined_requests_are_answered_in_order(server):
    client = server.client()
    requests = [b"POST /invocations HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\n%d" % number for number in range(9)]
    client.send(b"".join(requests))
    assert [client.answer().body for _ in requests] == [b"%d" % number for number in range(9)]


def test_pings_and_requests_may_share_a_connection(server):
    client = server.client()
    ping = b"GET /ping HTTP/1.1\r\nhost: x\r\n\r\n"
    client.send(ping + ping + b"POST /invocations HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\na" + ping)
    assert [client.answer().body for _ in range(4)] == [b"", b"", b"a", b""]


def test_a_body_may_come_in_chunks(server):
    client = server.client()
    client.send(b"POST /invocations HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
    for part in (b"a" * 10, b"b" * 70000, b"c"):
        client.send(b"%x\r\n%s\r\n" % (len(part), part))
    client.send(b"0\r\n\r\n")
    assert client.answer().body == b"a" * 10 + b"b" * 70000 + b"c"


def test_a_client_that_asks_first_is_told_to_go_on(server):
    client = server.client()
    client.send(b"POST /invocations HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n")
    assert client.answer().status == 100
    assert client.send(b"ok").answer().body == b"ok"
    assert client.post(b"again").answer().body == b"again"


def test_a_body_byte_by_byte(server):
    client = server.client()
    for byte in b"POST /invocations HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nabc":
        client.send(bytes([byte]))
    assert client.answer().body == b"abc"


def test_a_ping_byte_by_byte(server):
    client = server.client()
    for byte in b"GET /ping HTTP/1.1\r\nhost: x\r\n\r\n":
        client.send(bytes([byte]))
    assert client.answer().status == 200
    assert client.post(b"then").answer().body == b"then"


def test_a_half_closed_client_gets_its_answer(server):
    import socket

    client = server.client()
    client.post(b"0.2", b"content-type: text/x-sleep")
    client.connection.shutdown(socket.SHUT_WR)
    assert client.answer().body == b"0.2"
    assert client.ended()


def test_http_1_0_is_answered_and_closed(server):
    client = server.client()
    client.send(b"POST /invocations HTTP/1.0\r\ncontent-length: 2\r\n\r\nhi")
    assert client.answer().body == b"hi"
    assert client.ended()
    client = server.client()
    client.send(b"GET /ping HTTP/1.0\r\n\r\n")
    assert client.answer().status == 200
    assert client.ended()


def test_close_is_honoured(server):
    client = server.client()
    assert client.post(b"x", b"connection: close").answer().headers["connection"] == "close"
    assert client.ended()


def test_a_hundred_megabytes_pass_both_ways(server):
    body = bytes(range(256)) * 4096 * 100
    assert server.post(body).body == body


def test_more_than_the_limit_is_refused_with_both_sizes(server):
    limit = 128 << 20
    client = server.client()
    client.send(b"POST /invocations HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % (limit + 1))
    answer = client.answer()
    assert answer.status == 413
    assert str(limit) in answer.error["message"]
    assert str(limit + 1) in answer.error["message"]
    assert client.send(b"x" * 1000000).ended()


def test_a_body_in_chunks_is_held_to_the_limit_as_it_comes(tmp_path):
    one = serving.make(tmp_path, SAGEMAKER_MAX_PAYLOAD_IN_MB="1").start()
    head = b"POST /invocations HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    limit = 1 << 20
    try:
        full = one.ready().client().send(head + b"%x\r\n%s\r\n0\r\n\r\n" % (limit, b"x" * limit)).answer()
        assert (full.status, len(full.body)) == (200, limit)
        # The end never comes: it need not.
        over = one.client().send(head + b"%x\r\n%s\r\n1\r\nx\r\n" % (limit, b"x" * limit)).answer()
        assert (over.status, over.error["type"]) == (413, "PayloadTooLarge")
        assert str(limit) in over.error["message"]
    finally:
        one.close()


def test_a_client_that_asks_first_need_not_send_what_is_too_large(server):
    client = server.client()
    head = b"POST /invocations HTTP/1.1\r\nhost: x\r\ncontent-length: 999999999\r\nexpect: 100-continue\r\n\r\n"
    assert client.send(head).answer().status == 413


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"NONSENSE\r\n\r\n",
        b"POST /invocations HTTP/9.9\r\n\r\n",
        b"POST http:// HTTP/1.1\r\nhost: x\r\n\r\n",
        b"POST /invocations HTTP/1.1\r\ncontent-length: x\r\n\r\n",
        b"POST /invocations HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /invocations HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"GET /p\xffng HTTP/1.1\r\nhost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01",
    ],
)
def test_what_is_no_http_is_a_400_in_json(server, request_bytes):
    client = server.client()
    answer = client.send(request_bytes).answer()
    assert answer.status == 400
    assert answer.error["code"] == 400
    assert client.ended()


@pytest.mark.parametrize("start", [b"POST /invocations HTTP/1.1\r\n", b"GET /ping HTTP/1.1\r\n"])
def test_a_head_without_an_end_is_refused(server, start):
    client = server.client()
    client.send(start)
    lines = b"".join(b"x-%d: %s\r\n" % (number, b"y" * 1000) for number in range(200))
    assert client.send(lines).answer().status == 431


def test_a_ping_with_a_body_is_answered_and_its_body_is_no_request(server):
    client = server.client()
    body = b"POST /invocations HTTP/1.1\r\ncontent-length: 0\r\n\r\n"
    client.send(b"GET /ping HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
    assert client.answer().status == 200
    assert client.ended()


def test_execution_parameters(server):
    answer = server.get("/execution-parameters")
    # The job's own limit is larger than the product of concurrency and payload may be.
    assert json.loads(answer.body) == {"MaxConcurrentTransforms": 1, "MaxPayloadInMB": 128}


def test_after_all_that_the_server_is_well(server):
    assert server.post(b"x").body == b"x"
    assert "Traceback" not in server.log
