"""Answers in the form that the client accepts."""

from __future__ import annotations

import pytest
from sagemaker_inference.errors import NotAcceptableError
from sagemaker_tensorflow_serving_container import answers
from sagemaker_tensorflow_serving_container.documents import Document

PRETTY = b'{\n    "predictions": [[1.0, 2.0], [3.0, 4.0]\n    ]\n}'


def rendered(value, kind):
    return answers.render(Document(value), kind).decode()


@pytest.mark.parametrize("kind", ["application/json", "application/jsonlines"])
def test_one_answer_is_one_line(kind):
    one = b'{\r\n    "outputs": {"a": "x\\ny"}\n}'
    assert b"\n" not in answers.render(Document(data=one), kind)
    assert b"x\\ny" in answers.render(Document(data=one), kind)


def test_json_keeps_the_model_servers_own_text():
    assert answers.render(Document(data=PRETTY), "application/json") == (
        b'{    "predictions": [[1.0, 2.0], [3.0, 4.0]    ]}'
    )


def test_json_lines_has_one_line_for_each_record():
    assert answers.render(Document(data=PRETTY), "application/jsonlines") == (
        b'{"predictions": [[1.0, 2.0]]}\n{"predictions": [[3.0, 4.0]]}'
    )
    assert rendered({"results": [1, 2]}, "application/jsons") == '{"results": [1]}\n{"results": [2]}'
    assert rendered({"outputs": {"a": [1, 2]}}, "application/jsonlines") == '{"outputs": {"a": [1, 2]}}'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"predictions": [1.5, 2]}, "1.5\n2"),
        ({"predictions": [[1, 2], [3, 4]]}, "1,2\n3,4"),
        ({"predictions": [[[1], [2]]]}, "1,2"),
        ({"predictions": [{"a": [1, 2], "b": "x, y"}, {"a": [3, 4], "b": None}]}, '1,2,"x, y"\n3,4,null'),
        ({"predictions": [{"b64": "QQ=="}]}, "QQ=="),
        ({"predictions": [True, False]}, "true\nfalse"),
        ({"results": [[["a", 0.5], ["b", 1.0]]]}, "a,0.5,b,1.0"),
        ({"outputs": [[1], [2]]}, "1\n2"),
        ({"outputs": {"a": [1, 2], "b": [3, 4]}}, "1,3\n2,4"),
        ({"outputs": 3}, "3"),
    ],
)
def test_csv_has_one_row_for_each_record(value, text):
    assert rendered(value, "text/csv") == text


def test_columns_of_other_lengths_are_no_rows():
    with pytest.raises(ValueError, match="differ in length"):
        rendered({"outputs": {"a": [1, 2], "b": [3]}}, "text/csv")


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        (None, "application/json"),
        ("*/*", "application/json"),
        ("application/*", "application/json"),
        ("Text/CSV; charset=utf-8", "text/csv"),
        ("image/png, application/jsonlines;q=0.5", "application/jsonlines"),
        ("application/json;q=0.1, text/csv", "text/csv"),
    ],
)
def test_the_type_is_negotiated(accept, kind):
    assert answers.choose(accept, "application/json") == kind


def test_a_type_that_cannot_be_made_is_refused_with_those_that_can():
    with pytest.raises(NotAcceptableError, match="text/csv") as caught:
        answers.choose("image/png", "application/json")
    assert caught.value.status_code == 406
