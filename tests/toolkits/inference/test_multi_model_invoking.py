"""Requests through the router: what arrives at the model, what comes back, what happens when either side goes."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import time
import zlib
from pathlib import Path

import pytest

from . import router as routers
from .serving import in_parallel, wait_for

# Answers by what the header "mode" says.
MODEL = """
    import json, os, time, zlib
    from sagemaker_inference.errors import GenericInferenceToolkitError

    def model_fn(model_dir):
        return model_dir

    def transform_fn(folder, data, content_type, accept, context):
        mode = context.get_request_header(0, "mode")
        if mode == "headers":
            context.set_response_header(0, "X-Amzn-SageMaker-Custom-Attributes", "attributes, back")
            context.set_response_status(202)
            return json.dumps({**context.get_all_request_header(0), "type": content_type})
        if mode == "size":
            return f"{len(data)} {zlib.crc32(data)}"
        if mode == "large":
            return bytes(int(data)), "application/octet-stream"
        if mode == "refuse":
            raise GenericInferenceToolkitError(418, "no coffee here")
        if mode == "stream":
            return stream(folder, int(data)), "text/plain"
        if mode == "break":
            return breaks(), "text/plain"
        return data, "application/octet-stream"

    def stream(folder, count):
        try:
            for number in range(count):
                while not os.path.exists(os.path.join(folder, f"go {number}")):
                    time.sleep(0.01)
                yield f"item {number}\\n"
        finally:
            open(os.path.join(folder, "closed"), "w").close()

    def breaks():
        yield "the beginning"
        raise RuntimeError("in the middle")
"""


@pytest.fixture(scope="module")
def router(tmp_path_factory):
    one = routers.started(tmp_path_factory.mktemp("invoking"), SAGEMAKER_MAX_PAYLOAD_IN_MB="128")
    yield one.loaded("m", MODEL)
    one.close()


@pytest.fixture
def folder(router):
    found = router.base / "models" / "m" / "model"
    yield found
    for file in [*found.glob("go *"), *found.glob("closed")]:
        file.unlink()


def test_headers_and_status_pass_both_ways(router):
    answer = router.invoke(
        "m", "x", mode="headers", Content_Type="Text/CSV; charset=utf-8", Accept="application/json",
        X_Amzn_SageMaker_Target_Model="some/where.tar.gz", X_Amzn_SageMaker_Custom_Attributes="a=b, c", Cookie="c",
    )  # fmt: skip
    assert answer.status == 202
    assert answer.headers["x-amzn-sagemaker-custom-attributes"] == "attributes, back"
    assert answer.headers["content-type"] == "application/json"
    got = {name.lower(): value for name, value in json.loads(answer.body).items()}
    assert got["x-amzn-sagemaker-target-model"] == "some/where.tar.gz"
    assert got["x-amzn-sagemaker-custom-attributes"] == "a=b, c"
    assert (got["cookie"], got["accept"], got["type"]) == ("c", "application/json", "text/csv")


def test_headers_of_one_connection_stay_on_it(router):
    client = router.client()
    client.send(
        b"POST /models/m/invoke HTTP/1.1\r\nhost: x\r\nconnection: keep-alive\r\nte: trailers\r\nmode: headers\r\n"
        b"keep-alive: timeout=5\r\ncontent-length: 1\r\n\r\nx"
    )
    answer = client.answer()
    assert not {b"te", b"keep-alive"} & set(re.findall(rb'"([\w-]+)":', answer.body.lower()))


def test_errors_of_the_model_are_the_answer(router):
    answer = router.invoke("m", "x", mode="refuse")
    assert (answer.status, answer.error["message"]) == (418, "no coffee here")


def test_one_connection_serves_many_requests_and_models(router):
    router.loaded("other")
    client = router.client()
    for number in range(20):
        name = b"m" if number % 2 else b"other"
        client.post(b"%d" % number, path=b"/models/%s/invoke" % name)
        assert client.answer().body == b"%d" % number
    client.post(b"x", path=b"/models/none/invoke")
    assert client.answer().status == 404
    client.send(b"GET /ping HTTP/1.1\r\nhost: x\r\n\r\n")
    assert client.answer().status == 200
    assert router.unload("other").status == 200


def test_pipelined_requests_are_answered_in_order(router):
    client = router.client()
    for number in range(9):
        client.post(b"%d" % number, path=b"/models/m/invoke")
    assert [client.answer().body for _ in range(9)] == [b"%d" % number for number in range(9)]


def test_no_answer_is_crossed_in_parallel_traffic(router):
    def talk(number):
        client = router.client()
        got = []
        for turn in range(50):
            client.post(b"%d.%d" % (number, turn), path=b"/models/m/invoke")
            got.append(client.answer().body)
        return got

    answers = in_parallel(*(lambda number=number: talk(number) for number in range(16)))
    assert answers == [[b"%d.%d" % (number, turn) for turn in range(50)] for number in range(16)]


BODY = hashlib.sha256(b"seed").digest() * (100 * (1 << 20) // 32)


def peak(pid):
    return int(re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())[1]) // 1024


def stalled(pid):
    """Whether a process writes nothing for a while: it has written all, or nobody takes more."""
    io = Path(f"/proc/{pid}/io")
    before = io.read_text()
    time.sleep(0.2)
    return re.search("wchar.*", io.read_text())[0] == re.search("wchar.*", before)[0]


@pytest.mark.parametrize("chunked", [False, True])
def test_body_of_a_hundred_megabytes_passes_without_being_held(router, chunked):
    body = (BODY[start : start + (1 << 20)] for start in range(0, len(BODY), 1 << 20)) if chunked else BODY
    before = peak(router.pid)
    answer = router.invoke("m", body, mode="size", Content_Type="application/octet-stream")
    assert answer.body.decode() == f"{len(BODY)} {zlib.crc32(BODY)}"
    assert peak(router.pid) - before < 20


def test_answer_of_a_hundred_megabytes_passes_without_being_held(router):
    """Also to a client that does not read yet."""
    before = peak(router.pid)
    client = router.client()
    client.post(b"104857600", b"mode: large", b"content-type: text/plain", path=b"/models/m/invoke")
    head = client.until(b"\r\n\r\n")
    assert b"content-length: 104857600" in head.lower()
    assert router.ping() == 200
    wait_for(lambda: all(stalled(pid) for pid in router.family()))
    assert len(client.exactly(104857600)) == 104857600
    assert peak(router.pid) - before < 20


def test_too_large_a_body_is_refused_with_both_sizes(router):
    client = router.client()
    client.send(b"POST /models/m/invoke HTTP/1.1\r\nhost: x\r\ncontent-length: 200000000\r\n\r\n")
    client.send(b"x" * 70000)
    answer = client.answer()
    assert answer.status == 413
    assert "200000000" in answer.error["message"]
    assert "134217728" in answer.error["message"]


def test_continue_is_answered(router):
    client = router.client()
    client.send(b"POST /models/m/invoke HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n")
    assert client.answer().status == 100
    client.send(b"ok")
    assert client.answer().body == b"ok"
    # Nobody sends a body to a model that is not there.
    client.send(b"POST /models/none/invoke HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n")
    assert client.answer().status == 404


def test_items_of_a_stream_come_as_they_are_made(router, folder):
    client = router.client().post(b"3", b"mode: stream", path=b"/models/m/invoke")
    (folder / "go 0").touch()
    head = client.until(b"\r\n\r\n").lower()
    assert b"transfer-encoding: chunked" in head
    items = client.chunks()
    for number in range(3):
        (folder / f"go {number}").touch()
        assert next(items) == b"item %d\n" % number
    assert list(items) == []
    # And the connection goes on.
    assert client.post(b"x", path=b"/models/m/invoke").answer().body == b"x"


def test_model_stops_when_the_client_has_gone(router, folder):
    client = router.client().post(b"1000000", b"mode: stream", path=b"/models/m/invoke")
    for number in range(2):
        (folder / f"go {number}").touch()
    client.until(b"item 1\n")
    client.close()
    numbers = itertools.count(2)

    def closed():
        (folder / f"go {next(numbers)}").touch()
        return (folder / "closed").exists()

    wait_for(closed, router)
    assert router.invoke("m", "still there").body == b"still there"


def test_stream_that_breaks_is_cut_short(router):
    client = router.client().post(b"", b"mode: break", path=b"/models/m/invoke")
    client.until(b"the beginning\r\n")
    with pytest.raises(ConnectionError):
        client.until(b"0\r\n\r\n")
    assert "in the middle" in router.log
    assert router.invoke("m", "x").status == 200


def test_client_that_goes_in_the_middle_of_its_body(router):
    client = router.client()
    client.send(b"POST /models/m/invoke HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\nhalf")
    client.close()
    assert router.invoke("m", "x").status == 200
    # No request keeps the model from being unloaded.
    router.loaded("short", MODEL)
    client = router.client()
    client.send(b"POST /models/short/invoke HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\nhalf")
    wait_for(lambda: router.invoke("short", "x").status == 200)
    client.close()
    assert router.unload("short").status == 200


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET /ping HTTP/1.1\r\nhost: x\r\nlong: " + b"x" * 70000, 431),
        (b"POST /models/m/invoke HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n", 400),
        (b"GET /models/\xff HTTP/1.1\r\nhost: x\r\n\r\n", 400),
    ],
    ids=["no HTTP", "large head", "two lengths", "no ASCII"],
)  # fmt: skip
def test_unreadable_requests_are_refused_in_json(router, request_, status):
    client = router.client().send(request_)
    answer = client.answer()
    assert (answer.status, answer.error["code"]) == (status, status)
    assert client.ended()
    assert router.ping() == 200


def test_invocations_without_a_model_name(router):
    answer = router.post("x")
    assert answer.status == 400
    assert "/models/NAME/invoke" in answer.error["message"]
