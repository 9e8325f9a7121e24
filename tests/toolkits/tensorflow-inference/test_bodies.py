"""Bodies as they come in, and as they go to the model."""

from __future__ import annotations

import json

import pytest
from sagemaker_tensorflow_serving_container import bodies
from sagemaker_tensorflow_serving_container.bodies import BodyError, UnsupportedType

JSON = "application/json"


def converted(text, kind=JSON, charset="utf-8"):
    document = bodies.convert(text.encode(charset) if isinstance(text, str) else text, kind, charset)
    assert json.loads(document.data) == document.value or "NaN" in str(document.data)
    return document.value


@pytest.mark.parametrize(
    "body",
    [
        b'{"instances": [1.0,  2]}',
        b'{"signature_name": "x", "inputs": {"a": [1]}}',
        b'{"examples": [{"a": 1}], "context": {}}\n',
    ],
)
def test_a_body_in_tensorflow_servings_form_passes_unchanged(body):
    assert bodies.convert(body, JSON).data == body
    assert bodies.convert(body, "application/jsonlines").data == body


@pytest.mark.parametrize("kind", [JSON, "application/jsonlines", "application/x-jsonlines", "application/jsons"])
@pytest.mark.parametrize(
    ("body", "instances"),
    [
        ("[1, 2]\n[3, 4]", [[1, 2], [3, 4]]),
        ('{"a": 1}\n{"a": 2}\n', [{"a": 1}, {"a": 2}]),
        ('{"a": 1}{"a": 2}', [{"a": 1}, {"a": 2}]),
        ('{"a": [1]} \r\n\r\n [2]', [{"a": [1]}, [2]]),
        ('{"a": "}\\n{"}\n{"a": 2}', [{"a": "}\n{"}, {"a": 2}]),
        ('1\n"two"\n3.5', [1, "two", 3.5]),
    ],
)
def test_values_on_lines_of_their_own_become_instances(kind, body, instances):
    assert converted(body, kind) == {"instances": instances}


@pytest.mark.parametrize(
    ("body", "instances"),
    [
        ("[[1, 2], [3, 4]]", [[1, 2], [3, 4]]),
        ("[1, 2]", [[1, 2]]),
        ("1.5", [1.5]),
        ('"text"', ["text"]),
        ('{"x": 1}', [{"x": 1}]),
        ('{"b64": "QQ=="}', [{"b64": "QQ=="}]),
        ("[[1], 2]", [[[1], 2]]),
    ],
)
def test_one_other_value_is_one_instance_and_a_list_of_lists_is_all_of_them(body, instances):
    assert converted(body) == {"instances": instances}


def test_one_line_of_json_lines_is_one_instance():
    assert converted("[[1, 2], [3, 4]]", "application/jsonlines") == {"instances": [[[1, 2], [3, 4]]]}


def test_without_a_type_a_body_is_json():
    assert converted("[1]", None) == {"instances": [[1]]}


@pytest.mark.parametrize(
    ("text", "instances"),
    [
        ("1,2,3", [[1, 2, 3]]),
        ("1.0,2\r\n-3e2,4\r\n", [[1.0, 2], [-300.0, 4]]),
        ("1\n2\n\n  \n3", [1, 2, 3]),
        ("a,1\nb,2", [["a", 1], ["b", 2]]),
        ("1,a", [[1, "a"]]),
        ('"a, b",2', [["a, b", 2]]),
        ('"say ""hi""",x', [['say "hi"', "x"]]),
        ('"two\nlines",1', [["two\nlines", 1]]),
        ("back\\slash,tab\there", [["back\\slash", "tab\there"]]),
        (" 1 ,x", [[1, "x"]]),
        ("007,1_000,0x1,1e5", [["007", "1_000", "0x1", 1e5]]),
        ("+1,.5,5.", [[1.0, 0.5, 5.0]]),
        ("1,,2", [[1, "", 2]]),
        ("\ufeff1,2", [[1, 2]]),
        ("naïve", ["naïve"]),
    ],
)
def test_csv_rows_become_instances_field_by_field(text, instances):
    assert converted(text, "text/csv") == {"instances": instances}


def test_missing_numbers_of_csv_are_numbers():
    assert bodies.convert(b"1,nan\nNaN,-inf", "text/csv").data == b'{"instances": [[1, NaN], [NaN, -Infinity]]}'


def test_a_long_csv_field_is_read():
    assert converted("x" * 1_000_000, "text/csv") == {"instances": ["x" * 1_000_000]}


@pytest.mark.parametrize(
    ("text", "named"),
    [("1,2\n3,4\n5\n", "line 3 has 1 columns, the first one has 2"), ('"open,1', "line 1"), ('1,2\n"a"b,2', "line 2")],
)
def test_a_bad_csv_row_is_named(text, named):
    with pytest.raises(BodyError, match=named):
        converted(text, "text/csv")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", JSON),
        ("  \n", JSON),
        ("[]", JSON),
        ('{"instances": []}', JSON),
        ('{"examples": []}', JSON),
        ("", "text/csv"),
        ("\n\n", "text/csv"),
        ("", "application/jsonlines"),
    ],
)
def test_a_body_without_records_is_refused(text, kind):
    with pytest.raises(BodyError, match="There are no records"):
        converted(text, kind)


@pytest.mark.parametrize("text", ['{"a": ', "nonsense", "[1] x", "1 2", '{"a": 1},{"a": 2}'])
def test_what_is_no_json_is_refused_with_its_place(text):
    with pytest.raises(BodyError, match=r"no JSON.*char"):
        converted(text)


def test_nesting_without_end_is_refused():
    with pytest.raises(BodyError):
        converted("[" * 100_000)


def test_other_types_are_refused_with_those_that_are_not():
    with pytest.raises(UnsupportedType, match=r"Unsupported Media Type: image/png\..*text/csv"):
        converted("", "image/png")


def test_charset_is_honoured():
    assert converted("é,1", "text/csv", "latin-1") == {"instances": [["é", 1]]}
    body = '{"instances": ["é"]}'.encode("utf-16")
    assert bodies.convert(body, JSON, "utf-16").data == '{"instances": ["é"]}'.encode()
    with pytest.raises(BodyError, match="utf-8"):
        converted(b"\xff\xfe", JSON)
    with pytest.raises(BodyError, match="klingon"):
        bodies.convert(b"1", JSON, "klingon")


def test_big_integers_and_texts_survive_the_way():
    assert bodies.convert(b'[9223372036854775807, "\xc3\xa9"]', JSON).data == (
        '{"instances": [[9223372036854775807, "é"]]}'.encode()
    )
