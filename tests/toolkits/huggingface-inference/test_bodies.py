"""Bodies to requests and predictions to bodies, where no image library is needed."""

from __future__ import annotations

import datetime
import io
import json

import numpy
import pytest
from sagemaker_huggingface_inference_toolkit import content_types, decoder_encoder
from sagemaker_huggingface_inference_toolkit.decoder_encoder import Records, decode, encode
from sagemaker_inference import errors, negotiation


def test_json_is_taken_as_it_is():
    assert decode('{"inputs": "a"}') == {"inputs": "a"}
    assert decode(b'["\xc3\xa9", null]', "Application/JSON; charset=utf-8") == ["é", None]
    assert decode('"a"'.encode("utf-16"), "application/json; charset=utf-16") == "a"
    assert decode("1", None) == 1


@pytest.mark.parametrize(("body", "said"), [("{", "no JSON"), (b"\xff", "utf-8"), ("[" * 100000, "no JSON")])
def test_json_that_is_none_is_400(body, said):
    with pytest.raises(errors.UndecodableError, match=said):
        decode(body)


def test_csv_by_its_first_line():
    assert decode('inputs\na\n"b, c"\n', "text/csv") == {"inputs": ["a", "b, c"]}
    assert decode("id, inputs\r\n1,a\r\n\r\n2,b\r\n", "text/csv") == {"inputs": ["a", "b"]}
    rows = [{"question": "q", "context": "c"}, {"question": "r", "context": "d"}]
    assert decode("question,context\nq,c\nr,d", "text/csv") == {"inputs": rows}
    assert decode("\ufeffinputs\na", "text/csv") == {"inputs": ["a"]}
    assert decode("inputs\n", "text/csv") == {"inputs": []}


@pytest.mark.parametrize(
    ("body", "said"),
    [("", "must name its columns"), ("a,b\n1,2", "it is: 'a,b'"), ("question,context\nq", "Line 2 has 1 fields")],
)
def test_csv_that_is_none_is_400(body, said):
    with pytest.raises(errors.UndecodableError, match=said):
        decode(body, "text/csv")


def test_lines_are_records():
    found = decode('{"inputs": 1}\n\n"a"\r\n', "application/x-jsonlines")
    assert isinstance(found, Records)
    assert found == [{"inputs": 1}, "a"]
    with pytest.raises(errors.UndecodableError, match="Line 2"):
        decode('"a"\n{', "application/jsonlines")


def test_arrays_are_inputs():
    buffer = io.BytesIO()
    numpy.save(buffer, numpy.arange(4).reshape(2, 2))
    assert decode(buffer.getvalue(), "application/x-npy") == {"inputs": [[0, 1], [2, 3]]}
    with pytest.raises(errors.UndecodableError):
        decode(b"none", "application/x-npy")


@pytest.mark.parametrize("kind", ["x-flac", "mpeg", "wave", "ogg", "x-audio", "wav", "x-wav", "flac", "mp3", "webm"])
def test_audio_is_bytes(kind):
    assert decode(b"RIFF", f"audio/{kind}") == {"inputs": b"RIFF"}


def test_other_types_are_415_with_those_that_are_read():
    with pytest.raises(
        errors.UnsupportedFormatError, match=r"'text/html' is not supported; supported: application/json"
    ):
        decode("a", "text/html")


def test_json_is_compact_utf8_without_nan():
    assert encode({"a": ["é", 1.5, None, True]}) == '{"a":["é",1.5,null,true]}'
    for value in (float("nan"), [float("inf")], numpy.float32("nan"), numpy.array([numpy.nan])):
        with pytest.raises(ValueError, match="JSON"):
            encode(value)


def test_json_of_what_is_no_json():
    class Tensor:
        def detach(self):
            return self

        def cpu(self):
            return numpy.arange(2)

    value = {
        "array": numpy.float32([[1.5]]),
        "numbers": [numpy.int64(1), numpy.float16(0.5), numpy.bool_(True)],
        "tensor": (Tensor(), {"deep": Tensor()}),
        "when": [datetime.datetime(2026, 1, 2, 3, 4), datetime.date(2026, 1, 2)],
        "bytes": b"ab",
        numpy.int64(7): {1},
        3: None,
    }
    assert json.loads(encode(value)) == {
        "array": [[1.5]],
        "numbers": [1, 0.5, True],
        "tensor": [[0, 1], {"deep": [0, 1]}],
        "when": ["2026-01-02T03:04:00", "2026-01-02"],
        "bytes": "YWI=",
        "7": [1],
        "3": None,
    }
    with pytest.raises(TypeError, match="object has no form in JSON"):
        encode(object())


def test_csv_has_a_header_and_a_row_for_each_dict():
    assert encode([{"a": 1, "b": "x, y"}, {"a": numpy.float32(2), "c": [1, 2]}], "text/csv") == (
        'a,b,c\n1,"x, y",\n2.0,,"[1,2]"\n'
    )
    assert encode({"a": 1}, "text/csv") == "a\n1\n"
    assert encode([[{"a": 1}], [{"a": 2}]], "text/csv") == "a\n1\n2\n"


@pytest.mark.parametrize("value", [[[1, 2]], "text", [1], [[{"a": 1}, {"a": 2}]]])
def test_csv_of_what_has_no_rows_is_406(value):
    with pytest.raises(errors.NotAcceptableError):
        encode(value, "text/csv")


def test_lines_one_for_each_item():
    assert encode([{"a": 1}, [2]], "application/jsonlines") == '{"a":1}\n[2]'
    assert encode({"a": 1}, "application/jsonlines") == '{"a":1}'


def test_npy():
    assert numpy.load(io.BytesIO(encode([[1.0, 2.0]], "application/x-npy"))).tolist() == [[1.0, 2.0]]


def test_the_best_type_of_a_list_is_taken_and_told():
    negotiation.chosen.set(None)
    assert encode([{"a": 1}], "text/html, text/csv;q=0.9, application/json;q=0.5") == "a\n1\n"
    assert negotiation.chosen.get() == "text/csv"
    assert encode({"a": 1}, "*/*") == '{"a":1}'


def test_what_is_no_image_cannot_be_an_image():
    with pytest.raises(errors.NotAcceptableError, match="application/json"):
        encode([{"a": 1}], "image/png")


def test_any_image_type_is_png_in_an_answer():
    assert decoder_encoder.image_type("image/x-image") == "image/png"
    assert decoder_encoder.image_type("image/jpeg") == "image/jpeg"
    assert {"jpeg", "png", "tiff", "bmp", "gif", "webp", "x-image"} <= {
        name.removeprefix("image/") for name in content_types.IMAGE_FORMATS
    }
