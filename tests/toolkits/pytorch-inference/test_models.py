"""Which file is the model, and what is said where there is none."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from sagemaker_pytorch_serving_container import models
from sagemaker_pytorch_serving_container.models import ModelLoadError

from .test_archives import archive


@pytest.fixture
def folder(tmp_path):
    """Makes files and folders (names that end in a slash) in a model folder."""

    def make(*names):
        for name in names:
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if name.endswith("/"):
                path.mkdir(exist_ok=True)
            else:
                path.write_bytes(b"")
        return str(tmp_path)

    return make


@pytest.mark.parametrize("others", [(), ("other.pt", "last.pth", "old.pt2")])
def test_model_pt_wins(folder, others):
    assert models.find(folder("model.pt", *others)).name == "model.pt"


@pytest.mark.parametrize("name", ["net.pt", "model.pth", "net.pt2"])
def test_the_only_file_counts_whatever_its_name(folder, name, tmp_path):
    found = models.find(folder(name, "code/inference.py", "vocabulary.pkl", "._model.pt", "deep/more.pt", "x.pt/"))
    assert found == tmp_path / name


def test_several_files_are_listed(folder):
    with pytest.raises(ValueError, match=r"2 files .*: a\.pth, b\.pt\. Name the one to serve model\.pt, .* a model_fn"):
        models.find(folder("b.pt", "a.pth"))


def test_none_lists_what_is_there(folder):
    with pytest.raises(
        ValueError, match=r"only: code/, readme\.md\. Expected: model\.pt, or .* or a model_fn in code/"
    ):
        models.find(folder("code/inference.py", "readme.md"))


def test_an_archive_packed_with_its_folder_is_told(folder):
    with pytest.raises(ValueError, match=r"packed with the folder output around it\? Pack its contents instead"):
        models.find(folder("output/model.pt", "output/code/inference.py"))


def test_safetensors_alone_need_a_model_fn(folder):
    with pytest.raises(ValueError, match=r"weights without a model: build the model in a model_fn.*weights\.load"):
        models.find(folder("model.safetensors", "config.json"))


@pytest.mark.parametrize(("make", "said"), [(True, "is empty"), (False, "does not exist")])
def test_an_empty_folder_is_told(tmp_path, make, said):
    folder = tmp_path / "model"
    if make:
        folder.mkdir()
    with pytest.raises(ValueError, match=said):
        models.find(str(folder))


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"net__data_dot_pkl": b"\x80\x02}."}, r"a pickled object \(torch\.save\).*weights\.load\(os\.path\.join"),
        ({"net__data__aotinductor__net_dot_so": b""}, "native code, which is not run by default"),
        ({"word__document_dot_xml": b""}, "zip archive of something else"),
    ],
)
def test_what_cannot_be_served_is_named_with_what_to_do(tmp_path, members, said):
    with pytest.raises(ModelLoadError, match=said):
        models.load(archive(tmp_path / "model.pth", **members), device=None)


def refusing(said):
    def load(path, map_location):
        raise RuntimeError(said)

    return SimpleNamespace(load=load)


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("Unknown builtin op: torchvision::nms.\nCould not find", r"operator torchvision::nms .*\(torchvision\?\)"),
        ("unexpected end of file\nat frame 3", r"cannot be loaded: unexpected end of file$"),
    ],
)
def test_torchscript_that_cannot_be_loaded_is_told_by_its_first_line(torch, tmp_path, reason, said):
    torch.jit = refusing(reason)
    path = archive(tmp_path / "model.pt", net__data_dot_pkl=b"", net__constants_dot_pkl=b"")
    with pytest.raises(ModelLoadError, match=said):
        models.load(path, device="cpu")


@pytest.mark.parametrize(
    "entry", [{"use_pickle": True, "path_name": "weight_0"}, {"use_pickle": False, "path_name": "opaque_obj_0"}]
)
@pytest.mark.parametrize("file", ["model_weights_config_dot_json", "model_constants_config_dot_json"])
def test_an_exported_program_with_pickled_objects_is_not_opened(torch, tmp_path, entry, file):
    members = {
        "net__models__model_dot_json": b"{}",
        f"net__data__weights__{file}": json.dumps({"config": {"a": entry}}),
    }
    with pytest.raises(ModelLoadError, match=r"1 pickled object\(s\) in data/weights/model_.*runs code that the file"):
        models.load(archive(tmp_path / "model.pt2", **members), device="cpu")


def test_an_exported_program_whose_members_name_classes_is_not_opened(torch, tmp_path):
    torch.serialization = SimpleNamespace(get_unsafe_globals_in_checkpoint=lambda file: ["os.system", "builtins.eval"])
    inner = archive(tmp_path / "inner.zip", net__data_dot_pkl=b"").read_bytes()
    members = {"serialized_exported_program_dot_json": b"{}", "serialized_constants_dot_pt": inner}
    with pytest.raises(ModelLoadError, match=r"objects of builtins\.eval, os\.system in serialized_constants\.pt"):
        models.load(archive(tmp_path / "model.pt2", **members), device="cpu")
