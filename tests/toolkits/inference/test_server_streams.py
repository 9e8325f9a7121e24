"""Answers that come piece by piece, functions that are async, requests that are put together."""

from __future__ import annotations

import json
import os
import signal

import pytest

from . import serving

FUNCTIONS = """
    import os, time
    base = os.environ["SAGEMAKER_BASE_DIR"]

    def note(text):
        with open(base + "/notes", "a") as file:
            file.write(text + "\\n")

    def wait(name):
        while not os.path.exists(base + "/" + name):
            time.sleep(0.002)

    def model_fn(model_dir):
        return None
"""

STREAM = (
    FUNCTIONS
    + """
    def transform_fn(model, data, content_type, accept):
        word = data if isinstance(data, str) else bytes(data).decode()
        return getattr(__import__("sys").modules[__name__], word)(), "text/plain"

    def three():
        for number in range(3):
            yield f"item {number};"

    def paced():
        yield "first;"
        wait("second")
        yield "second;"

    def breaks():
        yield "first;"
        raise ValueError("in the middle")

    def breaks_early():
        raise ValueError("before the first")
        yield

    def asked():
        try:
            yield "first;"
            wait("left")
            yield "second;"
            note("asked for a third")
            yield "third;"
        finally:
            note("asked closed")

    def forever():
        try:
            while True:
                note("item")
                yield "x" * 1000
        finally:
            note("closed")
"""
)

ASYNC_STREAM = STREAM.replace("    def ", "    async def ").replace("async def note", "def note")
ASYNC_STREAM = ASYNC_STREAM.replace("async def wait", "def wait").replace("async def model_fn", "def model_fn")
ASYNC_STREAM = ASYNC_STREAM.replace('wait("second")', 'await __import__("asyncio").to_thread(wait, "second")')
ASYNC_STREAM = ASYNC_STREAM.replace('wait("left")', 'await __import__("asyncio").to_thread(wait, "left")')
ASYNC_STREAM = ASYNC_STREAM.replace("while True:", 'while True:\n                await __import__("asyncio").sleep(0)')


@pytest.fixture(params=[STREAM, ASYNC_STREAM], ids=["sync", "async"], scope="module")
def server(request, tmp_path_factory):
    one = serving.make(tmp_path_factory.mktemp("stream"), request.param)
    yield one.start().ready()
    one.close()


@pytest.fixture
def start(tmp_path):
    servers = []

    def started(code: str, **variables: str) -> serving.Server:
        one = serving.make(tmp_path, code, **variables)
        servers.append(one)
        return one.start()

    yield started
    for one in servers:
        one.close()


def test_each_item_is_a_chunk(server):
    client = server.client().post(b"three")
    head = client.until(b"\r\n\r\n")
    assert b"transfer-encoding: chunked" in head
    assert list(client.chunks()) == [b"item 0;", b"item 1;", b"item 2;"]
    assert client.post(b"three").answer().body == b"item 0;item 1;item 2;"


def test_an_item_is_sent_when_it_is_made(server):
    client = server.client().post(b"paced")
    client.until(b"\r\n\r\n")
    chunks = client.chunks()
    assert next(chunks) == b"first;"
    (server.base / "second").touch()
    assert list(chunks) == [b"second;"]


def test_an_error_after_the_first_item_breaks_the_connection(server):
    client = server.client().post(b"breaks")
    assert b" 200 " in client.until(b"\r\n\r\n")
    with pytest.raises(ConnectionError):
        list(client.chunks())
    assert "in the middle" in server.log
    assert server.post(b"three").status == 200


def test_an_error_before_the_first_item_is_an_ordinary_answer(server):
    client = server.client().post(b"breaks_early")
    answer = client.answer()
    assert answer.status == 500
    assert "before the first" in answer.error["message"]
    assert client.post(b"three").answer().status == 200


def test_a_client_that_leaves_ends_the_generator(server):
    notes = server.base / "notes"
    client = server.client().post(b"forever")
    client.until(b"\r\n\r\n")
    next(client.chunks())
    client.close()
    serving.wait_for(lambda: "closed" in notes.read_text(), server)
    assert server.post(b"three").status == 200


def test_no_item_is_made_after_the_one_that_found_the_client_gone(server):
    notes = server.base / "notes"
    client = server.client().post(b"asked")
    client.until(b"\r\n\r\n")
    next(client.chunks())
    client.close()
    (server.base / "left").touch()
    serving.wait_for(lambda: notes.exists() and "asked closed" in notes.read_text(), server)
    assert "asked for a third" not in notes.read_text()


def test_http_1_0_gets_a_stream_as_a_whole(server):
    client = server.client()
    client.send(b"POST /invocations HTTP/1.0\r\ncontent-length: 5\r\n\r\nthree")
    assert client.answer().body == b"item 0;item 1;item 2;"


def test_a_worker_that_dies_in_a_stream_breaks_the_connection(start, tmp_path):
    server = start(STREAM).ready()
    client = server.client().post(b"paced")
    client.until(b"\r\n\r\n")
    chunks = client.chunks()
    assert next(chunks) == b"first;"
    os.kill(server.workers()[0], signal.SIGKILL)
    with pytest.raises(ConnectionError):
        next(chunks)
    assert server.post(b"three").status == 200


def test_async_functions_run_side_by_side(start):
    code = (
        FUNCTIONS
        + """
    import asyncio
    async def transform_fn(model, data, content_type, accept):
        note("begun")
        while open(base + "/notes").read().count("begun") < 5:
            await asyncio.sleep(0.002)
        return data, accept
    """
    )
    server = start(code).ready()
    clients = [server.client().post(b"%d" % number) for number in range(5)]
    assert [client.answer().body for client in clients] == [b"%d" % number for number in range(5)]


def test_an_async_request_over_the_limit_gets_504_and_its_worker_lives(start):
    code = (
        FUNCTIONS
        + """
    import asyncio
    async def transform_fn(model, data, content_type, accept):
        await asyncio.sleep(1000 if b"long" in bytes(data) else 0)
        return str(os.getpid()), "text/plain"
    """
    )
    server = start(code, SAGEMAKER_MODEL_SERVER_TIMEOUT="1").ready()
    before = server.post(b"short", Content_Type="application/x").body
    answer = server.post(b"long", Content_Type="application/x")
    assert (answer.status, answer.error["type"]) == (504, "Timeout")
    assert server.post(b"short", Content_Type="application/x").body == before


def test_an_async_function_that_blocks_its_loop_is_ended(start):
    code = (
        FUNCTIONS
        + """
    async def transform_fn(model, data, content_type, accept):
        if b"long" in bytes(data):
            time.sleep(1000)
        return str(os.getpid()), "text/plain"
    """
    )
    server = start(code, SAGEMAKER_MODEL_SERVER_TIMEOUT="1").ready()
    assert server.post(b"long", Content_Type="application/x").status == 504
    assert server.post(b"short", Content_Type="application/x").status == 200


BATCH = (
    FUNCTIONS
    + """
    from sagemaker_inference.errors import GenericInferenceToolkitError
    def input_fn(data, content_type):
        if b"bad" in bytes(data):
            raise GenericInferenceToolkitError(422, "a bad one")
        return bytes(data).decode()
    def batch_predict_fn(inputs, model):
        note(str(len(inputs)))
        if "die" in inputs:
            os.kill(os.getpid(), 9)
        return [text.upper() for text in inputs]
    def output_fn(prediction, accept):
        return prediction, "text/plain"
    """
)


def test_requests_in_a_batch_get_their_own_answers(start, tmp_path):
    server = start(BATCH, SLIPWAY_BATCH_SIZE="4", SLIPWAY_MAX_BATCH_DELAY_MS="10000").ready()
    clients = [server.client() for _ in range(12)]
    bodies = (b"a", b"bad", *(b"%c" % letter for letter in b"cdefghijkl"))
    for client, body in zip(clients, bodies, strict=True):
        client.post(body, b"content-type: application/x")
    answers = [client.answer() for client in clients]
    assert [answer.status for answer in answers] == [200, 422] + [200] * 10
    assert b"".join(answer.body for answer in answers if answer.status == 200) == b"ACDEFGHIJKL"
    # Three calls of four, without the one that could not be read; batch_size took effect.
    assert sorted((tmp_path / "notes").read_text().split()) == ["3", "4", "4"]
    assert "batch_size = 4 (SLIPWAY_BATCH_SIZE)" in server.log


def test_a_batch_that_does_not_fill_runs_after_the_delay(start, tmp_path):
    server = start(BATCH, SLIPWAY_BATCH_SIZE="4", SLIPWAY_MAX_BATCH_DELAY_MS="20").ready()
    assert server.post(b"a", Content_Type="application/x").body == b"A"
    client = server.client()
    for _ in range(3):  # pipelined: one after the other
        client.post(b"p", b"content-type: application/x")
    assert [client.answer().body for _ in range(3)] == [b"P"] * 3


def test_a_worker_that_dies_in_a_batch_answers_all_of_it(start, tmp_path):
    server = start(BATCH, SLIPWAY_BATCH_SIZE="3", SLIPWAY_MAX_BATCH_DELAY_MS="10000").ready()
    clients = [server.client().post(body, b"content-type: application/x") for body in (b"a", b"die", b"c")]
    answers = [client.answer() for client in clients]
    assert [answer.status for answer in answers] == [500] * 3
    assert all("signal 9" in answer.error["message"] for answer in answers)


def test_a_batch_size_without_a_function_for_batches_is_said(start):
    server = start(serving.ECHO, SAGEMAKER_TS_BATCH_SIZE="3").ready()
    assert json.loads(server.post(b"[1]").body) == [1]
    assert "batch_size=3 has no effect" in server.log
