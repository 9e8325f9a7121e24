"""The decode and encode tables, cell by cell, and what hostile bodies do to them."""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import warnings
import zipfile

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from sagemaker_inference import content_types, decoder, encoder, errors

LINES = content_types.JSON_LINES_TYPES


def npy(array, **options):
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


# (text, shape, kind of dtype, values)
CSV = [
    ("1,2,3", (3,), "i", [1, 2, 3]),
    ("1,2,3\n4,5,6\n", (2, 3), "i", [[1, 2, 3], [4, 5, 6]]),
    ("1,2,3\r\n4,5,6\r\n", (2, 3), "i", [[1, 2, 3], [4, 5, 6]]),
    ("1.5", (), "f", 1.5),
    ("1\n2\n3", (3,), "i", [1, 2, 3]),
    ("1 , 2", (2,), "i", [1, 2]),
    ("a,b\nc,d", (2, 2), "U", [["a", "b"], ["c", "d"]]),
    ("id,x\n1,2", (2, 2), "U", [["id", "x"], ["1", "2"]]),
    ("true,false", (2,), "b", [True, False]),
    ("# c\n1,2", (2,), "i", [1, 2]),
]


@pytest.mark.parametrize(("text", "shape", "kind", "values"), CSV)
def test_csv_table(text, shape, kind, values):
    array = decoder.decode(text, "text/csv")
    assert (array.shape, array.dtype.kind, array.tolist()) == (shape, kind, values)


def test_csv_gaps():
    array = decoder.decode("1,,3", "text/csv")
    assert (array.dtype.kind, array.tolist()) == ("i", [1, 0, 3])
    assert decoder.decode("1,2\n3,", "text/csv").tolist() == [[1, 2], [3, -1]]
    assert np.isnan(decoder.decode("1.5,\n2.5,3.5", "text/csv")[0, 1])


def test_csv_records():
    array = decoder.decode("1,a\n2,b", "text/csv")
    assert array.shape == (2,) and array.dtype.names == ("f0", "f1")
    assert array.tolist() == [(1, "a"), (2, "b")]
    quoted = decoder.decode('"1",2', "text/csv")
    assert quoted.shape == () and quoted.item() == ('"1"', 2)


def test_csv_rows_of_different_length_name_the_row():
    with pytest.raises(errors.UndecodableError, match=r"Line #2 \(got 1 column"):
        decoder.decode("1,2\n3", "text/csv")


def test_empty_csv():
    with pytest.warns(UserWarning, match="[Ee]mpty"):
        assert decoder.decode("", "text/csv").shape == (0,)


def test_csv_is_never_a_file_name(tmp_path):
    path = tmp_path / "secret.csv"
    path.write_text("1,2")
    assert decoder.decode(str(path), "text/csv").item() == str(path)


# (text, what tolist gives, shape, kind of dtype)
JSON = [
    ("[1, 2]", [1, 2], (2,), "i"),
    ("[[1.5], [2]]", [[1.5], [2.0]], (2, 1), "f"),
    ("3", 3, (), "i"),
    ('"a"', "a", (), "U"),
    ("true", True, (), "b"),
    ("[]", [], (0,), "f"),
    ("null", None, (), "O"),
    ('{"a": [1]}', {"a": [1]}, (), "O"),
    ('[{"a": 1}, {"b": 2}]', [{"a": 1}, {"b": 2}], (2,), "O"),
    ("[1e400]", [float("inf")], (1,), "f"),
]


@pytest.mark.parametrize(("text", "value", "shape", "kind"), JSON)
def test_json_table(text, value, shape, kind):
    for body in (text, text.encode()):
        array = decoder.decode(body, "application/json")
        assert (array.tolist(), array.shape, array.dtype.kind) == (value, shape, kind)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("[1, 2", "line 1 column 6"),
        ("[1,\n oops]", "line 2 column 2"),
        ("[[1], [1, 2]]", "no array"),
        (b"[1, \xff]", "byte 4 is 0xff"),
        ("[" * 100_000, "no JSON"),
        ("9" * 5000, "no JSON"),
        ("", "no JSON"),
    ],
)
def test_bad_json_is_a_400_with_the_place(body, words):
    with pytest.raises(errors.UndecodableError, match=words) as caught:
        decoder.decode(body, "application/json")
    assert caught.value.status_code == 400
    assert isinstance(caught.value, ValueError)


def test_npy():
    for array in (np.arange(6).reshape(2, 3), np.float32(1.5), np.zeros((0, 3)), np.array(["a", "bc"])):
        for body in (npy(array), bytearray(npy(array)), npy(array) + b"\n"):
            decoded = decoder.decode(body, "application/x-npy")
            assert decoded.dtype == np.asarray(array).dtype and decoded.shape == np.shape(array)
            assert np.array_equal(decoded, array)
            assert (decoded.flags.writeable and decoded.flags.owndata) or decoded.base.flags.writeable
    fortran = np.asfortranarray(np.arange(6).reshape(2, 3))
    assert np.array_equal(decoder.decode(npy(fortran), "application/x-npy"), fortran)


def header(text: str) -> bytes:
    data = text.encode("latin-1")
    return b"\x93NUMPY\x01\x00" + len(data).to_bytes(2, "little") + data


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not an array",
        npy(np.arange(9))[:-1],
        npy(np.arange(9))[:20],
        b"\x93NUMPY\x09\x00" + npy(np.arange(9))[8:],
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }\n"),
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }\n"),
        header("{'descr': 'S0', 'fortran_order': False, 'shape': (1000000000000,), }\n"),
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (0, 10000000000000000000000), }\n"),
        header("-" * 9000 + "1"),
        header("(" * 9000),
        header("__import__('os').system('true')\n"),
    ],
)
def test_bad_npy_is_a_400(body):
    with pytest.raises(errors.UndecodableError, match="no NPY array"):
        decoder.decode(body, "application/x-npy")


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("unpickled",))


def test_nothing_is_unpickled():
    body = npy(np.array([Bomb()], dtype=object), allow_pickle=True)
    with pytest.raises(errors.UndecodableError, match="objects"):
        decoder.decode(body, "application/x-npy")
    buffer = io.BytesIO()
    np.savez(buffer, format=np.array([Bomb()], dtype=object), data=np.arange(2))
    with pytest.raises(errors.UndecodableError, match="objects"):
        decoder.decode(buffer.getvalue(), "application/x-npz")
    with pytest.raises(errors.UndecodableError):
        decoder.decode(pickle.dumps(Bomb()), "application/x-npy")


def npz(matrix):
    buffer = io.BytesIO()
    scipy.sparse.save_npz(buffer, matrix)
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia"])
def test_npz(kind):
    matrix = scipy.sparse.random(20, 30, 0.1, kind, random_state=1)
    decoded = decoder.decode(npz(matrix), "application/x-npz")
    assert decoded.format == kind
    assert np.array_equal(decoded.toarray(), matrix.toarray())


def test_npz_that_unpacks_too_far_is_refused_before_it_does(monkeypatch):
    body = npz(scipy.sparse.csr_matrix(np.ones((1, 5000))))
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        unpacked = sum(member.file_size for member in archive.infolist())
    monkeypatch.setattr(decoder, "MAX_UNPACKED", unpacked)
    assert decoder.decode(body, "application/x-npz").shape == (1, 5000)
    monkeypatch.setattr(decoder, "MAX_UNPACKED", unpacked - 1)
    with pytest.raises(errors.UndecodableError, match="unpacks to"):
        decoder.decode(body, "application/x-npz")


def test_bad_npz_is_a_400():
    lying = io.BytesIO()
    with zipfile.ZipFile(lying, "w") as archive:
        archive.writestr("format.npy", header("{'descr': '<f8', 'fortran_order': False, 'shape': (10**12,), }\n"))
    good = npz(scipy.sparse.eye(3).tocsr())
    other = io.BytesIO()
    np.savez(other, a=np.arange(3))
    flags = good.index(b"PK\x01\x02") + 8
    encrypted = good[:flags] + b"\x01" + good[flags + 1 :]
    assert encrypted != good
    for body in (encrypted, b"", b"PK\x05\x06", lying.getvalue(), good[:-30], good[:50] + good[60:], other.getvalue()):
        with pytest.raises(errors.UndecodableError, match="no sparse NPZ matrix"):
            decoder.decode(body, "application/x-npz")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (npy(np.arange(3.0))[:-1], "shape (3,) of float64 takes 24 bytes, and 23 follow the header"),
        (b"\x93NUMPY\x09\x01" + npy(np.arange(9))[8:], "version 9.1 is unknown"),
    ],
)
def test_message_of_a_bad_array(body, message):
    with pytest.raises(errors.UndecodableError) as caught:
        decoder.decode(body, "application/x-npy")
    assert caught.value.message == f"The body is no NPY array: {message}."


@pytest.mark.parametrize("kind", LINES)
def test_json_lines(kind):
    assert decoder.decode('{"a": 1}\n\n[2]\r\n"x"\n', kind) == [{"a": 1}, [2], "x"]
    assert decoder.decode(b"", kind) == []
    assert decoder.decode('"a\u2028b"', kind) == ["a\u2028b"]
    with pytest.raises(errors.UndecodableError, match="Line 3 is no JSON"):
        decoder.decode('1\n\n{"a":\n2', kind)
    assert encoder.encode([{"a": 1}, [2], "x"], kind) == '{"a": 1}\n[2]\n"x"'
    assert encoder.encode(np.arange(4).reshape(2, 2), kind) == "[0, 1]\n[2, 3]"
    assert encoder.encode({"a": np.float32(1)}, kind) == '{"a": 1.0}'
    assert encoder.encode([], kind) == ""


def test_type_may_have_parameters_and_any_case():
    assert decoder.decode("1,2", "TEXT/CSV; charset=utf-8").tolist() == [1, 2]
    assert decoder.decode('"é"'.encode("latin-1"), "application/json; charset=latin-1").item() == "é"
    assert decoder.decode(b"[1]", None).tolist() == [1]
    with pytest.raises(errors.UnsupportedFormatError, match="charset=klingon"):
        decoder.decode(b"[1]", "application/json; charset=klingon")
    with pytest.raises(errors.UndecodableError, match="utf-8"):
        decoder.decode(b"\xff", "text/csv")


@pytest.mark.parametrize("kind", ["application/octet-stream", "image/png", "application", "text/csvx"])
def test_unsupported_types_name_the_supported_ones(kind):
    with pytest.raises(errors.UnsupportedFormatError) as caught:
        decoder.decode(b"x", kind)
    assert caught.value.status_code == 415
    assert kind in caught.value.message and "application/x-npy" in caught.value.message
    with pytest.raises(errors.UnsupportedFormatError) as caught:
        encoder.encode([1], kind)
    assert caught.value.status_code == 406


# (value, JSON)
ENCODED_JSON = [
    ([1, 2], "[1, 2]"),
    (np.array([[1, 2], [3, 4]]), "[[1, 2], [3, 4]]"),
    (np.float32(0.5), "0.5"),
    (np.int64(3), "3"),
    ({"a": np.arange(2), "b": [np.float64(1.5), {"c": np.bool_(True)}]}, '{"a": [0, 1], "b": [1.5, {"c": true}]}'),
    ([np.arange(2), np.arange(3)], "[[0, 1], [0, 1, 2]]"),
    ({np.int64(1): "x"}, '{"1": "x"}'),
    ([{"k": {np.int64(1): np.int64(2)}}], '[{"k": {"1": 2}}]'),
    ("text", '"text"'),
    (None, "null"),
    (float("nan"), "NaN"),
    ([float("inf"), -float("inf")], "[Infinity, -Infinity]"),
    ((1, 2), "[1, 2]"),
    ("é", '"\\u00e9"'),
]


@pytest.mark.parametrize(("value", "text"), ENCODED_JSON, ids=lambda item: str(item)[:30])
def test_encoded_json_table(value, text):
    assert encoder.encode(value, "application/json") == text


def test_tensors_are_whatever_has_tolist():
    class Tensor:
        def tolist(self):
            return [1.5, 2.5]

    assert encoder.encode({"logits": [Tensor()]}, "application/json") == '{"logits": [[1.5, 2.5]]}'


def test_what_json_cannot_hold_is_named():
    with pytest.raises(TypeError, match="set has no form in JSON"):
        encoder.encode({1, 2}, "application/json")


# (value, CSV)
ENCODED_CSV = [
    ([1, 2, 3], "1\n2\n3\n"),
    ([[1, 2], [3, 4]], "1,2\n3,4\n"),
    (np.array([[1.5, 2.0]]), "1.5,2.0\n"),
    (["a", "b"], "a\nb\n"),
    ([], ""),
]


@pytest.mark.parametrize(("value", "text"), ENCODED_CSV)
def test_encoded_csv_table(value, text):
    assert encoder.encode(value, "text/csv") == text


@pytest.mark.parametrize("value", [[1, 2], (1, 2), np.array([1, 2])])
def test_encoded_json_lines(value):
    assert encoder.encode(value, "application/jsonlines") == "1\n2"


@pytest.mark.parametrize("value", [1, np.float32(1), np.zeros((2, 2, 2)), {"a": 1}, "text"])
def test_what_has_no_rows_is_no_csv(value):
    with pytest.raises(ValueError, match="1D or 2D"):
        encoder.encode(value, "text/csv")


def test_encoded_npy():
    for value in ([1, 2], np.zeros((2, 3), np.float32), 1.5):
        assert encoder.encode(value, "application/x-npy") == npy(np.asarray(value))
    with pytest.raises(ValueError, match="Object arrays"):
        encoder.encode([{"a": 1}], "application/x-npy")


def test_encoding_takes_a_whole_accept_header():
    assert encoder.encode([1], "text/csv;q=0.5, application/json") == "[1]"
    assert encoder.encode([1], "image/png, text/*") == "1\n"
    assert encoder.encode([1], "*/*") == "[1]"


def test_error_inside_a_codec_keeps_its_name(monkeypatch):
    def broken(_):
        raise KeyError("inner")

    monkeypatch.setattr(decoder, "_DECODERS", {"a/b": broken})
    with pytest.raises(KeyError, match="inner"):
        decoder.decode(b"", "a/b")

    class Broken:
        def tolist(self):
            raise KeyError("inner")

    with pytest.raises(KeyError, match="inner"):
        encoder.encode(Broken(), "application/json")


def test_names_used_elsewhere():
    assert decoder._json_to_numpy("[1]", dtype="float32").dtype == np.float32
    assert decoder._csv_to_numpy("1,2", dtype=float).tolist() == [1.0, 2.0]
    assert decoder._npy_to_numpy(npy(np.arange(2))).tolist() == [0, 1]
    assert decoder._npz_to_sparse(npz(scipy.sparse.eye(2).tocsr())).shape == (2, 2)
    assert encoder._array_to_json([1]) == "[1]"
    assert encoder._array_to_csv([1]) == "1\n"
    assert encoder._array_to_npy([1]) == npy(np.array([1]))
    assert set(encoder.SUPPORTED_CONTENT_TYPES) == {"application/json", "text/csv", "application/x-npy"}


@given(arrays.arrays(st.sampled_from(["f4", "f8", "i4", "u1", "?", "U3", "M8[s]"]), arrays.array_shapes(min_dims=0)))
@settings(max_examples=50)
def test_npy_round_trip(array):
    decoded = decoder.decode(encoder.encode(array, "application/x-npy"), "application/x-npy")
    assert decoded.dtype == array.dtype
    assert decoded.tobytes() == array.tobytes()


VALUE = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(VALUE, max_size=5), st.sampled_from(LINES))
def test_json_lines_round_trip(values, kind):
    assert decoder.decode(encoder.encode(values, kind), kind) == values


@given(VALUE)
def test_json_round_trip(value):
    assert json.loads(encoder.encode(value, "application/json")) == value


@given(st.binary(max_size=300), st.sampled_from(sorted({*decoder._DECODERS, "image/png"})))
def test_any_body_is_decoded_or_refused(body, kind):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            decoder.decode(body, kind)
        except errors.BaseInferenceToolkitError as error:
            assert error.status_code in (400, 415)


GOOD = [npy(np.arange(5.0)), npz(scipy.sparse.eye(3).tocsr())]


@given(st.sampled_from(GOOD), st.lists(st.tuples(st.integers(0, 10_000), st.binary(max_size=4)), max_size=4))
@settings(max_examples=300)
def test_damaged_arrays_are_decoded_or_refused(body, damages):
    kind = content_types.NPY if body.startswith(b"\x93NUMPY") else content_types.NPZ
    damaged = bytearray(body)
    for place, data in damages:
        damaged[place % len(body) : place % len(body) + len(data)] = data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with contextlib.suppress(errors.UndecodableError):
            decoder.decode(bytes(damaged), kind)


@given(st.text(alphabet='0123456789.,-+e"#\n\r \tnaifABC', max_size=80))
@settings(max_examples=200)
def test_any_csv_is_decoded_or_refused(text):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            decoder.decode(text, "text/csv")
        except errors.UndecodableError as error:
            assert "CSV" in error.message
