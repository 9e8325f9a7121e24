"""TensorFlow Serving's REST forms on a loaded model, and the signatures that they go by."""

from __future__ import annotations

import struct

import pytest
import standins
from sagemaker_tensorflow_serving_container import (
    backend,
    engine,
    examples,
    models,
    native,
    predictions,
    signatures,
    wire,
)
from sagemaker_tensorflow_serving_container.backend import Target
from sagemaker_tensorflow_serving_container.documents import Document
from sagemaker_tensorflow_serving_container.tensors import ValueFault


@pytest.fixture
def loaded(tmp_path, sessions):
    for name in ("half/1", "half/2", "other/5"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "saved_model.pb").touch()
    made = engine.Engine(models.find(str(tmp_path)))

    def answer(request, method="predict", name="half", version=None):
        done = made.answer(Target(name, version, method), Document(request))
        return done.status, done.document.value

    answer.engine = made
    return answer


def test_signatures_are_read_from_the_graphs_description():
    read = signatures.read(standins.META_GRAPH)
    assert sorted(read) == ["both", "classify", "regress", "scalar", "serving_default", "text"]
    both = read["both"]
    assert both.method == signatures.PREDICT
    assert list(both.inputs) == ["n", "x"]
    assert both.inputs["n"] == signatures.Tensor("n:0", standins.INT64, (-1, 2))
    assert read["text"].inputs["text"].shape is None
    assert read["scalar"].outputs["mean"].shape == ()


def test_variables_that_are_missing_are_noticed():
    graph = standins.META_GRAPH + wire.message(2, wire.message(1, b"VarHandleOp"))
    assert not signatures.needs_variables(graph)
    assert signatures.needs_variables(graph + wire.message(3, b"save/restore_all"))
    assert not signatures.needs_variables(standins.META_GRAPH + wire.message(3, b"save/restore_all"))


@pytest.mark.parametrize("content", [b"\x2a\x05ab", b"\x2b", b"\x2a"])
def test_a_broken_description_is_an_error(content):
    with pytest.raises((ValueError, IndexError)):
        signatures.read(content)


def test_rows_give_predictions(loaded):
    assert loaded({"instances": [1, 2.0]}) == (200, {"predictions": [2.5, 3.0]})
    assert loaded({"instances": [{"x": 1}, {"x": 2}]}) == (200, {"predictions": [2.5, 3.0]})


def test_columns_give_outputs(loaded):
    assert loaded({"inputs": [1, 2]}) == (200, {"outputs": [2.5, 3.0]})
    assert loaded({"inputs": {"x": [1, 2]}}) == (200, {"outputs": [2.5, 3.0]})


def test_several_outputs_are_named(loaded):
    rows = {"signature_name": "both", "instances": [{"x": 1, "n": [1, 2]}, {"x": 3, "n": [3, 4]}]}
    assert loaded(rows)[1]["predictions"] == [
        {"raw_bytes": {"b64": "MS4w"}, "sum": 3, "y": 2.5},
        {"raw_bytes": {"b64": "My4w"}, "sum": 7, "y": 3.5},
    ]
    columns = {"signature_name": "both", "inputs": {"x": [1], "n": [[1, 2]]}}
    assert loaded(columns)[1]["outputs"] == {"raw_bytes": [{"b64": "MS4w"}], "sum": [3], "y": [2.5]}


def test_bytes_come_as_base64(loaded):
    assert loaded({"signature_name": "text", "instances": [{"b64": "/////w=="}, "é"]})[1] == {"predictions": [4, 2]}
    assert loaded({"signature_name": "text", "inputs": {"b64": "/////w=="}})[1] == {"outputs": 4}


def test_every_version_is_served_and_the_newest_by_default(loaded):
    assert loaded({"instances": [0]}, version=1)[1] == {"predictions": [1.0]}
    assert loaded({"instances": [0]}, version=2)[1] == {"predictions": [2.0]}
    assert loaded({"instances": [0]})[1] == {"predictions": [2.0]}
    assert loaded({"instances": [0]}, name="other")[1] == {"predictions": [5.0]}


def test_what_is_not_served_is_not_found(loaded):
    status, body = loaded({"instances": [0]}, version=3)
    assert (status, "no version 3, but 1, 2" in body["error"]) == (404, True)
    status, body = loaded({"instances": [0]}, name="none")
    assert (status, "no model 'none', but half, other" in body["error"]) == (404, True)


def test_regress_gives_a_value_for_each_example(loaded):
    request = {"signature_name": "regress", "examples": [{"x": 1.0}, {"x": [1.0, 2.0]}]}
    sizes = [len(examples.serialize(item)) for item in request["examples"]]
    assert loaded(request, "regress") == (200, {"results": sizes})


def test_classify_gives_labels_and_scores_for_each_example(loaded):
    request = {"signature_name": "classify", "examples": [{"x": 1.0}]}
    assert loaded(request, "classify") == (200, {"results": [[["a", 0.25], ["b", 0.75]]]})


def test_a_context_is_in_every_example(loaded):
    request = {"signature_name": "regress", "context": {"c": "shared"}, "examples": [{"x": 1.0}]}
    assert loaded(request, "regress")[1]["results"] == [len(examples.serialize({"c": "shared", "x": 1.0}))]


@pytest.mark.parametrize(
    ("request_", "method", "named"),
    [
        ([1], "predict", "The body is an object"),
        ({}, "predict", "either 'instances'"),
        ({"instances": [1], "inputs": [1]}, "predict", "either 'instances'"),
        ({"instances": 1}, "predict", "a list of records"),
        ({"instances": []}, "predict", "no records"),
        ({"instances": [1, {"x": 1}]}, "predict", "Record 1 of 'instances' is of another form"),
        ({"instances": [1, "a"]}, "predict", "Record 1 of 'instances': Input 'x' takes float32 values. 'a' is none"),
        ({"instances": [[1], [1, 2]]}, "predict", "Record 1 of 'instances': input 'x' has shape [2]"),
        ({"instances": [{"y": 1}]}, "predict", "Record 0 of 'instances' has y; the inputs are x"),
        ({"instances": [1], "signature_name": "both"}, "predict", "an object with: n, x"),
        ({"inputs": [1], "signature_name": "both"}, "predict", "an object with: n, x"),
        ({"inputs": {"x": [1]}, "signature_name": "both"}, "predict", "the inputs are n, x"),
        ({"inputs": {"x": [1], "z": 1}}, "predict", "has x, z; the inputs are x"),
        ({"instances": [1], "signature_name": 3}, "predict", "'signature_name' is a text"),
        ({"instances": [1], "signature_name": "no"}, "predict", "no signature 'no'. The model has: both, classify"),
        ({"instances": [1], "signature_name": "scalar"}, "predict", "no common number of records: mean []"),
        ({"examples": [{}]}, "regress", "is for tensorflow/serving/predict"),
        ({"examples": [{}]}, "regress", "Give signature_name: regress"),
        ({"signature_name": "classify", "examples": []}, "classify", "no records"),
        ({"signature_name": "classify", "examples": 1}, "classify", "a list of objects"),
        ({"signature_name": "classify", "examples": [1]}, "classify", "an object of features"),
    ],
)
def test_what_cannot_be_read_is_the_requests_fault(loaded, request_, method, named):
    status, body = loaded(request_, method)
    assert status == 400
    assert list(body) == ["error"]
    assert named in body["error"]


def test_the_models_own_refusal_keeps_its_status_and_text(loaded):
    assert loaded({"instances": [13]}) == (400, {"error": "13 is\nno good"})


@pytest.mark.parametrize(
    ("code", "status"),
    [(3, 400), (4, 504), (5, 404), (6, 409), (7, 403), (9, 412), (11, 400), (12, 501), (14, 503), (16, 401), (13, 500)],
)
def test_each_of_tensorflows_codes_has_its_status(loaded, monkeypatch, code, status):
    def refuse(*_):
        raise native.NativeError(code, "no")

    monkeypatch.setattr(standins.Session, "run", refuse)
    assert loaded({"instances": [1]}) == (status, {"error": "no"})


def test_memory_that_is_exhausted_is_no_answer(loaded):
    with pytest.raises(backend.OutOfMemory, match="OOM"):
        loaded({"instances": [1e9]})


def test_a_body_that_is_no_json_is_the_requests_fault(loaded):
    done = loaded.engine.answer(Target("half", None), Document(data=b'{"instances": '))
    assert done.status == 400


def test_nothing_is_served_when_one_version_cannot_be_loaded(tmp_path, sessions):
    for number, content in (("1", ""), ("2", "broken")):
        (tmp_path / "half" / number).mkdir(parents=True)
        (tmp_path / "half" / number / "saved_model.pb").write_text(content)
    with pytest.raises(models.ModelError, match="half/2 cannot be loaded: no SavedModel"):
        engine.Engine(models.find(str(tmp_path)))
    assert [session.closed for session in sessions] == [True]


@pytest.mark.parametrize(
    ("verb", "path", "body", "status", "part"),
    [
        ("GET", "/v1/models/half", b"", 200, '"version": "2", "state": "AVAILABLE"'),
        ("GET", "/v1/models/half/versions/1", b"", 200, '{"model_version_status": [{"version": "1", '),
        ("GET", "/v1/models/half/versions/7", b"", 404, "no version 7"),
        ("GET", "/v1/models/half/metadata", b"", 200, '"dtype": "DT_FLOAT"'),
        ("POST", "/v1/models/half:predict", b'{"instances": [0]}', 200, '{"predictions": [2.0]}'),
        ("POST", "/v1/models/half/versions/1:predict", b'{"inputs": [0]}', 200, '{"outputs": [1.0]}'),
        ("POST", "/v1/models/half:predict", b"{", 400, "no JSON"),
        ("POST", "/v1/models/half:predict", b"", 400, "no records"),
        ("POST", "/v1/models/half:predict", b"\xff", 400, "no UTF-8"),
        ("POST", "/v1/models/half:predict", b"{}{}", 400, "more than one"),
        ("POST", "/v1/models/half", b"{}", 405, "use POST to predict"),
        ("GET", "/v1/models/half:predict", b"", 405, "use POST to predict"),
        ("POST", "/v1/models/half:walk", b"{}", 404, "Malformed request"),
        ("GET", "/", b"", 404, "Malformed request"),
    ],
)
def test_tensorflow_servings_paths(loaded, verb, path, body, status, part):
    answer = loaded.engine.rest(verb, path, body)
    assert answer.status == status
    assert part in answer.document.data.decode()


def test_metadata_describes_each_signature(loaded):
    found = loaded.engine.rest("GET", "/v1/models/half/versions/1/metadata", b"").document.value
    assert found["model_spec"] == {"name": "half", "signature_name": "", "version": "1"}
    described = found["metadata"]["signature_def"]["signature_def"]
    assert described["both"]["method_name"] == "tensorflow/serving/predict"
    assert described["both"]["inputs"]["n"] == {
        "dtype": "DT_INT64",
        "tensor_shape": {"dim": [{"size": "-1", "name": ""}, {"size": "2", "name": ""}], "unknown_rank": False},
        "name": "n:0",
    }
    assert described["text"]["inputs"]["text"]["tensor_shape"] == {"dim": [], "unknown_rank": True}


def test_paths_of_targets_lead_back_to_them(loaded):
    assert Target("half", 2, "regress").path == "/v1/models/half/versions/2:regress"
    assert Target("a b", None).path == "/v1/models/a%20b:predict"
    assert backend.rest_uri(8501, Target("half", None)) == "http://localhost:8501/v1/models/half:predict"


def test_examples_are_written_as_tensorflow_reads_them():
    floats = wire.message(2, wire.message(1, struct.pack("<2f", 1.5, -2.0)))
    integers = wire.message(3, wire.message(1, wire.varint(1) + wire.varint(2**64 - 1)))
    texts = wire.message(1, wire.message(1, b"a") + wire.message(1, b"\xff"))
    expected = b"".join(
        wire.message(1, wire.message(1, name) + wire.message(2, feature))
        for name, feature in ((b"f", floats), (b"i", integers), (b"t", texts), (b"none", b""))
    )
    given = {"f": [1.5, -2.0], "i": [True, -1], "t": ["a", {"b64": "/w=="}], "none": []}
    assert examples.serialize(given) == wire.message(1, expected)


@pytest.mark.parametrize("value", [None, [1, 2.0], ["a", 1], [[1]], {"a": 1}, 2**63, 1e300, {"b64": "*"}])
def test_features_of_no_one_kind_are_refused(value):
    with pytest.raises(ValueFault):
        examples.serialize({"x": value})


def test_the_session_is_set_up_by_a_configuration():
    gpu = wire.message(6, wire.fixed64(1, struct.pack("<d", 0.4)))
    assert engine.config(3, 2, 0.4) == wire.number(2, 3) + wire.number(5, 2) + gpu
    assert engine.config(0, 0, None) == wire.message(6, wire.number(4, 1))


def test_only_a_rank_of_three_or_more_is_held():
    predictions._check_rank("x", (1, 3), (-1,))
    predictions._check_rank("x", (1, 5), (-1, 1))
    predictions._check_rank("x", (1, 9, 9, 3), (-1, 8, 8, 3))
    predictions._check_rank("x", (1,), None)
    with pytest.raises(ValueFault, match=r"has shape \[8, 3\]; the model takes \[any, 8, 3\]"):
        predictions._check_rank("x", (8, 3), (-1, 8, 3))
