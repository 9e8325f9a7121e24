"""The user's module: where it is found, what in it is used, and what is wrong with it."""

from __future__ import annotations

import functools
import os
import sys

import pytest
from sagemaker_inference import functions, model, modules

MODEL = """
    def model_fn(model_dir): return "model"
    def predict_fn(data, model): return data
"""


def module(base, text):
    base.code(text)
    return modules.load(base.settings, str(base.model))[0]


# Where code may stand, first to last.
PLACES = ["model/code", "submitted", "code"]


def test_search_order(base):
    base.variables["SAGEMAKER_SUBMIT_DIRECTORY"] = str(base.path / "submitted")
    for place in reversed(PLACES):
        path = base.write(f"{place}/inference.py")
        found = modules.find(base.settings, str(base.model))
        assert found.file == str(path)
        assert found.searched == tuple(str(base.path / name) for name in PLACES)


def test_code_baked_into_the_image_is_used(base):
    base.write("code/serve_me.py", MODEL)
    base.variables["SAGEMAKER_PROGRAM"] = "serve_me.py"
    base.load()
    assert base.post("[1]", "application/json").text == "[1]"


@pytest.mark.parametrize("submitted", ["s3://bucket/code.tar.gz", "file:///nowhere", ""])
def test_submit_directory_that_is_elsewhere_hides_nothing(base, submitted):
    base.variables["SAGEMAKER_SUBMIT_DIRECTORY"] = submitted
    path = base.code("")
    assert modules.find(base.settings, str(base.model)).file == str(path)


def test_local_submit_directory_by_address(base):
    path = base.write("mine/inference.py")
    base.variables["SAGEMAKER_SUBMIT_DIRECTORY"] = f"file://{path.parent}"
    assert modules.find(base.settings, str(base.model)).file == str(path)


@pytest.mark.parametrize(
    ("program", "file", "name"),
    [
        ("inference.py", "inference.py", "inference"),
        ("inference", "inference/__init__.py", "inference"),
        ("src/serve.py", "src/serve.py", "serve"),
        ("pkg.serve", "pkg/serve.py", "serve"),
        ("my.serve.py", "my.serve.py", "my.serve"),
    ],
)
def test_names_of_programs(base, program, file, name):
    path = base.write(f"model/code/{file}", "HERE = __name__")
    base.variables["SAGEMAKER_PROGRAM"] = program
    loaded, found = modules.load(base.settings, str(base.model))
    assert (found.file, loaded.HERE) == (str(path), name)
    assert sys.modules.pop(name) is loaded


def test_program_inside_a_package_imports_its_neighbours(base):
    base.write("model/code/pkg_of_test/__init__.py")
    base.write("model/code/pkg_of_test/near.py", "VALUE = 7")
    base.write("model/code/pkg_of_test/serve.py", "from .near import VALUE")
    base.variables["SAGEMAKER_PROGRAM"] = "pkg_of_test/serve.py"
    loaded, _ = modules.load(base.settings, str(base.model))
    assert loaded.VALUE == 7


def test_code_folders_are_first_on_the_search_path_of_this_process_and_its_children(base, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    base.write("model/code/helper.py", "VALUE = 1")
    base.write("model/code/lib/inner_of_test.py", "VALUE = 2")
    loaded = module(base, "import helper, inner_of_test; SUM = helper.VALUE + inner_of_test.VALUE")
    assert loaded.SUM == 3
    code = str(base.model / "code")
    assert sys.path[:2] == [code, f"{code}/lib"]
    assert os.environ["PYTHONPATH"].split(":") == [code, f"{code}/lib", "/elsewhere"]


def test_nothing_is_written_beside_the_model(base):
    base.write("model/code/helper.py", "")
    before = sorted(path for path in base.model.rglob("*"))
    module(base, "import helper")
    assert sorted(path for path in base.model.rglob("*")) == [*before, base.model / "code" / "inference.py"]
    assert os.environ["PYTHONDONTWRITEBYTECODE"] == "1"


@pytest.mark.parametrize("text", ["raise KeyError('inner')", "import not_there_at_all", "def f(:"])
def test_errors_inside_the_module_pass_through(base, text):
    base.code(text)
    with pytest.raises((KeyError, ModuleNotFoundError, SyntaxError)) as caught:
        base.load()
    assert "inner" in str(caught.value) or "not_there" in str(caught.value) or caught.type is SyntaxError
    assert "inference" not in sys.modules


def test_no_module_means_defaults(base):
    assert modules.load(base.settings, str(base.model)) == (None, modules.find(base.settings, str(base.model)))


def test_no_module_and_no_default_says_where_it_looked_and_what_is_there(base):
    base.write("model/weights.bin")
    base.write("model/extra/file")
    with pytest.raises(NotImplementedError) as caught:
        base.load()
    for words in ("model_fn", str(base.model / "code"), str(base.path / "code"), "extra/, weights.bin"):
        assert words in str(caught.value)


def test_model_folder_may_be_missing(base):
    base.model.rmdir()
    base.write("code/inference.py", MODEL)
    base.load()
    assert base.post("[1]").status == 200


def test_module_beside_the_model_is_pointed_out(base):
    base.write("model/inference.py", MODEL)
    with pytest.raises(NotImplementedError, match=r"beside the model: it must be in code/"):
        base.load()


def test_archive_with_one_folder_too_many(base):
    path = base.write("model/my-model/code/inference.py", MODEL)
    base.write("model/my-model/weights.bin")
    with pytest.raises(modules.UserModuleError) as caught:
        base.load()
    folders = f"{base.model / 'code'}, {base.path / 'code'}"
    assert str(caught.value) == (
        f"No inference.py was found in {folders}. {base.model} holds my-model/. {path} was packed with one folder too "
        "many: code/ must stand at the top of the archive."
    )


def test_program_that_was_named_and_is_not_there_is_no_default(base):
    base.variables["SAGEMAKER_PROGRAM"] = "serve_me.py"
    base.code(MODEL)
    with pytest.raises(modules.UserModuleError, match=r"No serve_me.py \(SAGEMAKER_PROGRAM\) was found"):
        base.load()


def test_functions_that_exclude_each_other(base):
    for name in ("input_fn", "predict_fn", "output_fn", "batch_predict_fn"):
        with pytest.raises(ValueError, match=f"transform_fn cannot be used together with {name}"):
            functions.find(module(base, f"def transform_fn(m, d, c, a): pass\ndef {name}(a, b): pass"))


def test_functions_that_exclude_each_other_stop_the_start(base):
    base.code(MODEL + "    def transform_fn(model, data, kind, accept): return data\n")
    with pytest.raises(ValueError, match="transform_fn cannot be used together with predict_fn"):
        base.load()


def test_name_that_is_no_function(base):
    with pytest.raises(TypeError, match="predict_fn must be a function, and is int"):
        functions.find(module(base, "predict_fn = 3"))
    assert functions.find(module(base, "predict_fn = None")) == {}


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("modle_fn", "model_fn"),
        ("output_function", "output_fn"),
        ("predict", "predict_fn"),
        ("Input_Fn", "input_fn"),
        ("transform", "transform_fn"),
        ("load_model", "model_fn"),
        ("batch_predict", "batch_predict_fn"),
    ],
)
def test_near_misses_are_warned_of(base, caplog, wrong, right):
    functions.find(module(base, f"def {wrong}(a): pass"))
    assert f"{wrong} in {base.model}/code/inference.py is not called by the server: was {right} meant?" in caplog.text


def test_helpers_are_no_near_misses(base, caplog):
    functions.find(
        module(
            base, MODEL + "    from json import loads as model_f\n    def predict(x): pass\n    def tokenize(x): pass"
        )
    )
    assert caplog.text == ""


def test_what_is_in_use_is_logged(base, caplog):
    caplog.set_level("INFO")
    base.code(MODEL)
    base.load()
    assert "User functions: model_fn, predict_fn; the rest are defaults." in caplog.text


class Methods:
    def plain(self, a, b):
        return a, b

    def with_context(self, a, b, c):
        return a, b, c

    def __call__(self, a, b, context):
        return a, b, context


class Plain:
    def __call__(self, a, b):
        return a, b


def decorated(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


def keyword_only(a, b, *, context):
    return a, b, context


def keyword_only_optional(a, b, *, context=None, more=1):
    return a, b, context


def positional_only(a, b, c, /):
    return a, b, c


def default_of_another_name(a, b, batch=8):
    return a, b, batch


def context_behind(a, b, batch=8, context=None):
    return a, b, batch, context


def context_then_more(a, b, context=None, batch=8):
    return a, b, context, batch


def anything(*args):
    return args


def anything_named(a, b, **kwargs):
    return a, b, kwargs


def more(a, b, context, *args):
    return a, b, context, args


def all_defaults(a=0, b=0):
    return a, b


# (function of two arguments, what it returns when it is called with 1, 2 and the context C)
SIGNATURES = [
    (lambda a, b: (a, b), (1, 2)),
    (lambda a, b, c: (a, b, c), (1, 2, "C")),
    (lambda data, model, whatever_name: whatever_name, "C"),
    (keyword_only, (1, 2, "C")),
    (keyword_only_optional, (1, 2, "C")),
    (positional_only, (1, 2, "C")),
    (default_of_another_name, (1, 2, 8)),
    (context_behind, (1, 2, 8, "C")),
    (context_then_more, (1, 2, "C", 8)),
    (anything, (1, 2)),
    (anything_named, (1, 2, {})),
    (more, (1, 2, "C", ())),
    (all_defaults, (1, 2)),
    (Methods().plain, (1, 2)),
    (Methods().with_context, (1, 2, "C")),
    (Methods(), (1, 2, "C")),
    (Plain(), (1, 2)),
    (functools.partial(lambda x, a, b: (a, b, x), 9), (1, 2, 9)),
    (functools.partial(lambda x, a, b, c: (a, b, c, x), 9), (1, 2, "C", 9)),
    (functools.partial(keyword_only, context="own"), (1, 2, "C")),
    (decorated(lambda a, b: (a, b)), (1, 2)),
    (decorated(lambda a, b, c: (a, b, c)), (1, 2, "C")),
    (divmod, (0, 1)),
    (max, 2),
]


@pytest.mark.parametrize(("function", "result"), SIGNATURES)
def test_context_is_given_to_those_that_take_it(function, result):
    assert functions.hook("predict_fn", function, users=True).call(1, 2, "C") == result


def no_arguments():
    pass


def four_arguments(a, b, c, d):
    pass


def needs_another_name(a, b, *, threshold):
    pass


@pytest.mark.parametrize(
    "function",
    [no_arguments, lambda a: a, four_arguments, needs_another_name, functools.partial(lambda a, b: a, 1), len],
)
def test_other_signatures_are_refused_by_name(function):
    with pytest.raises(TypeError, match=r"predict_fn\(.*\) must take \(data, model\) or \(data, model, context\)"):
        functions.hook("predict_fn", function, users=True)


MUST_TAKE = {
    "pre_model_fn": "model_dir",
    "model_fn": "model_dir",
    "model_warmup_fn": "model_dir, model",
    "input_fn": "input_data, content_type",
    "predict_fn": "data, model",
    "output_fn": "prediction, accept",
    "transform_fn": "model, input_data, content_type, accept",
    "batch_predict_fn": "data, model",
    "batch_transform_fn": "model, input_data, content_type, accept",
}


@pytest.mark.parametrize("name", MUST_TAKE)
def test_message_of_a_wrong_signature(name):
    with pytest.raises(TypeError) as caught:
        functions.hook(name, no_arguments, users=True)
    assert str(caught.value) == f"{name}() must take ({MUST_TAKE[name]}) or ({MUST_TAKE[name]}, context)."


@pytest.mark.parametrize("name", functions.ARGUMENTS)
def test_each_function_is_checked_before_the_model_is_loaded(base, name):
    base.write("loaded")
    base.code(f"""
        import pathlib
        def pre_model_fn(model_dir): pathlib.Path({str(base.path / "loaded")!r}).unlink()
        def model_fn(model_dir): return 1
        {"" if "transform" in name else "def predict_fn(data, model): return data"}
        def {name}(): pass
    """)
    with pytest.raises(TypeError, match=rf"{name}\(\) must take"):
        base.load()
    assert (base.path / "loaded").exists()


@pytest.mark.parametrize("context", ["", ", context"])
def test_order_at_start_and_of_each_request_with_and_without_context(base, context):
    base.code(f"""
        calls = []
        def pre_model_fn(model_dir{context}): calls.append(("pre", model_dir))
        def model_fn(model_dir{context}): calls.append(("model", model_dir)); return "m"
        def model_warmup_fn(model_dir, model{context}): calls.append(("warmup", model_dir, model))
        def input_fn(input_data, content_type{context}): calls.append(("input", input_data, content_type)); return "i"
        def predict_fn(data, model{context}): calls.append(("predict", data, model)); return "p"
        def output_fn(prediction, accept{context}): calls.append(("output", prediction, accept)); return "o"
    """)
    base.load()
    calls = sys.modules["inference"].calls
    directory = str(base.model)
    assert calls == [("pre", directory), ("model", directory), ("warmup", directory, "m")]
    for _ in range(2):
        calls.clear()
        assert base.post("[1]", "application/json", "text/csv").text == "o"
        assert calls == [("input", "[1]", "application/json"), ("predict", "i", "m"), ("output", "p", "text/csv")]


@pytest.mark.parametrize("context", ["", ", context"])
def test_transform_alone(base, context):
    base.code(f"""
        def model_fn(model_dir{context}): return "m"
        def transform_fn(model, input_data, content_type, accept{context}):
            return repr((model, input_data, content_type, accept))
    """)
    base.load()
    assert base.post(b"x", "image/png", "text/csv").text == repr(("m", b"x", "image/png", "text/csv"))


@pytest.mark.parametrize("name", ["pre_model_fn", "model_fn", "model_warmup_fn"])
def test_errors_at_load_pass_through_and_nothing_is_tried_twice(base, name):
    arguments = ", ".join(functions.ARGUMENTS[name])
    base.code(f"""
        calls = []
        def model_fn(model_dir): return 1
        def predict_fn(data, model): return data
        def {name}({arguments}):
            calls.append(1)
            raise OSError("no such weights")
    """)
    with pytest.raises(OSError, match="no such weights"):
        base.load()
    assert sys.modules["inference"].calls == [1]


def test_model_that_nothing_can_ask_never_starts(base):
    base.code("def model_fn(model_dir): return 1")
    with pytest.raises(NotImplementedError, match="Please provide a predict_fn"):
        base.load()


def test_handler_without_a_default_asks_for_the_function():
    class Handler:
        def default_model_fn(self, model_dir):
            return 1

    with pytest.raises(NotImplementedError, match="Please provide a input_fn: Handler has no default for it"):
        model.Model(None, Handler())


def test_async_load_functions(base):
    base.code("""
        import asyncio
        async def model_fn(model_dir):
            await asyncio.sleep(0)
            return {"a": 1}
        def predict_fn(data, model): return model
    """)
    base.load()
    assert not base.service.asynchronous
    assert base.post("[1]").text == '{"a": 1}'


def test_model_fn_sees_the_folder_as_it_was_unpacked(base):
    base.write("model/model.pth")
    base.write("model/vocabulary.pkl")
    base.write("model/sub/folder/file")
    base.code("""
        import os
        def model_fn(model_dir):
            return sorted(os.path.relpath(os.path.join(a, c), model_dir) for a, _, b in os.walk(model_dir) for c in b)
        def predict_fn(data, model): return model
    """)
    base.load()
    assert base.post("1").text == '["code/inference.py", "model.pth", "sub/folder/file", "vocabulary.pkl"]'
