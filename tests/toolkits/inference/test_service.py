"""What becomes of requests: negotiation, bodies, errors, streams, async functions, contexts."""

from __future__ import annotations

import asyncio
import io
import json
import logging as python_logging
import threading
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sagemaker_inference import function_service, logging

from .conftest import Base, answer, request, unchanged_interpreter

ECHO = """
    def model_fn(model_dir): return None
    def input_fn(input_data, content_type): return input_data, content_type
    def predict_fn(data, model): return data
    def output_fn(prediction, accept): return repr((*prediction, accept))
"""

NUMBERS = """
    def model_fn(model_dir): return 2
    def predict_fn(data, model): return data * model
"""


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def echo(base, *arguments):
    if base.service is None:
        base.code(ECHO)
        base.load()
    return eval(base.post(*arguments).text)


def test_what_input_fn_gets_for_each_content_type(base):
    assert echo(base, b'{"a": 1}', "application/json")[:2] == ('{"a": 1}', "application/json")
    assert echo(base, b"1,2", "text/csv")[:2] == ("1,2", "text/csv")
    assert echo(base, "é".encode(), "text/csv")[0] == "é"
    assert echo(base, "é".encode("latin-1"), "text/csv; charset=latin-1")[:2] == ("é", "text/csv")
    assert echo(base, b"1,2", "Text/CSV;charset=utf-8")[:2] == ("1,2", "text/csv")
    for kind in ("image/png", "application/x-npy", "application/jsonlines", "text/plain"):
        assert echo(base, b"\xff\x00", kind)[:2] == (b"\xff\x00", kind)
    assert echo(base, b"x")[:2] == (b"x", None)


def test_accept_that_functions_get(base):
    assert echo(base, b"", None, None)[2] == "application/json"
    assert echo(base, b"", None, "*/*")[2] == "application/json"
    assert echo(base, b"", None, "text/csv;q=0.5, image/png")[2] == "text/csv;q=0.5, image/png"


def test_default_accept_is_set_by_variable(base):
    base.variables["SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT"] = "text/csv"
    assert echo(base, b"", None, None)[2] == "text/csv"
    assert base.post().kind == "text/csv"


@pytest.mark.parametrize(
    ("body", "kind", "accept", "out_kind", "out"),
    [
        (b"[1, 2]", "application/json", None, "application/json", b"[2, 4]"),
        (b"[1, 2]", None, None, "application/json", b"[2, 4]"),
        (b"1,2\n3,4", "text/csv", "text/csv", "text/csv", b"2,4\n6,8\n"),
        (b"1,2\n3,4", "TEXT/CSV; charset=utf-8", "application/json", "application/json", b"[[2, 4], [6, 8]]"),
        (b"[1]", "application/json", "application/x-npy", "application/x-npy", npy(np.array([2]))),
        (npy(np.arange(3)), "application/x-npy", "application/json", "application/json", b"[0, 2, 4]"),
        (b"[1]", "application/json", "text/csv;q=0.1, application/json", "application/json", b"[2]"),
        (b"[1]", "application/json", "image/png, text/*", "text/csv", b"2\n"),
        (b"[1]", "application/json", "text/csv;q=0.9", "text/csv", b"2\n"),
        (b"[[1], [2]]", "application/json", "application/jsonlines", "application/jsonlines", b"[2]\n[4]"),
        (b"[1]", "application/json", "*/*;q=0.1", "application/json", b"[2]"),
    ],
)
def test_default_codecs_and_the_type_of_the_answer(base, body, kind, accept, out_kind, out):
    base.code(NUMBERS)
    base.load()
    got = base.post(body, kind, accept)
    assert (got.status, got.kind, got.body) == (200, out_kind, out)


def test_json_lines_in_and_out(base):
    base.code("""
        def model_fn(model_dir): return None
        def predict_fn(data, model): return [{"n": record["n"] + 1} for record in data]
    """)
    base.load()
    got = base.post('{"n": 1}\n{"n": 2}\n', "application/jsonlines", "application/jsonlines")
    assert got.text == '{"n": 2}\n{"n": 3}'


@pytest.mark.parametrize(
    ("body", "kind", "accept", "status", "words"),
    [
        (b"[1", "application/json", None, 400, "line 1 column 3"),
        (b"\xff", "application/json", None, 400, "byte 0 is 0xff"),
        (b"1,2\n3", "text/csv", None, 400, "Line #2"),
        (b"junk", "application/x-npy", None, 400, "magic"),
        (b"x", "image/png", None, 415, "application/json"),
        (b"[1]", "application/json; charset=klingon", None, 415, "klingon"),
        (b"[1]", "application/json", "image/png", 406, "text/csv"),
        (b"[1]", "application/json", "application/json;q=0", 406, "text/csv"),
    ],
)
def test_requests_that_are_wrong(base, body, kind, accept, status, words):
    base.code(NUMBERS)
    base.load()
    got = base.post(body, kind, accept)
    assert (got.status, got.error["code"], got.error["request_id"]) == (status, status, "r-1")
    assert words in got.error["message"]
    assert base.post(b"[1]").status == 200


@pytest.mark.parametrize(
    ("result", "body", "kind"),
    [
        ("'é'", "é".encode(), "text/csv"),
        ("b'x'", b"x", "text/csv"),
        ("bytearray(b'x')", b"x", "text/csv"),
        ("memoryview(b'x')", b"x", "text/csv"),
        ("None", b"", "text/csv"),
        ("('x', 'image/png')", b"x", "image/png"),
        ("(b'x', None)", b"x", "text/csv"),
        ("(None, 'text/plain')", b"", "text/plain"),
        ("{'a': [1]}", b'{"a": [1]}', "text/csv"),
        ("('x', 'a/b\\r\\nset-cookie: 1')", b"x", "a/b set-cookie: 1"),
        ("('x', 'a/b; name=\\u20ac')", b"x", "a/b; name=?"),
    ],
)
@pytest.mark.parametrize("whole", [True, False])
def test_results_and_their_content_type(base, result, body, kind, whole):
    if whole:
        base.code(f"def model_fn(d): return 1\ndef transform_fn(m, d, c, a): return {result}")
    else:
        base.code(f"def model_fn(d): return 1\ndef predict_fn(d, m): return d\ndef output_fn(p, a): return {result}")
    base.load()
    got = base.post(b"[1]", None, "text/csv")
    assert (got.status, got.body, got.kind) == (200, body, kind)


@pytest.mark.parametrize("result", ["('x', 'y', 'z')", "('x', 3)", "()", "{1}"])
def test_results_that_are_no_answer(base, result):
    base.code(f"def model_fn(d): return 1\ndef predict_fn(d, m): return d\ndef output_fn(p, a): return {result}")
    base.load()
    got = base.post(b"[1]")
    assert (got.status, got.error["type"]) == (500, "TypeError")
    if result != "{1}":
        assert got.error["message"] == "output_fn returned a tuple that is not (body, content type)."


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("text/csv, application/json", "text/csv"),
        ("text/csv;q=0.1, image/png", "image/png"),
        ("text/*, image/png", "image/png"),
        ("text/*", "application/json"),
        ("*/*;q=0.5", "application/json"),
    ],
)
def test_answer_has_one_exact_type_whatever_the_accept_header(base, accept, kind):
    base.code(ECHO)
    base.load()
    assert base.post(b"", None, accept).kind == kind


def test_type_that_the_encoder_chose_is_the_answers(base):
    base.code("""
        from sagemaker_inference import encoder
        def model_fn(model_dir): return None
        def predict_fn(data, model): return data
        def output_fn(prediction, accept): return encoder.encode(prediction, accept)
    """)
    base.load()
    got = base.post(b"[1]", None, "image/png, text/csv")
    assert (got.kind, got.body) == ("text/csv", b"1\n")
    assert base.post(b"[1]", None, "image/png;q=0.5, application/*").kind == "application/json"


def test_choice_of_one_request_is_not_the_nexts(base):
    base.code("""
        from sagemaker_inference import encoder
        def model_fn(model_dir): return None
        def transform_fn(model, data, content_type, accept):
            return encoder.encode([1], accept) if data == b"1" else "text"
    """)
    base.load()
    assert base.post(b"1", None, "image/png, text/csv").kind == "text/csv"
    assert base.post(b"2", None, "image/png, text/csv").kind == "image/png"


# (statement in predict_fn, status, message, type)
FAILURES = [
    ("raise errors.BaseInferenceToolkitError(418, 'no tea', 'a\\r\\nb')", 418, "no tea", "BaseInferenceToolkitError"),
    ("raise errors.GenericInferenceToolkitError(422, 'bad age')", 422, "bad age", "GenericInferenceToolkitError"),
    ("raise errors.GenericInferenceToolkitError(400)", 400, "Invalid Request", "GenericInferenceToolkitError"),
    ("raise PredictionException('too long', 413)", 413, "too long", "PredictionException"),
    ("raise PredictionException('oops')", 500, "oops", "PredictionException"),
    ("raise PredictionException('oops', '413')", 413, "oops", "PredictionException"),
    ("raise errors.GenericInferenceToolkitError(99, 'x')", 500, "x", "GenericInferenceToolkitError"),
    (
        "raise errors.UnsupportedFormatError('a/b')",
        415,
        "Content type 'a/b' is not supported.",
        "UnsupportedFormatError",
    ),
    ("raise KeyError('gone')", 500, "'gone'", "KeyError"),
    ("raise ValueError", 500, "ValueError", "ValueError"),
    ("assert False", 500, "AssertionError", "AssertionError"),
    ("next(iter([]))", 500, "StopIteration", "StopIteration"),
    ("raise MemoryError('full')", 500, "full", "MemoryError"),
]


@pytest.mark.parametrize(("statement", "status", "message", "kind"), FAILURES, ids=lambda item: str(item)[:40])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_errors_in_user_code(base, caplog, statement, status, message, kind, asynchronous):
    base.code(f"""
        from mms.service import PredictionException
        from sagemaker_inference import errors
        def model_fn(model_dir): return None
        {"async " if asynchronous else ""}def predict_fn(data, model):
            {statement}
    """)
    base.load()
    got = base.post(b"[1]", X_Amzn_SageMaker_Inference_Id="mine-7")
    error = got.error
    if asynchronous and kind == "StopIteration":
        kind, message = "RuntimeError", "coroutine raised StopIteration"  # Python's own rule
    assert list(error) == ["message", "code", "type", "request_id"]
    assert (got.status, error["code"], error["message"], error["request_id"]) == (status, status, message, "r-1")
    assert error["type"] == kind
    assert b"Traceback" not in got.body
    assert "Request r-1 (inference id mine-7) failed with status" in caplog.text
    assert "in predict_fn" in caplog.text and statement.split("(")[0] in caplog.text


@pytest.mark.parametrize("name", ["input_fn", "predict_fn", "output_fn", "transform_fn"])
def test_status_of_an_error_is_honoured_in_every_function(base, name):
    arguments = {"transform_fn": "m, d, c, a"}.get(name, "a, b")
    base.code(f"""
        from sagemaker_inference import errors
        def model_fn(model_dir): return None
        {"" if name == "transform_fn" else "def predict_fn(data, model): return data"}
        def {name}({arguments}): raise errors.GenericInferenceToolkitError(402, "pay")
    """)
    base.load()
    assert (base.post(b"[1]").status, base.post(b"[1]").error["message"]) == (402, "pay")


def test_unsupported_format_means_another_status_while_answering(base):
    base.code("""
        from sagemaker_inference import errors
        def model_fn(model_dir): return None
        def predict_fn(data, model): return data
        def output_fn(prediction, accept): raise errors.UnsupportedFormatError(accept)
    """)
    base.load()
    assert base.post(b"[1]", None, "image/png").status == 406


OUT_OF_MEMORY = """
    class OutOfMemoryError(RuntimeError): pass
    def model_fn(model_dir): return None
    def predict_fn(data, model):
        kind, _, text = str(data).partition(":")
        kinds = {"memory": MemoryError, "cuda": OutOfMemoryError, "runtime": RuntimeError, "other": ValueError}
        raise kinds[kind](text)
"""


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("memory:x", 507),
        ("cuda:x", 507),
        ("runtime:CUDA error: out of memory", 507),
        ("runtime:[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory", 507),
        ("runtime:something else", 500),
        ("other:out of memory", 500),
    ],
)
def test_out_of_memory_is_507_with_many_models_only(base, body, status):
    base.code(OUT_OF_MEMORY)
    base.load()
    assert base.post(json.dumps(body)).status == 500
    base.variables["SAGEMAKER_MULTI_MODEL"] = "true"
    base.load()
    assert base.post(json.dumps(body)).status == status
    assert base.post("1").status == 500


def test_traceback_in_the_answer_only_when_asked_for(base):
    base.code("def model_fn(d): return 1\ndef predict_fn(d, m): raise KeyError('gone')")
    base.variables["SLIPWAY_DEBUG"] = "true"
    base.load()
    error = base.post(b"[1]").error
    assert next(iter(error)) == "message"
    assert "in predict_fn" in error["traceback"]


@pytest.mark.parametrize("error", ["SystemExit(3)", "KeyboardInterrupt()"])
def test_what_ends_the_process_is_left_to_end_it(base, error):
    base.code(f"def model_fn(d): return 1\ndef predict_fn(d, m): raise {error}")
    base.load()
    with pytest.raises((SystemExit, KeyboardInterrupt)):
        base.post(b"[1]")


def test_context_reads_every_header_and_shapes_the_answer(base):
    base.code("""
        import json
        def model_fn(model_dir, context): return context.system_properties["gpu_id"]
        def transform_fn(model, input_data, content_type, accept, context):
            context.set_response_status(201, "Made")
            context.set_response_header(0, "X-Amzn-SageMaker-Custom-Attributes", "a\\r\\nb: c")
            context.set_response_content_type(0, "text/plain")
            return json.dumps([
                model, context.model_name, context.get_request_id(0),
                context.get_request_header(0, "content-TYPE"),
                context.get_request_header(0, "X-Amzn-SageMaker-Target-Model"),
                context.get_request_header(0, "nothing"), sorted(context.get_all_request_header(0)),
                context.request_processor[0].get_request_property("Content-Type"),
                context.request_processor[0].get_request_properties()["content-type"],
                context.system_properties["model_dir"], context.system_properties["batch_size"],
            ])
    """)
    base.load(gpu_id=3, model_name="m", batch_size=4)
    got = base.post(b"x", "Text/CSV; a=b", X_Amzn_SageMaker_Target_Model="n.tar.gz")
    assert json.loads(got.body) == [
        3,
        "m",
        "r-1",
        "Text/CSV; a=b",
        "n.tar.gz",
        None,
        ["content-type", "x-amzn-sagemaker-target-model"],
        "Text/CSV; a=b",
        "Text/CSV; a=b",
        str(base.model),
        4,
    ]
    assert (got.status, got.kind) == (201, "text/plain")
    assert got.headers["x-amzn-sagemaker-custom-attributes"] == "a  b: c"


def test_every_member_of_a_context():
    from sagemaker_inference import __version__
    from sagemaker_inference.context import Context
    from sagemaker_inference.service import Place

    context = Context(Place("/m", "name", gpu_id=2, batch_size=3), [request(identity="r-1", A="1"), request(A="2")])
    assert context.model_name == "name" and context.manifest == {"model": {"modelName": "name"}}
    assert context.system_properties == {
        "model_dir": "/m",
        "gpu_id": 2,
        "batch_size": 3,
        "server_name": "Slipway",
        "server_version": __version__,
    }
    assert context.request_ids == {0: "r-1", 1: "r-1"}
    assert (context.get_request_header(1, "A"), context.get_all_request_header(), len(context.request_processor)) == (
        "2",
        {"a": "1"},
        2,
    )
    assert (context.get_response_status(), context.get_response_content_type()) == ((200, ""), None)
    assert context.get_response_headers(1) == {}
    context.set_all_response_status(201, "a\nb")
    context.set_response_status(404)
    assert (context.get_response_status(0), context.get_response_status(1)) == ((404, ""), (201, "a b"))
    context.set_response_header(1, "X-Y", 5)
    assert (context.get_response_headers(1), context.get_response_headers()) == ({"x-y": "5"}, {})
    assert context.request_processor[1].get_response_header("x-Y") == "5"
    context.single(1).set_response_status(500)
    assert context.get_response_status(1)[0] == 500
    loading = Context(Place("/m"))
    assert (loading.model_name, loading.get_request_id(), loading.get_all_request_header()) == ("model", "", {})
    assert loading.get_request_header(0, "a") is None


def test_each_request_has_a_context_of_its_own(base):
    base.code("""
        def model_fn(model_dir): return None
        def transform_fn(model, input_data, content_type, accept, context):
            if input_data == b"first":
                context.set_response_status(503)
                context.set_response_header(0, "x-first", "1")
            return "x"
    """)
    base.load()
    assert base.post(b"first").status == 503
    assert (base.post(b"next").status, base.post(b"next").headers) == (200, {"content-type": "application/json"})


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        *(
            (f"context.set_response_header(0, {name!r}, '3')", f"The server itself sets the header {name}.")
            for name in ("content-length", "Transfer-Encoding", "connection", "date", "keep-alive", "upgrade")
        ),
        ("context.set_response_header(0, 'a b', '3')", "'a b' is no name of a header."),
        ("context.set_response_header(0, 'a\\r\\nb', '3')", r"'a\r\nb' is no name of a header."),
        ("context.set_response_status(99)", "99 is no status of an answer: use 200 to 599."),
        ("context.set_response_status(700)", "700 is no status of an answer: use 200 to 599."),
        ("context.set_response_header(1, 'a', 'b')", "list index out of range"),
    ],
)
def test_what_a_context_refuses(base, statement, message):
    base.code(f"def model_fn(d): return 1\ndef transform_fn(m, d, c, a, context): {statement}")
    base.load()
    assert (base.post().status, base.post().error["message"]) == (500, message)


def test_metrics_of_user_code_reach_the_sink(base):
    from sagemaker_inference import metrics_sink

    base.code("""
        def model_fn(model_dir): return None
        def transform_fn(model, input_data, content_type, accept, context):
            context.metrics.add_counter("c", 1)
            context.metrics.add_time("t", 2.5)
            context.metrics.add_size("s", 3, unit="KB")
            context.metrics.add_percent("p", 4)
            context.metrics.add_metric("m", 5, "lines")
            context.metrics.add_error("e", 6)
    """)
    base.load(model_name="mine")
    seen = []
    metrics_sink.set_sink(lambda *metric: seen.append(metric))
    try:
        assert base.post().status == 200
    finally:
        metrics_sink.set_sink(None)
    assert seen == [
        ("c", 1.0, "count", "mine"),
        ("t", 2.5, "ms", "mine"),
        ("s", 3.0, "KB", "mine"),
        ("p", 4.0, "percent", "mine"),
        ("m", 5.0, "lines", "mine"),
        ("e", 6.0, "count", "mine"),
    ]


def test_metrics_without_a_sink_go_to_the_log(base, caplog):
    caplog.set_level("INFO")
    base.code("def model_fn(d): return 1\ndef transform_fn(m, d, c, a, context): context.metrics.add_time('t', 2.5)")
    base.load()
    base.post()
    assert "metric t=2.5 ms model=model" in caplog.text


STREAMS = {
    "predict": "def predict_fn(data, model):\n    yield from [1, 'two', {'three': 3}]",
    "output": (
        "def predict_fn(data, model): return data\n"
        "def output_fn(prediction, accept):\n    yield from [1, 'two', {'three': 3}]"
    ),
    "transform": "def transform_fn(model, data, kind, accept):\n    yield from [1, 'two', {'three': 3}]",
    "async predict": "async def predict_fn(data, model):\n    for item in [1, 'two', {'three': 3}]: yield item",
    "async output": (
        "def predict_fn(data, model): return data\n"
        "async def output_fn(prediction, accept):\n    for item in [1, 'two', {'three': 3}]: yield item"
    ),
    "async transform": "async def transform_fn(model, d, k, a):\n    for item in [1, 'two', {'three': 3}]: yield item",
}


def collect(base, **headers):
    """Status, content type and the chunks of an answer, all in the loop that the service needs."""

    async def asynchronous():
        reply = await base.service.handle_async(request(b"[1]", **headers))
        return reply, [item async for item in reply.body]

    if base.service.asynchronous:
        reply, chunks = asyncio.run(asynchronous())
    else:
        reply = base.service.handle(request(b"[1]", **headers))
        chunks = list(reply.body)
    return reply.status, dict(reply.headers)[b"content-type"].decode(), chunks


@pytest.mark.parametrize("name", STREAMS)
def test_generators_stream_item_by_item(base, name):
    base.write("model/code/inference.py").write_text(f"def model_fn(d): return None\n{STREAMS[name]}\n")
    base.load()
    assert base.service.asynchronous == name.startswith("async")
    assert collect(base) == (200, "application/jsonlines", [b"1\n", b"two", b'{"three": 3}\n'])
    status, kind, chunks = collect(base, accept="text/event-stream")
    assert (status, kind) == (200, "text/event-stream")
    assert chunks == [b"data: 1\n\n", b"two", b'data: {"three": 3}\n\n']


def test_stream_of_text_has_the_type_that_was_asked_for(base):
    base.code("""
        def model_fn(model_dir): return None
        def predict_fn(data, model):
            yield "a"
            yield b"b"
            yield None
    """)
    base.load()
    assert collect(base, accept="text/plain") == (200, "text/plain", [b"a", b"b", b""])
    assert collect(base)[1] == "application/json"


def test_stream_with_a_type_of_its_own(base):
    base.code("""
        def model_fn(model_dir): return None
        def transform_fn(model, data, kind, accept, context):
            context.set_response_status(202)
            return iter(["a"]), "text/event-stream; charset=utf-8"
    """)
    base.load()
    assert collect(base) == (202, "text/event-stream; charset=utf-8", [b"a"])


def test_context_may_be_used_before_the_first_item(base):
    base.code("""
        def model_fn(model_dir): return None
        def transform_fn(model, data, kind, accept, context):
            context.set_response_content_type(0, "text/plain")
            context.set_response_status(203)
            yield "a"
    """)
    base.load()
    assert collect(base) == (203, "text/plain", [b"a"])


def test_user_output_fn_gets_the_stream_of_predict_fn_once(base):
    base.code("""
        def model_fn(model_dir): return None
        def predict_fn(data, model): yield from [1, 2]
        def output_fn(prediction, accept):
            for item in prediction:
                yield f"<{item}>"
    """)
    base.load()
    assert collect(base)[2] == [b"<1>", b"<2>"]


@pytest.mark.parametrize("prefix", ["", "async "])
def test_error_before_the_first_item_has_a_status(base, prefix):
    base.code(f"""
        from sagemaker_inference import errors
        def model_fn(model_dir): return None
        {prefix}def predict_fn(data, model):
            raise errors.GenericInferenceToolkitError(429, "later")
            yield 1
    """)
    base.load()
    got = base.post(b"[1]")
    assert (got.status, got.error["message"]) == (429, "later")


@pytest.mark.parametrize("prefix", ["", "async "])
def test_error_in_the_middle_of_a_stream_is_raised_to_the_server(base, prefix):
    base.code(f"""
        def model_fn(model_dir): return None
        {prefix}def predict_fn(data, model):
            yield 1
            raise KeyError("gone")
    """)
    base.load()
    with pytest.raises(KeyError, match="gone"):
        collect(base)


@pytest.mark.parametrize("prefix", ["", "async "])
@pytest.mark.parametrize("taken", [0, 1])
def test_closing_a_stream_closes_the_generator(base, prefix, taken):
    base.code(f"""
        closed = []
        def model_fn(model_dir): return None
        {prefix}def predict_fn(data, model):
            try:
                while True: yield 1
            finally:
                closed.append(True)
    """)
    base.load()

    async def asynchronous():
        body = (await base.service.handle_async(request(b"1"))).body
        for _ in range(taken):
            await anext(body)
        await body.aclose()
        return [item async for item in body]

    if prefix:
        assert asyncio.run(asynchronous()) == []
    else:
        body = base.service.handle(request(b"1")).body
        for _ in range(taken):
            next(body)
        body.close()
        assert list(body) == []
    import inference

    assert inference.closed == [True]


def test_empty_stream_is_an_empty_answer(base):
    base.code("def model_fn(d): return 1\ndef predict_fn(d, m): yield from []")
    base.load()
    assert (base.post(b"[1]").status, base.post(b"[1]").body) == (200, b"")


@pytest.mark.parametrize("result", ["later()", "items()"])
def test_function_that_hides_that_it_is_async_is_told(base, result):
    base.code(f"""
        async def later(): return [1]
        async def items(): yield 1
        def model_fn(model_dir): return None
        def transform_fn(model, data, kind, accept): return {result}
    """)
    base.load()
    got = base.post(b"[1]")
    assert got.status == 500
    assert "transform_fn returned" in got.error["message"] and "define it with async def" in got.error["message"]


def test_async_requests_overlap_and_keep_their_answers_apart(base):
    base.code("""
        import asyncio
        gate = None
        def model_fn(model_dir): return None
        async def input_fn(data, kind): return data
        async def predict_fn(data, model, context):
            context.set_response_status(200 + int(data))
            waiting.append(data)
            if len(waiting) == 3: gate.set()
            await gate.wait()
            return data
        async def output_fn(prediction, accept): return prediction
        waiting = []
    """)
    base.load()
    assert base.service.asynchronous
    import inference

    async def three():
        inference.gate = asyncio.Event()
        replies = [base.service.handle_async(request(str(number), identity=f"r-{number}")) for number in range(3)]
        return await asyncio.gather(*replies)

    assert [(reply.status, reply.body) for reply in asyncio.run(three())] == [(200, b"0"), (201, b"1"), (202, b"2")]


def test_threads_keep_their_answers_apart(base):
    base.code("""
        import threading
        from sagemaker_inference import encoder
        barrier = threading.Barrier(4)
        def model_fn(model_dir): return None
        def predict_fn(data, model, context):
            context.set_response_status(200 + int(data))
            barrier.wait(60)
            return [int(data)]
        def output_fn(prediction, accept):
            encoded = encoder.encode(prediction, accept)
            barrier.wait(60)
            return encoded
    """)
    base.load()
    found = {}

    def post(number):
        accept = "image/png, text/csv" if number % 2 else "image/png, application/json"
        found[number] = answer(base.service.handle(request(str(number), accept=accept)))

    threads = [threading.Thread(target=post, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert {number: (got.status, got.kind, got.text) for number, got in found.items()} == {
        0: (200, "application/json", "[0]"),
        1: (201, "text/csv", "1\n"),
        2: (202, "application/json", "[2]"),
        3: (203, "text/csv", "3\n"),
    }


@pytest.mark.parametrize(
    ("kind", "out"),
    [("text/csv", b"2\n4"), ("application/jsonlines", b"2\n4"), ("application/x-npy", npy(np.array([2, 4])))],
)
def test_answers_of_a_batch_job_end_without_a_line_end(base, kind, out):
    base.variables["SAGEMAKER_BATCH"] = "True"
    base.code(NUMBERS)
    base.load()
    assert base.post(b"1\n2\n", "text/csv", kind).body == out


def test_answers_of_the_users_own_are_not_touched_in_a_batch_job(base):
    base.variables["SAGEMAKER_BATCH"] = "True"
    base.code(
        "def model_fn(d): return 1\ndef predict_fn(d, m): return d\ndef output_fn(p, a): return 'x\\n', 'text/csv'"
    )
    base.load()
    assert base.post(b"[1]").body == b"x\n"


def test_log_lines_of_a_request_carry_its_ids_in_json(base, capsys):
    base.variables["SLIPWAY_LOG_FORMAT"] = "json"
    base.code("""
        import logging
        def model_fn(model_dir): return None
        def predict_fn(data, model):
            logging.getLogger("mine").warning("look: %s", data, extra={"shape": 1})
            raise KeyError("gone")
    """)
    base.load()
    root = python_logging.getLogger()
    kept = root.handlers[:], root.level
    try:
        logging.configure_logger(log_format="json")
        base.post(b"[1]", X_Amzn_SageMaker_Inference_Id="mine-7")
    finally:
        root.handlers[:], root.level = kept
        logging.request_ids.set(None)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["level"] for line in lines] == ["WARNING", "ERROR"]
    assert {(line["request_id"], line["inference_id"]) for line in lines} == {("r-1", "mine-7")}
    assert (lines[0]["logger"], lines[0]["message"], lines[0]["shape"]) == ("mine", "look: [1]", 1)
    assert "in predict_fn" in lines[1]["traceback"]


def test_headers_compare_without_case_and_join_what_is_repeated():
    from sagemaker_inference.service import Headers

    headers = Headers([(b"accept", b"a/b"), (b"x", b"\xe9"), (b"accept", b"c/d")])
    assert headers["Accept"] == "a/b, c/d"
    assert (headers.get("X"), headers.get("y"), headers.get("€", "-")) == ("é", None, "-")
    assert list(headers) == ["accept", "x"] and len(headers) == 2
    assert headers.raw[1] == (b"x", b"\xe9")


def test_repeated_accept_headers_are_one_list(base):
    from sagemaker_inference.service import Headers, Request

    base.code(NUMBERS)
    base.load()
    raw = [(b"accept", b"image/png"), (b"accept", b"text/csv")]
    assert answer(base.service.handle(Request(b"[1]", Headers(raw), "r"))).kind == "text/csv"


SERVED = {}


def numbers(tmp_path_factory):
    """One service for all examples of a property."""
    if not SERVED:
        base = Base(tmp_path_factory.mktemp("numbers"))
        base.model.mkdir()
        base.code(NUMBERS)
        with unchanged_interpreter():
            SERVED["numbers"] = base.load()
    return SERVED["numbers"]


@given(
    st.binary(max_size=50) | st.sampled_from([b"[1]", b"1,2"]),
    st.lists(
        st.tuples(
            st.sampled_from([b"accept", b"content-type", b"x-amzn-sagemaker-inference-id"]),
            st.binary(max_size=60)
            | st.sampled_from([b"text/csv", b"*/*", b"application/json;charset=utf-16", b"text/*;q=0.1, a/b\r\nx: y"]),
        ),
        max_size=4,
    ),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200, deadline=None)
def test_any_request_gets_a_clean_answer(tmp_path_factory, body, headers):
    from sagemaker_inference.service import Headers, Request

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got = numbers(tmp_path_factory).handle(Request(body, Headers(headers), "r"))
    assert got.status in (200, 400, 406, 415, 500)
    ((name, value),) = got.headers
    assert name == b"content-type" and value and not set(value) & set(b"\r\n\0")
    if got.status != 200:
        assert json.loads(got.body)["error"]["code"] == got.status


def test_an_asynchronous_service_must_be_awaited():
    async def waits():
        await asyncio.sleep(0)

    with pytest.raises(RuntimeError, match="must be awaited"):
        function_service.run(waits())
