"""What a request may be, how it is answered, and who hears of what goes wrong."""

from __future__ import annotations

import http.client
import json
import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from slipway.emulator import metrics
from slipway.emulator.exchange import Answer, Request
from slipway.emulator.meter import Meter
from slipway.emulator.metrics import MetricValue
from slipway.verify.endpoints import Hosted, until
from slipway.verify.inspection import Inspection


def message(answer: Answer) -> str:
    """The text of an error, which is JSON with the reason in it."""
    assert answer.content_type.startswith("application/json"), (
        f"an error came as {answer.content_type}: {answer.text()}"
    )
    told: Any = json.loads(answer.body)
    error = told.get("error", told)
    return str(error.get("message", error) if isinstance(error, dict) else error)


def test_requests_large(hosted: Hosted) -> None:
    body = os.urandom(30 << 20)
    answer = hosted.post(body, "application/octet-stream")
    assert answer.status == 200 and answer.body == body, f"30 MB came back as {answer.status} {answer.text(200)}"


def test_requests_forms(hosted: Hosted) -> None:
    try:
        forms(hosted.serving.port)
    except (OSError, http.client.HTTPException) as error:
        raise AssertionError(f"the connection broke: {type(error).__name__}: {error}") from None


def forms(port: int) -> None:
    """Chunked bodies on a kept connection, and a body that waits to be asked for."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        for number in range(3):
            parts = iter([b'{"do": "ec', b'ho", "n": %d}' % number])
            connection.request("POST", "/invocations", parts, {"Content-Type": "application/json"}, encode_chunked=True)
            answer = connection.getresponse()
            found = json.loads(answer.read())
            assert answer.status == 200 and found["n"] == number, f"a chunked body on a kept connection: {found}"
    finally:
        connection.close()
    with socket.create_connection(("127.0.0.1", port), timeout=20) as raw:
        raw.sendall(
            b"POST /invocations HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: 14\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
        )
        raw.settimeout(5)
        try:
            first = raw.recv(100)
        except TimeoutError:
            first = b"nothing within 5 s"
        raw.settimeout(20)
        assert first.startswith(b"HTTP/1.1 100"), f"Expect: 100-continue is answered with {first!r}"
        raw.sendall(b'{"do": "echo"}')
        assert b" 200 " in raw.recv(1000), "the body after 100-continue was not taken"


def test_requests_together(hosted: Hosted) -> None:
    def ask(number: int) -> tuple[int, int]:
        return number, hosted.seen("sleep", seconds=0.01, n=number)["n"]

    with ThreadPoolExecutor(16) as pool:
        crossed = [pair for pair in pool.map(ask, range(100)) if pair[0] != pair[1]]
    assert not crossed, f"answers went to other requests: {crossed[:5]}"


def test_errors_raised(hosted: Hosted) -> None:
    answer = hosted.do("raise", text="the reason is here")
    assert answer.status == 500, f"an exception in predict_fn is answered with {answer.status}"
    assert "the reason is here" in message(answer), f"the answer does not tell the reason: {answer.text()}"
    assert "Traceback" not in answer.text(5000), "the answer holds a traceback"
    until(lambda: "ValueError: the reason is here" in hosted.log(), "the log has no traceback of the exception")


def test_errors_own(hosted: Hosted) -> None:
    answer = hosted.do("refuse", status=422, text="not like this")
    assert (answer.status, message(answer)) == (422, "not like this"), f"{answer.status} {answer.text()}"


def test_errors_killed(hosted: Hosted) -> None:
    before = hosted.seen()["process"]
    answer = hosted.do("die")
    assert answer.status >= 500, f"a request whose worker was killed is answered with {answer.status}"
    assert message(answer), "without a reason"
    began = time.monotonic()
    until(lambda: hosted.do("see").status == 200, "no worker came back", seconds=30.0)
    after = hosted.seen()["process"]
    assert after != before, "the worker's process did not die"
    assert not hosted.serving.ended.is_set(), f"the container ended {time.monotonic() - began:.1f} s after a worker"


def test_types_answers(plain_hosted: Hosted) -> None:
    wanted = [[1.5, 2.0], [3.0, 4.0]]
    for accept in (None, "*/*", "application/json", "text/html, application/json;q=0.5"):
        answer = plain_hosted.post(b"[[1.5, 2], [3, 4]]", accept=accept)
        assert answer.status == 200, f"Accept {accept}: {answer.status} {answer.text()}"
        assert json.loads(answer.body) == wanted, f"Accept {accept}: {answer.text()}"
        assert answer.content_type.partition(";")[0] == "application/json", f"Accept {accept}: {answer.content_type}"


def test_types_refused(plain_hosted: Hosted) -> None:
    wrong = []
    for what, answer, status in (
        ("an unknown content type", plain_hosted.post(b"x", "application/x-unknown"), 415),
        ("an Accept that nothing meets", plain_hosted.post(b"[1]", accept="application/x-unknown"), 406),
        ("a body that is no JSON", plain_hosted.post(b'{"a": '), 400),
    ):
        if answer.status != status:
            wrong.append(f"{what} is answered with {answer.status}, not {status}: {answer.text()}")
        elif not message(answer):
            wrong.append(f"{what} is refused without a reason")
    assert not wrong, "\n".join(wrong)


def test_streams_parts(hosted: Hosted) -> None:
    request = Request(
        "POST", "/invocations", b'{"do": "stream", "parts": 3, "pause": 0.4}', {"Content-Type": "application/json"}
    )
    arrived, text = [], b""
    with hosted.serving.stream(request) as (head, parts):
        assert head.status == 200, f"a stream is answered with {head.status}"
        assert head.content_type.startswith("text/event-stream"), f"its type is {head.content_type}"
        for part in parts:
            arrived.append(time.time())
            text += part
    *lines, made = text.decode().splitlines()
    assert lines == ["part 0", "part 1", "part 2"], f"the parts are {lines}"
    late = arrived[0] - json.loads(made)[0]
    assert late < 0.35, f"the first part came {late:.1f} s after it was made: parts are gathered, not streamed"


def test_batches_parameters(hosted: Hosted) -> None:
    answer = hosted.serving.call(Request("GET", "/execution-parameters"))
    assert answer.status == 200, f"/execution-parameters: {answer.status}"
    told = json.loads(answer.body)
    assert told.get("MaxConcurrentTransforms") == 1, f"with one worker it says {told}"
    assert told["MaxConcurrentTransforms"] * told.get("MaxPayloadInMB", 6) <= 100, f"over 100 MB at once: {told}"


def test_batches_lines(plain_hosted: Hosted) -> None:
    body = b"".join(b"[%d, 1.5]\n" % number for number in range(50))
    answer = plain_hosted.post(body, "application/jsonlines", "application/jsonlines")
    assert answer.status == 200, f"{answer.status} {answer.text()}"
    lines = answer.body.decode().split("\n")
    lines = lines[:-1] if lines[-1] == "" else lines
    assert [json.loads(line)[0] for line in lines] == list(range(50)), f"50 records gave {len(lines)}: {lines[:3]}"


def test_programs_lean(looked: Inspection) -> None:
    found = {"openjdk", "multi-model-server", "torchserve"} & looked.facts["packages"].keys()
    assert not found and not looked.programs.get("java"), "a JVM server is in the image"


def test_metrics_lines(hosted: Hosted, tmp_path: Path) -> None:
    text = hosted.seen()["metrics"]
    assert text, "the server brings no definitions of metrics along (metrics.tsv of its package)"
    shipped = tmp_path / "metrics.tsv"
    shipped.write_text(text)
    definitions = metrics.read(shipped).definitions

    def read() -> tuple[dict[str, float], list[str]]:
        """The sum of each metric's values so far, and what is wrong with its definition."""
        sums = dict.fromkeys((definition.name for definition in definitions), 0.0)

        def add(value: MetricValue) -> None:
            sums[value.name] += value.value

        meter = Meter(definitions, add)
        meter.feed(hosted.log())
        return sums, [str(problem) for problem in meter.problems()]

    before, _ = read()
    for _ in range(3):
        assert hosted.do("nothing").status == 200
    assert hosted.do("raise", text="for the metrics").status == 500

    def counted() -> bool:
        now, _ = read()
        new = {name: now[name] - before[name] for name in now}
        return new.get("serve:requests", 0) >= 4 and new.get("serve:server-errors", 0) >= 1

    until(counted, "four requests and an error did not come into the log's metrics")
    sums, problems = read()
    assert not problems, "\n".join(problems)
    assert sums["serve:latency-mean-ms"] > 0 and sums["serve:latency-p99-ms"] > 0
