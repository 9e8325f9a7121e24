"""A worker's service: requests in, replies out, with and without user code. The models are stand-ins."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import socket
import sys
import types
import urllib.request

import pytest
from sagemaker_tensorflow_serving_container import engine, handler_service, models, user_code

from tests.toolkits.inference.conftest import answer, request

ATTRIBUTES = "X_Amzn_SageMaker_Custom_Attributes"


def test_a_csv_body_is_answered_in_json(served):
    served.serve()
    done = served.post("1\n2\n", "text/csv")
    assert (done.status, done.kind, done.text) == (200, "application/json", '{"predictions": [2.5, 3.0]}')


def test_the_content_types_parameters_and_case_do_not_matter(served):
    served.serve()
    assert served.post("1\n2\n", "Text/CSV; charset=UTF-8").status == 200


def test_accept_is_honoured_with_one_line_for_each_record(served):
    served.serve()
    done = served.post("1\n2\n", "text/csv", "text/csv")
    assert (done.kind, done.text) == ("text/csv", "2.5\n3.0")
    done = served.post("1\n2\n", "text/csv", "application/jsonlines")
    assert (done.kind, done.text) == ("application/jsonlines", '{"predictions": [2.5]}\n{"predictions": [3.0]}')


def test_the_default_accept_is_a_variable(served):
    served.serve(SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT="text/csv")
    assert served.post("1", "text/csv", "*/*").kind == "text/csv"


def test_attributes_choose_version_and_method(served):
    served.serve()
    one = {ATTRIBUTES: "c,tfs-model-name=half,tfs-model-version=1"}
    assert served.post("[0]", "application/json", **one).text == '{"predictions": [[1.0]]}'
    one = {ATTRIBUTES: "tfs-method=regress"}
    done = served.post('{"signature_name": "regress", "examples": [{}]}', "application/json", **one)
    assert done.text == '{"results": [2.0]}'


def test_the_default_model_is_a_variable(served):
    served.write("model/zero/3/saved_model.pb")
    served.serve(SAGEMAKER_TFS_DEFAULT_MODEL_NAME="zero")
    assert served.post("0", "text/csv").text == '{"predictions": [3.0]}'


@pytest.mark.parametrize(
    ("body", "kind", "accept", "attributes", "status", "named"),
    [
        ("x", "image/png", None, None, 415, "Unsupported Media Type: image/png"),
        ("{", "application/json", None, None, 400, "no JSON"),
        ("1,2\n3", "text/csv", None, None, 400, "line 2"),
        ("", "text/csv", None, None, 400, "no records"),
        ('{"instances": []}', "application/json", None, None, 400, "no records"),
        ("1", "text/csv", "image/png", None, 406, "text/csv"),
        ("1", "text/csv", None, "tfs-method=walk", 400, "predict, classify or regress"),
        ("1", "text/csv", None, "tfs-model-name=../x", 400, "tfs-model-name"),
        ("1", "text/csv", None, "tfs-model-version=9", 404, "no version 9"),
        ("13", "text/csv", None, None, 400, "13 is"),
        ("1e9", "text/csv", None, None, 500, "OOM"),
        (
            '{"inputs": {"x": [1], "n": [[1, 2], [3, 4]]}, "signature_name": "both"}',
            None,
            "text/csv",
            None,
            406,
            "length",
        ),
    ],
)
def test_errors_are_json_with_the_reason_as_text(served, body, kind, accept, attributes, status, named):
    served.serve()
    done = served.post(body, kind, accept, **{ATTRIBUTES: attributes})
    assert (done.status, done.kind) == (status, "application/json")
    error = json.loads(done.text)
    assert named in error["error"]
    assert "\n" not in done.text
    assert "Traceback" not in done.text
    assert next(iter(error)) == "error"


def test_errors_of_the_toolkit_name_the_request(served):
    served.serve()
    assert json.loads(served.post("x", "image/png").text)["request_id"] == "r-1"


def test_memory_that_is_exhausted_is_507_where_models_can_be_unloaded(served):
    served.serve(SAGEMAKER_MULTI_MODEL="true")
    assert served.post("1e9", "text/csv").status == 507
    assert served.post("1", "text/csv").status == 200


def test_without_a_model_there_is_no_service(base, sessions):
    from conftest import HANDLER

    with pytest.raises(models.ModelError, match="There is no SavedModel"):
        base.load(HANDLER)


def test_a_broken_model_is_no_service(served):
    served.write("model/half/7/saved_model.pb", "broken")
    with pytest.raises(models.ModelError, match="half/7 cannot be loaded"):
        served.serve()


def test_the_log_says_what_was_loaded(served, caplog):
    caplog.set_level("INFO")
    served.serve()
    assert "model half, version 2: loaded in" in caplog.text
    assert "signatures: serving_default" in caplog.text


# Requests together


def test_requests_are_put_together_and_each_gets_its_own_answer(served, sessions):
    service = served.serve()
    bodies = [
        ("1\n2", "text/csv"),
        ("13", "text/csv"),
        ('{"inputs": [4]}', None),
        ("x", "image/png"),
        ("3", "text/csv"),
    ]
    good = [0, 4]
    done = [answer(reply) for reply in service.handle_many([request(*body) for body in bodies])]
    assert [one.status for one in done] == [200, 400, 200, 415, 200]
    assert done[0].text == '{"predictions": [2.5, 3.0]}'
    assert done[2].text == '{"outputs": [4.0]}'
    assert done[4].text == '{"predictions": [3.5]}'
    runs = sessions[1].runs
    done = [answer(reply).text for reply in service.handle_many([request(*bodies[index]) for index in good])]
    assert done == ['{"predictions": [2.5, 3.0]}', '{"predictions": [3.5]}']
    assert sessions[1].runs == runs + 1


def test_requests_for_other_versions_signatures_or_shapes_are_kept_apart(served):
    service = served.serve()
    both = {"signature_name": "both", "instances": [{"x": 1, "n": [1, 2]}]}
    requests = [
        request("1", "text/csv"),
        request("1", "text/csv", **{ATTRIBUTES: "tfs-model-version=1"}),
        request(json.dumps(both), "application/json"),
        request("[[1, 2]]", "application/json"),
    ]
    texts = [answer(reply).text for reply in service.handle_many(requests)]
    assert texts[:2] == ['{"predictions": [2.5]}', '{"predictions": [1.5]}']
    assert json.loads(texts[2])["predictions"][0]["sum"] == 3
    assert texts[3] == '{"predictions": [[2.5, 3.0]]}'


# User code

BOTH = """\
    import helper
    def input_handler(data, context):
        return helper.shout(data.read().decode())
    def output_handler(response, context):
        assert response.status_code == 200 and response.ok
        return response.content, context.accept_header
    """


def test_input_and_output_handler_stand_before_and_after_the_model(served):
    served.code(BOTH)
    served.write("model/code/lib/helper.py", "def shout(text): return '{\"instances\": [%s]}' % text\n")
    served.serve()
    done = served.post("7", "image/png", "application/x-own")
    assert (done.status, done.kind, done.text) == (200, "application/x-own", '{"predictions": [5.5]}')


def test_handler_wins_over_the_others(served):
    served.code(
        """
        def handler(data, context):
            return "whole", "text/plain"
        def input_handler(data, context):
            raise RuntimeError
        def output_handler(response, context):
            raise RuntimeError
        """
    )
    served.serve()
    assert served.post("x", "image/png").text == "whole"


HANDLER = """\
    import json, urllib.request
    def handler(data, context):
        question = urllib.request.Request(context.rest_uri, data=data.read(), headers={"Content-Type": "text/plain"})
        with urllib.request.urlopen(question) as answer:
            return answer.read(), context.request_content_type
    """


def test_handler_may_post_to_the_models_address_itself(served, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://192.0.2.1:9")
    served.code(HANDLER)
    served.serve(SAGEMAKER_SAFE_PORT_RANGE="27410-27419")
    done = served.post('{"instances": [4]}', "application/x; a=b", **{ATTRIBUTES: "tfs-model-version=1"})
    assert (done.status, done.kind, done.text) == (200, "application/x", '{"predictions": [3.0]}')
    with urllib.request.urlopen("http://127.0.0.1:27411/v1/models/half") as status:
        assert json.load(status)["model_version_status"][0]["state"] == "AVAILABLE"


def test_without_user_code_nothing_listens(served):
    served.serve(SAGEMAKER_SAFE_PORT_RANGE="27410-27419")
    assert served.service._backend.rest_port is None


CONTEXT = """\
    import json
    NAMES = ["model_name", "model_version", "method", "rest_uri", "custom_attributes", "request_content_type",
             "accept_header", "content_length", "timeout", "request_id"]
    def handler(data, context):
        assert repr(context).startswith("Context(")
        context.set_response_header("X-Amzn-SageMaker-Custom-Attributes", "seen")
        context.set_response_status(201)
        try:
            context.grpc_port
        except RuntimeError as error:
            told = str(error)
        found = {name: getattr(context, name) for name in NAMES}
        return json.dumps({**found, "grpc": told, "own": context.headers["x-own"]}), "application/json"
    """


def test_context_has_the_references_fields(served):
    served.code(CONTEXT)
    served.serve(SAGEMAKER_SAFE_PORT_RANGE="27420-27429")
    done = served.post("abc", None, None, **{ATTRIBUTES: "tfs-model-version=1,tfs-method=regress,c=1", "X_Own": "o"})
    assert done.status == 201
    assert done.headers["x-amzn-sagemaker-custom-attributes"] == "seen"
    found = json.loads(done.text)
    assert "without tensorflow_model_server" in found.pop("grpc")
    assert found == {
        "model_name": "half",
        "model_version": "1",
        "method": "regress",
        "rest_uri": "http://localhost:27421/v1/models/half/versions/1:regress",
        "custom_attributes": "tfs-model-version=1,tfs-method=regress,c=1",
        "request_content_type": "application/json",
        "accept_header": "application/json",
        "content_length": 3,
        "timeout": 60.0,
        "request_id": "r-1",
        "own": "o",
    }
    found = json.loads(served.post("abc", "a/b", "c/d, e/f", X_Own="o").text)
    assert found["model_version"] is None
    assert found["rest_uri"].endswith("/v1/models/half:predict")
    assert (found["request_content_type"], found["accept_header"]) == ("a/b", "c/d, e/f")
    assert found["custom_attributes"] is None


@pytest.mark.parametrize("text", ["", "def input_handler(data, context): pass", "def model_fn(model_dir): pass"])
def test_a_module_without_the_functions_is_no_service(served, text):
    served.code(text)
    with pytest.raises(NotImplementedError, match=r"handler\(data, context\), or both input_handler") as caught:
        served.serve()
    assert ("model_fn: no such function is called" in str(caught.value)) == ("model_fn" in text)


def test_a_function_with_other_arguments_is_no_service(served):
    served.code("def handler(data): pass")
    with pytest.raises(TypeError, match=r"handler must be a function of \(data, context\)"):
        served.serve()


def test_an_error_at_the_modules_import_is_not_hidden(served):
    served.code("import nothing_of_that_name")
    with pytest.raises(ModuleNotFoundError, match="nothing_of_that_name"):
        served.serve()


@pytest.mark.parametrize(
    ("text", "status", "named"),
    [
        ("def handler(data, context): raise ValueError('no good')", 500, "no good"),
        ("def handler(data, context): raise ValueError", 500, "ValueError"),
        (
            "from sagemaker_inference.errors import GenericInferenceToolkitError as E\n"
            "def handler(data, context): raise E(422, 'too short')",
            422,
            "too short",
        ),
        (
            "def input_handler(data, context): return {}\ndef output_handler(response, context): pass",
            500,
            "input_handler must return a text or bytes to post to the model, not dict",
        ),
        ("def handler(data, context): return 1, 2, 3", 500, "not (body, content type)"),
    ],
)
def test_errors_of_user_code_are_json_and_their_traceback_is_in_the_log(served, caplog, text, status, named):
    served.code(text)
    served.serve()
    done = served.post("1", "text/csv")
    assert done.status == status
    assert named in json.loads(done.text)["error"]
    assert "Traceback" not in done.text
    assert "Traceback" in caplog.text
    assert "r-1" in caplog.text


def test_the_output_handler_sees_the_models_error(served):
    served.code(
        """
        def input_handler(data, context):
            return data
        def output_handler(response, context):
            try:
                response.raise_for_status()
            except RuntimeError as error:
                return f"{response.status_code} {response.reason} {response.json()['error']} {error}", "text/plain"
        """
    )
    served.serve()
    assert served.post('{"instances": ["a"]}').text.startswith("400 Bad Request Record 0 of")
    assert "no JSON" in served.post("[").text


def test_what_is_no_tuple_gets_the_accepted_type(served):
    served.code("def handler(data, context): return '1,2'")
    served.serve()
    assert served.post("", None, "text/csv;q=0.5, text/plain").kind == "text/plain"


def test_a_handler_may_stream_and_fail_before_the_first_byte(served):
    served.code(
        """
        def handler(data, context):
            def items():
                if data.read() == b"bad":
                    raise ValueError("no stream")
                yield "one"
                yield b"two"
            return items(), "text/event-stream"
        """
    )
    served.serve()
    reply = served.send(request("good"))
    assert list(reply.body) == [b"one", b"two"]
    assert answer(served.send(request("bad"))).status == 500


def test_handlers_may_be_asynchronous(served):
    served.code(
        """
        import asyncio
        async def input_handler(data, context):
            await asyncio.sleep(0)
            return data.read()
        async def output_handler(response, context):
            return response.text, "application/json"
        """
    )
    assert served.serve().asynchronous
    reply = asyncio.run(served.service.handle_async(request('{"instances": [1]}')))
    assert reply.body == b'{"predictions": [2.5]}'


def test_user_code_is_called_for_each_request_even_in_a_group(served):
    served.code("def handler(data, context): return data.read() + b'!', 'text/plain'")
    service = served.serve()
    assert not service.batches
    done = service.handle_many([request(str(number)) for number in range(3)])
    assert [reply.body for reply in done] == [b"0!", b"1!", b"2!"]


# Many models


def test_the_models_of_one_container_take_ports_of_their_own(served, monkeypatch):
    served.code(HANDLER)
    served.serve(SAGEMAKER_SAFE_PORT_RANGE="27430-27449", SAGEMAKER_MULTI_MODEL="true")
    first = served.service
    try:
        served.serve()
        assert (first._backend.rest_port, served.service._backend.rest_port) == (27431, 27433)
        assert served.post('{"instances": [4]}').text == '{"predictions": [4.0]}'
    finally:
        first._backend.close()
        while handler_service._held:
            handler_service._held.pop().release()


def test_code_beside_the_models_serves_those_without_their_own(served):
    served.write("models/code/inference.py", "def handler(data, context): return 'shared', 'text/plain'")
    served.serve(SAGEMAKER_MULTI_MODEL="true", SAGEMAKER_SAFE_PORT_RANGE="27450-27469")
    assert served.post("").text == "shared"
    served.service._backend.close()
    del sys.modules["inference"]
    served.code("def handler(data, context): return 'own', 'text/plain'")
    served.serve()
    assert served.post("").text == "own"
    while handler_service._held:
        handler_service._held.pop().release()


def test_a_worker_has_its_share_of_the_cpus(served, sessions, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    served.serve()
    assert sessions[-1].config == engine.config(3, 0, None)
    served.serve(SAGEMAKER_TFS_INTRA_OP_PARALLELISM="2", SAGEMAKER_TFS_INSTANCE_COUNT="2")
    assert sessions[-1].config == engine.config(2, 0, 0.4)
    monkeypatch.setenv("OMP_NUM_THREADS", "2,1")
    served.serve(SAGEMAKER_TFS_INTRA_OP_PARALLELISM="0")
    assert sessions[-1].config == engine.config(0, 0, 0.4)


def test_a_worker_sees_its_own_gpu_only(monkeypatch):
    from sagemaker_inference.service import Place

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6")
    handler_service._choose_gpu(Place("", gpu_id=1))
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "6"
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    handler_service._choose_gpu(Place("", gpu_id=1))
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "1"
    handler_service._choose_gpu(Place("", gpu_id=None))
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "1"


def test_the_loopback_reads_chunks_and_refuses_what_ends_early(served):
    served.code(HANDLER)
    served.serve(SAGEMAKER_SAFE_PORT_RANGE="27470-27479")
    connection = http.client.HTTPConnection("127.0.0.1", 27471, timeout=60)
    path = "/v1/models/half:predict"
    connection.request("POST", path, iter([b'{"inst', b'ances": [1]}']), encode_chunked=True)
    assert connection.getresponse().read() == b'{"predictions": [2.5]}'
    connection.request("POST", path, b"x", {"Content-Length": "nonsense"})
    done = connection.getresponse()
    assert (done.status, "error" in json.load(done)) == (400, True)
    connection.request("GET", "/v1/models/none")
    done = connection.getresponse()
    assert (done.status, "error" in json.load(done)) == (404, True)
    connection.close()


def test_the_channel_to_the_model_server_is_made_once(monkeypatch):
    from sagemaker_inference.context import RequestProcessor

    grpc = types.SimpleNamespace(insecure_channel=lambda address: [address])
    monkeypatch.setitem(sys.modules, "grpc", grpc)
    names = ("model_name", "model_version", "method", "rest_uri", "custom_attributes", "request_content_type")
    more = ("accept_header", "content_length", "timeout", "headers", "request_id")
    fields = dict.fromkeys((*names, *more))
    contexts = [
        user_code.Context(grpc_port=port, processor=RequestProcessor(None), **fields)
        for port in ("27590", "27590", None)
    ]
    assert contexts[0].channel == ["127.0.0.1:27590"]
    assert contexts[1].channel is contexts[0].channel
    with pytest.raises(RuntimeError, match="tensorflow_model_server"):
        _ = contexts[2].channel


def test_responses_have_the_names_that_code_uses():
    from sagemaker_tensorflow_serving_container.backend import Answer

    response = user_code.Response(Answer.of({"predictions": [1]}), "http://x")
    assert response.json() == {"predictions": [1]}
    assert (response.ok, response.reason, response.encoding, response.url) == (True, "OK", "utf-8", "http://x")
    assert response.headers["Content-Type"] == "application/json"
    response.raise_for_status()


def test_nothing_listens_and_no_model_is_held_after_the_end(served, sessions):
    served.write("model/code/inference.py", "def handler(data, context):\n    return context.rest_uri\n")
    served.serve()
    backend = served.service._backend
    port = backend.rest_port
    backend.close()
    assert not backend.engine._loaded
    with pytest.raises(ConnectionError):
        socket.create_connection(("127.0.0.1", port), 5)
