"""The files of a module, the shapes of its inputs, the rows of one pass: what is read before MXNet is there."""

from __future__ import annotations

import json

import pytest
from sagemaker_mxnet_serving_container import checkpoint, utils


@pytest.mark.parametrize("missing", [*checkpoint.FILES, None])
def test_missing_files_are_named_with_all_that_are_needed(tmp_path, missing):
    for name in checkpoint.FILES:
        if missing not in (name, None):
            (tmp_path / name).write_text("")
    with pytest.raises(ValueError, match="lacks ") as raised:
        checkpoint.load(str(tmp_path), device=None, rows=1)
    lacking, needed = str(raised.value).split(". The default model_fn needs ")
    assert lacking.endswith(f"lacks {missing or ', '.join(checkpoint.FILES)}")
    assert needed.startswith(", ".join(checkpoint.FILES))
    assert "give a model_fn" in needed


def test_a_folder_that_is_not_there_is_told(tmp_path):
    with pytest.raises(ValueError, match="found: nothing"):
        checkpoint.load(str(tmp_path / "model"), device=None, rows=1)


@pytest.mark.parametrize(("text", "rows"), [(None, 1), ("", 1), (" 4 ", 4), ("128", 128)])
def test_rows_of_a_pass_are_the_variable_or_one(monkeypatch, text, rows):
    if text is None:
        monkeypatch.delenv(checkpoint.BATCH_SIZE_ENV, raising=False)
    else:
        monkeypatch.setenv(checkpoint.BATCH_SIZE_ENV, text)
    assert checkpoint.batch_size() == rows


@pytest.mark.parametrize("text", ["0", "-1", "2.0", "many", "²"])
def test_rows_that_are_no_number_are_refused_by_name(monkeypatch, text):
    monkeypatch.setenv(checkpoint.BATCH_SIZE_ENV, text)
    with pytest.raises(ValueError, match=rf"{checkpoint.BATCH_SIZE_ENV}={text}: use a whole number from 1"):
        checkpoint.batch_size()


def test_shapes_begin_with_the_batch_size(tmp_path):
    path = tmp_path / "model-shapes.json"
    path.write_text(json.dumps([{"name": "data", "shape": [1, 3, 224, 224]}, {"name": "mask", "shape": [64]}]))
    names, shapes = utils.read_data_shapes(str(path), 8)
    assert names == ["data", "mask"]
    assert shapes == [("data", (8, 3, 224, 224)), ("mask", (8,))]
    assert utils.read_data_shapes(str(path))[1][0] == ("data", (1, 3, 224, 224))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[", "is no JSON"),
        ("{}", "must hold a list"),
        ("[]", "must hold a list"),
        ('[{"name": "data"}]', r'entry 0 is \{"name": "data"\}'),
        ('[{"name": 1, "shape": [1]}]', "entry 0"),
        ('[{"name": "a", "shape": [1]}, {"name": "b", "shape": []}, 3]', r"entry 1 .*; entry 2 is 3"),
        ('[{"name": "a", "shape": [1, "3"]}]', "entry 0"),
        ('[{"name": "a", "shape": [1, true]}]', "entry 0"),
    ],
)
def test_wrong_shapes_are_named_all_at_once(tmp_path, text, said):
    path = tmp_path / "model-shapes.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=said) as raised:
        utils.read_data_shapes(str(path))
    assert str(path) in str(raised.value)
