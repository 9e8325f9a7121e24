"""Which models a folder holds, and which of them a request means."""

from __future__ import annotations

import pytest
from sagemaker_tensorflow_serving_container import models
from sagemaker_tensorflow_serving_container.models import ModelError


@pytest.fixture
def folder(tmp_path):
    class Folder:
        path = str(tmp_path)

        def add(self, *names):
            for name in names:
                file = tmp_path / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.touch()
            return self

        def found(self):
            return {model.name: [version.number for version in model.versions] for model in models.find(self.path)}

    return Folder()


@pytest.mark.parametrize(
    ("path", "name", "version"),
    [
        ("export/Servo/1/saved_model.pb", "Servo", 1),
        ("model1/000123/saved_model.pb", "model1", 123),
        ("half/0/saved_model.pb", "half", 0),
        ("a/b/c/7/saved_model.pb", "c", 7),
    ],
)
def test_a_saved_model_below_a_number_is_found_at_any_depth(folder, path, name, version):
    assert folder.add(path).found() == {name: [version]}


def test_a_version_at_the_top_is_named_after_the_model_folder(tmp_path):
    model = tmp_path / "model"
    (model / "1").mkdir(parents=True)
    (model / "1" / "saved_model.pb").touch()
    (found,) = models.find(str(model))
    assert (found.name, found.base) == ("model", str(model))


def test_all_versions_are_found_and_the_newest_is_the_default(folder):
    folder.add("half/9/saved_model.pb", "half/010/saved_model.pb", "half/2/saved_model.pb")
    (model,) = models.find(folder.path)
    assert [version.number for version in model.versions] == [2, 9, 10]
    assert model.newest.number == 10
    assert model.version(None).number == 10
    assert model.version(9).path.endswith("half/9")
    assert model.version(3) is None


def test_several_models_come_in_the_order_of_their_paths_and_the_first_is_the_default(folder):
    folder.add("b/1/saved_model.pb", "a/2/saved_model.pb", "a/1/saved_model.pb")
    found = models.find(folder.path)
    assert [model.name for model in found] == ["a", "b"]
    assert models.default(found, None).name == "a"
    assert models.default(found, "b").name == "b"


def test_a_default_that_does_not_exist_is_refused_with_those_that_do(folder):
    found = models.find(folder.add("a/1/saved_model.pb", "b/1/saved_model.pb").path)
    with pytest.raises(ModelError, match=r"SAGEMAKER_TFS_DEFAULT_MODEL_NAME='c'.*a, b"):
        models.default(found, "c")


def test_what_lies_in_a_saved_model_is_no_model_of_its_own(folder):
    assert folder.add("half/1/saved_model.pb", "half/1/assets/2/saved_model.pb").found() == {"half": [1]}


def test_keras_files_are_models_with_or_without_a_version(folder):
    folder.add("dense.keras", "wide/3/any.keras", "wide/4/saved_model.pb", "._dense.keras")
    assert folder.found() == {"dense": [1], "wide": [3, 4]}
    (dense, wide) = models.find(folder.path)
    assert dense.newest.keras
    assert [version.keras for version in wide.versions] == [True, False]


def test_other_digits_are_no_version(folder):
    with pytest.raises(ModelError, match="its folder is no number"):
        folder.add("half/²/saved_model.pb").found()


def test_without_a_model_the_folder_and_what_it_holds_are_named(folder):
    folder.add("code/inference.py", "weights.bin")
    with pytest.raises(ModelError, match=r"which holds: code, weights.bin\. Put the model below .*/1/saved_model.pb"):
        folder.found()


def test_an_empty_and_a_missing_folder_are_told_apart(folder, tmp_path):
    with pytest.raises(ModelError, match="which holds: nothing"):
        folder.found()
    with pytest.raises(ModelError, match="does not exist"):
        models.find(str(tmp_path / "none"))


def test_a_saved_model_without_a_version_is_told_where_to_be(folder):
    with pytest.raises(ModelError, match=r"half/saved_model.pb is in no version: its folder is no number"):
        folder.add("half/saved_model.pb").found()


def test_two_models_of_one_name_and_two_versions_of_one_number_are_refused(folder):
    with pytest.raises(ModelError, match=r"a/m and .*b/m are both named 'm'"):
        folder.add("a/m/1/saved_model.pb", "b/m/1/saved_model.pb").found()
    with pytest.raises(ModelError, match="are both version 1"):
        folder.add("a/m/01/saved_model.pb").found()
