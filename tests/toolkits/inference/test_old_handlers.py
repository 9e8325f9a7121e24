"""Handler services and transformers as they were written for other servers, unchanged."""

from __future__ import annotations

import contextvars
import json
import pickle
import sys

import pytest
from sagemaker_inference import default_handler_service, errors, function_service, old_service, transformer

from .conftest import answer, request

CLASS = """
    class ModelHandler:
        def __init__(self):
            self.initialized = False

        def initialize(self, context):
            self.initialized = True
            self.model_dir = context.system_properties.get("model_dir")
            self.gpu = context.system_properties.get("gpu_id")
            self.manifest = context.manifest

        def handle(self, data, context):
            context.set_response_content_type(0, "text/x-mine")
            context.set_response_status(code=202, phrase="Fine")
            context.set_response_header(0, "x-mine", "1")
            text = data[0]["body"].decode()
            return [f"{self.initialized} {self.model_dir} {self.gpu} {context.get_request_header(0, 'a')} {text}"]
"""


@pytest.fixture
def handler(base):
    """Writes a handler file and returns its path; its module is forgotten afterwards."""
    known = set(sys.modules)

    def write(text, name="old_handler.py"):
        return str(base.write(f"handlers/{name}", text))

    yield write
    for name in set(sys.modules) - known:
        if "old_handler" in name:
            del sys.modules[name]


def test_class_with_initialize_and_handle(base, handler):
    base.load(handler(CLASS), gpu_id=1)
    got = base.post("hello", A="b")
    assert (got.status, got.kind, got.headers["x-mine"]) == (202, "text/x-mine", "1")
    assert got.text == f"True {base.model} 1 b hello"


@pytest.mark.parametrize("form", ["file", "file:class", "module", "module:class"])
def test_handler_by_file_or_module_and_by_name(base, handler, monkeypatch, form):
    path = handler(CLASS)
    monkeypatch.syspath_prepend(str(base.path / "handlers"))
    named = "old_handler" if form.startswith("module") else path
    base.load(named + (":ModelHandler" if form.endswith("class") else ""))
    assert base.post("x").text.endswith(" x")


def test_handler_by_variable_wins(base, handler):
    base.variables["SAGEMAKER_HANDLER"] = handler(CLASS)
    base.load("no.such.module")
    assert base.post("x").status == 202


def test_handler_file_imports_its_neighbours(base, handler):
    handler("VALUE = 'near'", "old_handler_helper.py")
    path = handler("""
        from old_handler_helper import VALUE
        def handle(data, context): return [VALUE] if data else None
    """)
    base.load(path)
    assert base.post("x").text == "near"


@pytest.mark.parametrize("attribute", ["", ":handle"])
def test_function_is_called_once_without_data_before_the_first_request(base, handler, attribute):
    path = handler("""
        calls = []
        def handle(data, context):
            calls.append(None if data is None else bytes(data[0]["body"]))
            return None if data is None else ["done"]
    """)
    base.load(path + attribute)
    got = base.post("x")
    assert (got.text, got.kind) == ("done", "text/plain; charset=utf-8")
    assert sys.modules["old_handler"].calls == [None, b"x"]


def test_class_with_the_usual_name_is_meant_among_several(base, handler):
    path = handler("""
        class Helper:
            def handle(self, data, context): return ["helper"]
        class HandlerService:
            def handle(self, data, context): return ["right"]
    """)
    base.load(path)
    assert base.post("x").text == "right"


@pytest.mark.parametrize("name", ["HandlerService", "DefaultHandlerService"])
def test_class_that_is_only_imported_is_served_where_there_is_no_other(base, handler, name):
    handler(f"class {name}:\n    def handle(self, data, context): return ['theirs']", "old_handler_other.py")
    base.load(handler(f"from old_handler_other import {name}"))
    assert base.post("x").text == "theirs"
    base.load(handler(f"from old_handler_other import {name}\ndef handle(data, context): return ['own']"))
    assert base.post("x").text == "own"


def test_module_with_a_service_of_our_own_form(base, handler):
    path = handler("""
        from sagemaker_inference.service import Reply, Service
        class Mine(Service):
            def __init__(self, place): self.place = place
            def handle(self, request): return Reply(299, ((b"content-type", b"a/b"),), self.place.model_name.encode())
        def service(settings, place): return Mine(place)
    """)
    base.load(path, model_name="m7")
    assert (base.post().status, base.post().text) == (299, "m7")


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("x = 1", TypeError, "holds no handler service"),
        ("class A:\n    def handle(s, d, c): pass\nclass B:\n    def handle(s, d, c): pass", TypeError, "found: A, B"),
        ("import not_there_at_all", ModuleNotFoundError, "not_there"),
    ],
)
def test_module_without_a_handler(base, handler, text, error, words):
    with pytest.raises(error, match=words):
        base.load(handler(text))


def test_handler_that_is_nowhere(base):
    with pytest.raises(FileNotFoundError, match="is no file"):
        base.load("/nowhere/handler.py")
    with pytest.raises(ModuleNotFoundError):
        base.load("no_such_module_at_all")
    with pytest.raises(AttributeError):
        base.load("sagemaker_inference.utils:nothing")


@pytest.mark.parametrize(
    ("result", "status", "kind", "body"),
    [
        ("['é']", 200, "text/plain; charset=utf-8", "é".encode()),
        ("[b'x']", 200, "application/octet-stream", b"x"),
        ("[bytearray(b'x')]", 200, "application/octet-stream", b"x"),
        ("[None]", 200, "application/octet-stream", b""),
        ("[{'a': 1}]", 200, "application/json", b'{"a": 1}'),
        ("[[1, 2]]", 200, "application/json", b"[1, 2]"),
        ("('x',)", 200, "text/plain; charset=utf-8", b"x"),
        ("'x'", 500, "application/json", "handle returned str, and not a list with one body for each request."),
        ("None", 500, "application/json", "handle returned NoneType, and not a list with one body for each request."),
        ("['x', 'y']", 500, "application/json", "handle returned 2 bodies for 1 requests."),
        ("[]", 500, "application/json", "handle returned 0 bodies for 1 requests."),
        ("[later()]", 500, "application/json", "handle returned something to be awaited: define it with async def."),
    ],
)
def test_results_of_old_handlers(base, handler, result, status, kind, body):
    base.load(handler(f"async def later(): pass\ndef handle(data, context): return {result} if data else None"))
    got = base.post("x")
    assert (got.status, got.kind) == (status, kind)
    if status == 200:
        assert got.body == body
    else:
        assert got.error["message"] == body


def test_errors_in_old_handlers(base, handler, caplog):
    base.load(
        handler("""
        from mms.service import PredictionException
        def handle(data, context):
            if data and data[0]["body"] == b"known": raise PredictionException("bad input", 422)
            if data: raise KeyError("gone")
    """)
    )
    assert (base.post("known").status, base.post("known").error["message"]) == (422, "bad input")
    assert base.post("x").error["type"] == "KeyError"
    assert "Request r-1" in caplog.text and "in handle" in caplog.text


@pytest.mark.parametrize(("form", "ids"), [("json", ("r-1", "mine")), ("text", None)])
def test_ids_of_the_request_reach_json_lines_of_the_log(base, handler, form, ids):
    base.variables["SLIPWAY_LOG_FORMAT"] = form
    path = handler("""
        from sagemaker_inference import logging
        def handle(data, context): return [str(logging.request_ids.get())]
    """)
    base.load(path)
    got = contextvars.Context().run(base.post, "x", X_Amzn_SageMaker_Inference_Id="mine")
    assert got.text == str(ids)


def test_old_handler_answers_groups_in_one_call(base, handler):
    base.load(
        handler("""
        calls = []
        def handle(data, context):
            calls.append(len(data or []))
            if not data: return
            assert len(data) == 1 or all(item["body"] != b"3" for item in data)
            for index in range(len(data)): context.set_response_header(index, "x-id", context.get_request_id(index))
            return [item["body"] for item in data]
    """)
    )
    assert base.service.batches
    replies = base.service.handle_many([request(str(n), identity=f"r-{n}") for n in range(3)])
    assert [(got.text, got.headers["x-id"]) for got in map(answer, replies)] == [
        ("0", "r-0"),
        ("1", "r-1"),
        ("2", "r-2"),
    ]
    replies = base.service.handle_many([request(str(n), identity=f"r-{n}") for n in (2, 3)])
    assert [answer(reply).text for reply in replies] == ["2", "3"]
    assert sys.modules["old_handler"].calls == [0, 3, 2, 1, 1]


TOOLKIT = """
    from sagemaker_inference.default_handler_service import DefaultHandlerService
    from sagemaker_inference.default_inference_handler import DefaultInferenceHandler
    from sagemaker_inference.transformer import Transformer
    from sagemaker_inference import content_types, decoder, encoder, errors

    class MyHandler(DefaultInferenceHandler):
        def default_model_fn(self, model_dir, context=None): return 3
        def default_predict_fn(self, data, model, context=None): return data * model
"""


def test_subclasses_of_the_defaults_are_served_the_quick_way(base, handler):
    path = handler(
        TOOLKIT
        + """
    class HandlerService(DefaultHandlerService):
        def __init__(self):
            super().__init__(transformer=Transformer(default_inference_handler=MyHandler()))
    """
    )
    base.load(path)
    assert isinstance(base.service, function_service.FunctionService)
    assert base.post("[1, 2]", accept="text/csv").text == "3\n6\n"


def test_user_functions_win_over_the_defaults_of_a_handler(base, handler):
    path = handler(
        TOOLKIT
        + """
    class HandlerService(DefaultHandlerService):
        def __init__(self):
            super().__init__(transformer=Transformer(MyHandler()))
    """
    )
    base.code("def predict_fn(data, model): return data + model")
    base.load(path)
    assert base.post("[1, 2]").text == "[4, 5]"


def test_optional_defaults_run_before_and_after_loading(base, handler):
    path = handler(
        TOOLKIT
        + """
    calls = []
    class More(MyHandler):
        def default_pre_model_fn(self, model_dir): calls.append(("pre", model_dir))
        def default_model_warmup_fn(self, model_dir, model, context): calls.append(("warmup", model))
    class HandlerService(DefaultHandlerService):
        def __init__(self): super().__init__(Transformer(More()))
    """
    )
    base.load(path)
    assert sys.modules["old_handler"].calls == [("pre", str(base.model)), ("warmup", 3)]


# An override -> what it does to the answer of [1]
OVERRIDES = {
    "_default_transform_fn": (
        "def _default_transform_fn(self, model, input_data, content_type, accept, context=None):\n"
        "            result = super()._default_transform_fn(model, input_data, content_type, accept, context)\n"
        "            return result + '!', 'text/loud'",
        (200, "text/loud", "[3]!"),
    ),
    "_run_handler_function": (
        "def _run_handler_function(self, func, *argv):\n"
        "            self.count = getattr(self, 'count', 0) + 1\n"
        "            return super()._run_handler_function(func, *argv)",
        (200, "application/json", "[3]"),
    ),
    "transform": (
        "def transform(self, data, context):\n"
        "            context.set_response_content_type(0, 'a/b')\n"
        "            return ['mine']",
        (200, "a/b", "mine"),
    ),
}


@pytest.mark.parametrize("name", OVERRIDES)
def test_overridden_methods_of_a_transformer_are_called(base, handler, name):
    method, expected = OVERRIDES[name]
    path = handler(
        TOOLKIT
        + f"""
    class MyTransformer(Transformer):
        {method}

    class HandlerService(DefaultHandlerService):
        def __init__(self):
            super().__init__(transformer=MyTransformer(default_inference_handler=MyHandler()))
    """
    )
    base.load(path)
    assert isinstance(base.service, old_service.OldService)
    got = base.post("[1]")
    assert (got.status, got.kind, got.text) == expected
    if name == "_run_handler_function":
        assert base.service._instance._service.count == 4


SLOW = (
    TOOLKIT
    + """
    class MyTransformer(Transformer):
        def _run_handler_function(self, func, *argv): return super()._run_handler_function(func, *argv)

    class HandlerService(DefaultHandlerService):
        def __init__(self): super().__init__(MyTransformer(MyHandler()))
"""
)


def test_transformer_keeps_the_rules_of_the_quick_way(base, handler):
    path = handler(SLOW)
    base.code("""
        from sagemaker_inference import errors
        def input_fn(input_data, content_type, context):
            return (input_data, content_type, context.get_request_id(0), context.model_name)
        def predict_fn(data, model):
            if data[0] == b"bad": raise errors.BaseInferenceToolkitError(418, "no tea", "no\\r\\ntea")
            if data[0] == b"worse": raise KeyError("gone")
            return data
        def output_fn(prediction, accept): return repr((*prediction, accept))
    """)
    base.load(path, model_name="m")
    got = base.post("é".encode("latin-1"), "Text/CSV; charset=latin-1", "a/b;q=0.1, c/d")
    assert (eval(got.text), got.kind) == (("é", "text/csv", "r-1", "m", "a/b;q=0.1, c/d"), "c/d")
    assert eval(base.post(b"x").text) == (b"x", None, "r-1", "m", "application/json")
    bad = base.post("bad", "image/png")
    assert (bad.status, bad.error["message"], bad.error["type"]) == (418, "no tea", "BaseInferenceToolkitError")
    worse = base.post("worse", "image/png")
    assert (worse.status, worse.error["message"], worse.error["type"]) == (500, "'gone'", "KeyError")
    assert b"Traceback" not in worse.body
    replies = base.service.handle_many([request("bad"), request("ok", accept="e/f")])
    assert [(one.status, one.headers[0][1]) for one in replies] == [(418, b"application/json"), (200, b"e/f")]


def test_transform_fn_of_the_user_through_a_transformer(base, handler):
    base.code("def transform_fn(model, data, kind, accept, context): return f'{model} {data} {kind} {accept}', 'a/b'")
    base.load(handler(SLOW))
    got = base.post("1,2", "text/csv", "c/d")
    assert (got.text, got.kind) == ("3 1,2 text/csv c/d", "a/b")


def test_own_error_handling_of_a_transformer(base, handler):
    path = handler(
        SLOW.replace(
            "        def _run_handler_function(self, func, *argv): return super()._run_handler_function(func, *argv)",
            """
        def handle_error(self, context, inference_exception, trace):
            context.set_response_status(code=inference_exception.status_code, phrase=inference_exception.phrase)
            context.set_response_content_type(0, "text/plain")
            return [f"{inference_exception.message}: {trace.splitlines()[-1]}"]
            """,
        )
    )
    base.code("def predict_fn(data, model): raise KeyError('gone')")
    base.load(path)
    got = base.post("[1]")
    assert (got.status, got.kind, got.text) == (500, "text/plain", "'gone': KeyError: 'gone'")


def test_memory_errors_reach_the_platform_through_a_transformer(base, handler):
    base.variables["SAGEMAKER_MULTI_MODEL"] = "true"
    base.code("def predict_fn(data, model): raise MemoryError")
    base.load(handler(SLOW))
    assert base.post("[1]").status == 507


def test_async_functions_need_the_quick_way(base, handler):
    base.code("async def predict_fn(data, model): return data")
    with pytest.raises(TypeError, match="cannot be async"):
        base.load(handler(SLOW))


def test_handle_of_a_subclass_is_called(base, handler):
    path = handler(
        TOOLKIT
        + """
    class Mine(DefaultHandlerService):
        def __init__(self): super().__init__(Transformer(MyHandler()))
        def handle(self, data, context):
            return [str(body) + "!" for body in super().handle(data, context)]
    """
    )
    base.load(path)
    assert (base.post("[1]").text, base.post("[1]").kind) == ("[3]!", "application/json")


class Context:
    """A context as a test of old code makes it up."""

    model_name = "m"

    def __init__(self, model_dir, headers=None):
        self.system_properties = {"model_dir": str(model_dir), "gpu_id": None}
        self.request_processor = [self]
        self.headers = headers or {}
        self.seen = {}

    def get_request_properties(self):
        return self.headers

    def get_request_id(self, idx=0):
        return "old"

    def set_response_content_type(self, idx, value):
        self.seen["type"] = value

    def set_response_status(self, code=200, phrase="", idx=0):
        self.seen["status"] = code, phrase


def test_service_and_transformer_without_a_server(base):
    base.code("""
        calls = []
        def model_fn(model_dir): calls.append(model_dir); return 2
        def predict_fn(data, model): return data * model
    """)
    service = default_handler_service.DefaultHandlerService(transformer=transformer.Transformer())
    for _ in range(2):
        service.initialize(Context(base.model))
    assert sys.modules["inference"].calls == [str(base.model)]
    context = Context(base.model, {"Content-type": "text/csv", "ACCEPT": "text/csv"})
    assert service.handle([{"body": "1,2"}], context) == ["2\n4\n"]
    assert context.seen == {"type": "text/csv"}
    context = Context(base.model, {"Content-Type": "application/json"})
    (body,) = service.handle([{"body": b"[1"}], context)
    assert json.loads(body)["error"]["code"] == 400
    assert context.seen["status"][0] == 400 and "\n" not in context.seen["status"][1]


def test_transformer_that_was_not_initialized():
    with pytest.raises(RuntimeError, match="validate_and_initialize"):
        transformer.Transformer().served  # noqa: B018


def test_errors_keep_their_attributes():
    error = errors.BaseInferenceToolkitError(400, "message", "phrase")
    assert (error.status_code, error.message, error.phrase, str(error)) == (400, "message", "phrase", "message")
    error = errors.GenericInferenceToolkitError(400)
    assert (error.message, error.phrase) == ("Invalid Request", "Invalid Request")
    assert errors.GenericInferenceToolkitError(400, "m").phrase == "m"
    assert isinstance(error, errors.BaseInferenceToolkitError)
    assert errors.UnsupportedFormatError("a/b").content_type == "a/b"


@pytest.mark.parametrize(
    "error",
    [
        errors.BaseInferenceToolkitError(400, "m", "p"),
        errors.GenericInferenceToolkitError(400, "m"),
        errors.UnsupportedFormatError("a/b", ["c/d"]),
        errors.NotAcceptableError("a/b"),
        errors.UndecodableError("m"),
    ],
)
def test_errors_pass_between_processes(error):
    passed = pickle.loads(pickle.dumps(error))
    assert type(passed) is type(error)
    assert vars(passed) == vars(error) and str(passed) == str(error)
