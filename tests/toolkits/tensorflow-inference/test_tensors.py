"""JSON values to arrays and back."""

from __future__ import annotations

import base64
import json

import numpy as np
import pytest
from sagemaker_tensorflow_serving_container.tensors import BFLOAT16, DTYPES, ValueFault, to_array, to_json

NUMBERS = {name: number for number, name in DTYPES.items()}
STRING = NUMBERS["object"]


@pytest.mark.parametrize(
    ("value", "kind", "shape"),
    [
        ([1, 2.5], "float32", (2,)),
        (3, "float64", ()),
        ([[1, 2], [3, 4]], "int32", (2, 2)),
        ([255, 0], "uint8", (2,)),
        ([-128], "int8", (1,)),
        ([True, False], "bool", (2,)),
        ([2**63], "uint64", (1,)),
        ([[0, 2**64 - 1]], "uint64", (1, 2)),
        ([-(2**63)], "int64", (1,)),
        ([[], []], "int32", (2, 0)),
        ([65504.0], "float16", (1,)),
    ],
)
def test_values_become_arrays_of_the_inputs_type(value, kind, shape):
    array = to_array(value, NUMBERS[kind], "x")
    assert (array.dtype, array.shape) == (np.dtype(kind), shape)
    assert array.tolist() == value


def test_what_is_no_finite_number_passes():
    assert np.isnan(to_array([float("nan"), 1], NUMBERS["float32"], "x"))[0]
    assert to_array([float("-inf")], NUMBERS["float32"], "x").tolist() == [float("-inf")]


@pytest.mark.parametrize(
    ("value", "kind", "named"),
    [
        ([1, "2"], "float32", "'2' is none"),
        (["1.5"], "float32", "'1.5' is none"),
        ([True], "float32", "True is none"),
        ([None], "float32", "None is none"),
        ([{"b64": "QQ=="}], "float32", "b64"),
        ([1e39], "float32", "1e[+]39 is none"),
        ([1.0], "int32", "1.0 is none"),
        ([2**31], "int32", "2147483648 is none"),
        ([256], "uint8", "256 is none"),
        ([-1], "uint64", "-1 is none"),
        ([2**64], "uint64", "18446744073709551616 is none"),
        ([0, 2.5], "uint64", "2.5 is none"),
        ([1], "bool", "1 is none"),
        (["a"], "bool", "'a' is none"),
        ([[1], [2, 3]], "int32", "ragged"),
        ([1, [2]], "float32", "ragged"),
    ],
)
def test_values_of_another_kind_are_refused_by_name(value, kind, named):
    with pytest.raises(ValueFault, match=f"Input 'x'.*{named}"):
        to_array(value, NUMBERS[kind], "x")


def test_texts_and_base64_become_bytes():
    array = to_array([["a", {"b64": base64.b64encode(b"\xff").decode()}], ["é", ""]], STRING, "x")
    assert array.tolist() == [[b"a", b"\xff"], ["é".encode(), b""]]
    assert to_array("a", STRING, "x").shape == ()


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ([1], "1 is none"),
        ([{"b64": 1}], "is none"),
        ([{"b64": "*"}], "no base64"),
        ([["a"], ["b", "c"]], "ragged"),
        ([["a"], "b"], "ragged"),
        ([[["a"]], [["b"], ["c"]]], "ragged"),
    ],
)
def test_what_is_no_text_is_refused(value, named):
    with pytest.raises(ValueFault, match=f"Input 'x'.*{named}"):
        to_array(value, STRING, "x")


def test_a_type_without_a_json_form_is_refused():
    with pytest.raises(ValueFault, match="no JSON form"):
        to_array(1, 8, "x")
    with pytest.raises(ValueError, match="no JSON form"):
        to_json(np.zeros(1), 8, "x")


def test_floats_are_written_as_the_shortest_decimals_that_are_them():
    for kind in ("float16", "float32"):
        array = np.array([0.2, 1 / 3, 1e-30 if kind == "float32" else 1e-4, 3.0, float("nan"), float("-inf")], kind)
        values = to_json(array, NUMBERS[kind], "y")
        assert np.array_equal(np.array(values, kind), array, equal_nan=True)
        assert json.dumps(values[0]) == "0.2"
        assert json.dumps(values[3]) == "3.0"
    assert to_json(np.array([0.1 + 0.2]), NUMBERS["float64"], "y") == [0.30000000000000004]


def test_other_arrays_become_their_values():
    assert to_json(np.array([[1], [2]], "int64"), NUMBERS["int64"], "y") == [[1], [2]]
    assert to_json(np.array(True), NUMBERS["bool"], "y") is True


def test_bfloat16_is_rounded_and_read_as_tensorflow_holds_it():
    array = to_array([1.0, -2.5, 3.14159, float("nan")], BFLOAT16, "x")
    assert array.dtype == np.uint16
    assert array[:2].tolist() == [0x3F80, 0xC020]
    values = to_json(array, BFLOAT16, "y")
    assert values[:3] == [1.0, -2.5, 3.140625]
    assert np.isnan(values[3])


def test_bytes_outputs_are_base64_and_others_text():
    array = np.empty(2, dtype=object)
    array[:] = [b"\xff", b"a"]
    assert to_json(array, STRING, "image_bytes") == [{"b64": "/w=="}, {"b64": "YQ=="}]
    assert to_json(array[1:], STRING, "image") == ["a"]
    with pytest.raises(ValueError, match="Name it image_bytes"):
        to_json(array, STRING, "image")
