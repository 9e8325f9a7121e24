"""Metrics on an opt-in path, and the log as JSON lines."""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal

import pytest
import sagemaker_inference

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


def samples(text: str) -> dict[str, float]:
    """Each line is a comment or a name with labels and a number."""
    found = {}
    for line in text.splitlines():
        if not line.startswith("# "):
            name, _, value = line.rpartition(" ")
            assert re.fullmatch(r'[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})?', name), line
            found[name] = float(value)
    return found


def test_metrics_add_up_over_workers_and_their_deaths(start):
    code = """
        from sagemaker_inference.errors import GenericInferenceToolkitError
        def model_fn(model_dir):
            return None
        def transform_fn(model, data, content_type, accept):
            if data == "bad":
                raise GenericInferenceToolkitError(422, "no")
            return data, accept
    """
    server = start(code, SLIPWAY_METRICS_PATH="/metrics", SAGEMAKER_MODEL_SERVER_WORKERS="2").ready()
    serving.wait_for(lambda: server.log.count("ready after") == 2, server)
    for _ in range(5):
        assert server.post("1", Content_Type="text/csv").status == 200
    assert server.post("bad", Content_Type="text/csv").status == 422
    # A worker counts when it has answered.
    serving.wait_for(lambda: b"slipway_request_seconds_count 6" in server.get("/metrics").body, server)
    os.kill(server.workers()[0], signal.SIGKILL)
    serving.wait_for(lambda: server.log.count("ready after") == 3, server)
    answer = server.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = samples(answer.body.decode())
    assert found['slipway_requests_total{code="2xx"}'] == 5
    assert found['slipway_requests_total{code="4xx"}'] == 1
    assert found["slipway_request_seconds_count"] == 6
    assert found['slipway_request_seconds_bucket{le="+Inf"}'] == 6
    assert 0 < found["slipway_request_seconds_sum"] < serving.BOUND
    assert found["slipway_worker_deaths_total"] == 1
    assert found["slipway_workers_ready"] == found["slipway_workers_planned"] == 2
    assert found["slipway_queue_length"] == 0
    assert found['slipway_model_load_seconds{worker="0"}'] > 0
    assert found['slipway_worker_memory_bytes{worker="1"}'] > 1 << 20


def test_a_queue_is_told_by_its_length_and_by_what_it_refused(start, tmp_path):
    code = """
        import os, time
        def model_fn(model_dir):
            return None
        def transform_fn(model, data, content_type, accept):
            if data != "echo":
                time.sleep(0.05)  # a call that is younger may be done soon, so that the next request follows it
                open(data, "w").close()
                while os.path.exists(data):
                    time.sleep(0.005)
            return data, accept
    """
    server = start(code, SLIPWAY_METRICS_PATH="/metrics", SLIPWAY_QUEUE_SIZE="3").ready()

    def queue() -> tuple[float, float]:
        found = samples(server.get("/metrics").body.decode())
        return found["slipway_queue_length"], found["slipway_queue_refused_total"]

    held = tmp_path / "held"
    csv = b"content-type: text/csv"
    clients = [server.client().post(os.fsencode(held), csv)]
    serving.wait_for(held.exists, server)
    for length in range(1, 4):
        clients.append(server.client().post(b"echo", csv))
        serving.wait_for(lambda length=length: queue() == (length, 0), server)
    for refused in range(1, 3):
        assert server.post("echo", Content_Type="text/csv").status == 503
        assert queue() == (3, refused)
    held.unlink()
    assert [client.answer().status for client in clients] == [200] * 4
    assert queue() == (0, 2)


def test_what_user_functions_report_is_there_too(start):
    code = """
        import os
        def model_fn(model_dir):
            return None
        def transform_fn(model, data, content_type, accept, context):
            if data == "many":
                for number in range(600):
                    context.metrics.add_counter(f"n{number}", 1)
            context.metrics.add_time("tokenise", 2.5)
            context.metrics.add_counter('say "x"', float(data) if data != "many" else 0)
            return str(os.getpid()), "text/plain"
    """
    server = start(code, SLIPWAY_METRICS_PATH="/metrics", SAGEMAKER_MODEL_SERVER_WORKERS="2").ready()
    serving.wait_for(lambda: server.log.count("ready after") == 2, server)
    assert b"slipway_reported" not in server.get("/metrics").body
    workers = {server.post("2", Content_Type="text/csv").body for _ in range(2)}
    os.kill(int(workers.pop()), signal.SIGKILL)
    serving.wait_for(lambda: server.log.count("ready after") == 3, server)
    # What cannot be added up is in the log alone.
    assert server.post("nan", Content_Type="text/csv").status == 200
    text = server.get("/metrics").body.decode()
    assert '\nslipway_reported_sum{name="tokenise",unit="ms"} 7.5\n' in text
    assert '\nslipway_reported_count{name="tokenise",unit="ms"} 3\n' in text
    assert '\nslipway_reported_sum{name="say \\"x\\"",unit="count"} 4\n' in text
    assert server.log.count("metric tokenise=2.5 ms") == 3
    assert "=nan" in server.log
    # Names without end take no memory without end, and those that were there go on.
    assert server.post("many", Content_Type="text/csv").status == 200
    found = samples(server.get("/metrics").body.decode().replace('\\"', "'"))
    assert sum("slipway_reported_count" in name for name in found) == 500
    assert found['slipway_reported_count{name="tokenise",unit="ms"}'] == 4
    assert server.log.count("more than 500 metrics are reported") == 1


def test_without_the_setting_there_are_no_metrics(start):
    assert start().ready().get("/metrics").status == 404


def definitions() -> dict[str, str]:
    """The regexes that are shipped in the package, by the metric's name."""
    text = (pathlib.Path(sagemaker_inference.__file__).parent / "metrics.tsv").read_text()
    header, *rows = [line.split("\t") for line in text.splitlines()]
    assert header == ["metric_name", "metric_regex"]
    return dict(rows)


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_the_log_sums_up_what_was_served(start, log_format):
    code = """
        import os
        from sagemaker_inference.errors import GenericInferenceToolkitError
        def model_fn(model_dir):
            return None
        def transform_fn(model, data, content_type, accept):
            if data == "wrong":
                raise RuntimeError("wrong")
            if data == "refused":
                raise GenericInferenceToolkitError(422, "no")
            if data == "deadly":
                os._exit(1)
            return data, accept
    """
    server = start(code, SLIPWAY_LOG_FORMAT=log_format, SLIPWAY_METRICS_LOG_SECONDS="3600").ready()
    statuses = [server.post(data, Content_Type="text/csv").status for data in ("1", "2", "wrong", "refused")]
    assert statuses == [200, 200, 500, 422]
    assert server.post("deadly", Content_Type="text/csv").status >= 500
    serving.wait_for(lambda: server.log.count("ready after") == 2, server)
    server.terminate()
    assert server.wait() == 0
    found = {name: [float(value) for value in re.findall(regex, server.log)] for name, regex in definitions().items()}
    assert [found[f"serve:{name}"] for name in ("requests", "client-errors", "server-errors", "worker-deaths")] == [
        [4.0],
        [1.0],
        [1.0],
        [1.0],
    ]
    (mean,), (half,), (most,) = (found[f"serve:latency-{name}-ms"] for name in ("mean", "p50", "p99"))
    assert 0 < half <= most and mean > 0


def test_no_sum_unless_there_was_something(start):
    server = start(SLIPWAY_METRICS_LOG_SECONDS="0.1").ready()
    assert server.post("1").status == 200
    serving.wait_for(lambda: "served: requests=1 " in server.log, server)
    assert server.post("1").status == 200
    serving.wait_for(lambda: server.log.count("served: requests=1 ") == 2, server)
    server.terminate()
    assert server.wait() == 0
    assert server.log.count("served: ") == 2


def test_the_log_as_json_lines(start):
    code = """
        import logging
        def model_fn(model_dir):
            return None
        def transform_fn(model, data, content_type, accept):
            logging.getLogger("mine").warning("handling")
            raise RuntimeError("wrong")
    """
    server = start(code, SLIPWAY_LOG_FORMAT="json").ready()
    answer = server.post("1", X_Amzn_SageMaker_Inference_Id="client-1")
    entries = [json.loads(line) for line in server.log.splitlines()]
    mine = next(entry for entry in entries if entry["logger"] == "mine")
    assert (mine["inference_id"], mine["request_id"]) == ("client-1", answer.error["request_id"])
    failed = next(entry for entry in entries if "traceback" in entry)
    assert "RuntimeError: wrong" in failed["traceback"]
    assert not any("/ping" in entry["message"] for entry in entries)
