"""Asynchronous requests by boto3's client: what is answered at once, and what lies in S3 later."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from slipway.emulator import asynchronous
from slipway.emulator.asynchronous import AsyncInvocations
from slipway.emulator.exchange import Answer, Request
from slipway.emulator.runtime import Endpoint, RuntimeServer

LONG = 60.0


class Container:
    """Stands for a container: keeps what it was asked, and answers as `answer` says."""

    log = Path("log")

    def __init__(self, answer: Callable[[Request], Answer]) -> None:
        self.asked: list[Request] = []
        self._answer = answer

    def call(self, request: Request) -> Answer:
        self.asked.append(request)
        return self._answer(request)


def upper(request: Request) -> Answer:
    if request.body == b"fail":
        return Answer(418, {}, b"its own reason")
    return Answer(200, {"content-type": "text/plain"}, request.body.upper())


@pytest.fixture(autouse=True)
def inputs(bucket: Any) -> None:
    for name in ("one", "two", "three", "fail"):
        bucket.put_object(Bucket="bucket", Key=f"in/{name}", Body=name.encode())


@contextlib.contextmanager
def served(container: Container, **options: Any) -> Iterator[tuple[Any, AsyncInvocations]]:
    """boto3's client of an endpoint with a queue, and the queue."""
    endpoint = Endpoint("e", (container,))  # type: ignore[arg-type]
    waiting = AsyncInvocations(endpoint, "s3://bucket/out/", **options)
    with runtime(RuntimeServer(endpoint, take=waiting.take)) as client:
        yield client, waiting
    waiting.close()


@contextlib.contextmanager
def runtime(server: RuntimeServer) -> Iterator[Any]:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    once = Config(retries={"total_max_attempts": 1})
    try:
        yield boto3.client("sagemaker-runtime", endpoint_url=server.url, config=once)
    finally:
        server.shutdown()
        server.server_close()


def ask(client: Any, name: str = "one", **more: Any) -> Any:
    return client.invoke_endpoint_async(EndpointName="e", InputLocation=f"s3://bucket/in/{name}", **more)


def content(bucket: Any, location: str) -> bytes:
    """An object's content; it is where a client was told that it would be."""
    assert location.startswith("s3://bucket/out/")
    body: bytes = bucket.get_object(Bucket="bucket", Key=location.removeprefix("s3://bucket/"))["Body"].read()
    return body


def outputs(bucket: Any) -> int:
    return int(bucket.list_objects_v2(Bucket="bucket", Prefix="out/")["KeyCount"])


def test_it_is_accepted_at_once_and_its_answer_comes_to_s3(bucket: Any) -> None:
    begin = threading.Event()

    def wait(request: Request) -> Answer:
        assert begin.wait(LONG)
        return upper(request)

    container = Container(wait)
    with served(container) as (client, waiting):
        told = ask(
            client, ContentType="text/x", Accept="text/y", CustomAttributes="a=b", InferenceId="mine",
            Filename="answer.txt", S3OutputPathExtension="deep/er", InvocationTimeoutSeconds=77,
        )  # fmt: skip
        assert told["ResponseMetadata"]["HTTPStatusCode"] == 202
        assert (told["InferenceId"], told["OutputLocation"]) == ("mine", "s3://bucket/out/deep/er/answer.txt")
        inline = client.invoke_endpoint_async(EndpointName="e", Body=b"with it")
        assert outputs(bucket) == 0, "nothing was done before the answer"
        begin.set()
        waiting.close()
    assert content(bucket, told["OutputLocation"]) == b"ONE"
    assert content(bucket, inline["OutputLocation"]) == b"WITH IT"
    assert outputs(bucket) == 2, "no failure is told of"
    assert inline["InferenceId"] and inline["OutputLocation"] != inline["FailureLocation"]
    first, second = container.asked
    assert first.headers == {
        "content-type": "text/x",
        "accept": "text/y",
        "x-amzn-sagemaker-custom-attributes": "a=b",
        "x-amzn-sagemaker-inference-id": "mine",
    }
    assert (first.path, first.timeout, second.timeout) == ("/invocations", 77, 900)


def test_one_after_the_other_in_order_and_a_failure_stops_none(bucket: Any) -> None:
    heard: list[str] = []
    container = Container(upper)
    with served(container, on_event=heard.append) as (client, waiting):
        told = [ask(client, name, InferenceId=name) for name in ("two", "fail", "none", "one")]
        waiting.close()
    assert [request.body for request in container.asked] == [b"two", b"fail", b"one"]
    assert content(bucket, told[0]["OutputLocation"]) == b"TWO"
    assert content(bucket, told[1]["FailureLocation"]) == b"the model answered 418: its own reason"
    assert b"s3://bucket/in/none" in content(bucket, told[2]["FailureLocation"])
    assert content(bucket, told[3]["OutputLocation"]) == b"ONE"
    assert outputs(bucket) == 4, "an answer or a failure of each, not both"
    assert [line.split(":")[0] for line in heard] == ["two", "fail", "none", "one"]


def test_no_more_at_once_than_wanted() -> None:
    both, begin = threading.Barrier(3), threading.Event()

    def meet(request: Request) -> Answer:
        both.wait(LONG)
        assert begin.wait(LONG)
        return upper(request)

    container = Container(meet)
    with served(container, concurrent=2) as (client, waiting):
        for name in ("one", "two", "three", "one"):
            ask(client, name)
        both.wait(LONG)
        assert sorted(request.body for request in container.asked) == [b"one", b"two"]
        begin.set()
        both.wait(LONG)
        waiting.close()
    assert len(container.asked) == 4


def test_too_large_and_too_late(bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert asynchronous.LARGEST_INPUT == 1 << 30
    monkeypatch.setattr(asynchronous, "LARGEST_INPUT", 3)
    now = [0.0]
    container = Container(upper)
    with served(container, clock=lambda: now[0]) as (client, waiting):
        fits, large = ask(client, "one"), ask(client, "three")
        waiting.close()
    assert content(bucket, fits["OutputLocation"]) == b"ONE"
    assert b"s3://bucket/in/three has 5 bytes; 3 are taken" in content(bucket, large["FailureLocation"])

    first, begin = threading.Event(), threading.Event()

    def wait(request: Request) -> Answer:
        first.set()
        assert begin.wait(LONG)
        return upper(request)

    with served(Container(wait), clock=lambda: now[0]) as (client, waiting):
        ask(client, "one")
        assert first.wait(LONG)
        late, patient = ask(client, "two", RequestTTLSeconds=60), ask(client, "two", RequestTTLSeconds=61)
        now[0] = 60.5
        begin.set()
        waiting.close()
    assert b"expired in the queue" in content(bucket, late["FailureLocation"])
    assert content(bucket, patient["OutputLocation"]) == b"TWO"


def test_a_place_that_cannot_be_written_is_told_of_here(bucket: Any) -> None:
    heard: list[str] = []
    container = Container(upper)
    waiting = AsyncInvocations(
        Endpoint("e", (container,)),  # type: ignore[arg-type]
        "s3://no-such-bucket/out",
        on_event=heard.append,
    )
    waiting.take({"x-amzn-sagemaker-inference-id": "i", "content-type": "of/the-call"}, b"x")
    waiting.close()
    assert container.asked[0].headers == {"x-amzn-sagemaker-inference-id": "i"}, "what the call is of, its input is not"
    assert len(heard) == 2 and all(
        line.startswith("i: ") and "no bucket for s3://no-such-bucket/out" in line for line in heard
    )


def test_what_the_service_refuses(bucket: Any) -> None:
    container = Container(upper)
    with served(container) as (client, waiting):
        for more, what in (
            ({}, "an InputLocation or a Body"),
            ({"InputLocation": "s3://bucket/in/one", "Body": b"x"}, "and not both"),
            ({"Body": b"x" * 128_001}, "128,001 bytes"),
            ({"InputLocation": "https://bucket/in/one"}, "inputlocation"),
            ({"InputLocation": "s3://bucket/in/one", "Filename": "../x"}, "filename"),
            ({"InputLocation": "s3://bucket/in/one", "S3OutputPathExtension": "s3:x"}, "s3outputpathextension"),
        ):
            with pytest.raises(ClientError, match=what) as refused:
                client.invoke_endpoint_async(EndpointName="e", **more)
            assert refused.value.response["Error"]["Code"] == "ValidationError"
        waiting.close()
        with pytest.raises(ClientError, match="is being stopped"):
            ask(client)
    for name, text in (
        ("requestttlseconds", "59"),
        ("requestttlseconds", "21601"),
        ("invocationtimeoutseconds", "3601"),
    ):
        with pytest.raises(asynchronous.InputError, match=name):
            waiting.take({f"x-amzn-sagemaker-{name}": text}, b"x")
    with (
        runtime(RuntimeServer(Endpoint("e", (container,)))) as client,  # type: ignore[arg-type]
        pytest.raises(ClientError, match="takes no asynchronous requests"),
    ):
        ask(client)
    assert not container.asked
