"""What a file is, told without PyTorch and without unpickling."""

from __future__ import annotations

import collections
import pickle
import zipfile

import pytest
from sagemaker_pytorch_serving_container.archives import BEFORE_ZIP, Kind, identify


def archive(path, **members):
    """A zip archive; `__` in a name stands for a slash, `_dot_` for a dot."""
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            file.writestr(name.replace("__", "/").replace("_dot_", "."), content)
    return path


class Net:
    """Stands for a pickled module."""


@pytest.mark.parametrize(
    ("members", "kind"),
    [
        ({"net__data_dot_pkl": b"", "net__constants_dot_pkl": b"", "net__code__net_dot_py": b""}, Kind.TORCHSCRIPT),
        ({"net__data_dot_pkl": b"\x80\x02}.", "net__version": b"3"}, Kind.PICKLED),
        ({"net__data_dot_pkl": b"\x80\x02}.", "net__config_dot_json": b"{}"}, Kind.PICKLED),
        ({"net__models__model_dot_json": b"{}", "net__archive_format": b"pt2"}, Kind.EXPORTED),
        ({"serialized_exported_program_dot_json": b"{}", "version": b"8.2"}, Kind.EXPORTED),
        ({"net__data__aotinductor__model__net_dot_so": b"", "net__archive_format": b"pt2"}, Kind.COMPILED),
        ({"word__document_dot_xml": b""}, Kind.UNKNOWN),
    ],
)
@pytest.mark.parametrize("name", ["model.pt", "model.pth", "model.pt2"])
def test_zip_archives_are_told_by_their_members(tmp_path, members, kind, name):
    assert identify(archive(tmp_path / name, **members)).kind is kind


@pytest.mark.parametrize(
    ("content", "kind", "said"),
    [
        (b"", Kind.UNKNOWN, "empty"),
        (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", Kind.PICKLED, BEFORE_ZIP),
        (b"\x08\0\0\0\0\0\0\0{}      ", Kind.SAFETENSORS, ""),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff{}", Kind.UNKNOWN, "cut short"),
        (b"version https://git-lfs.github.com/spec/v1\n", Kind.UNKNOWN, "Git LFS"),
        (b"PK\x03\x04 and then nothing", Kind.UNKNOWN, "cut short"),
    ],
)
def test_other_files_are_told_by_their_beginning(tmp_path, content, kind, said):
    path = tmp_path / "model.pt"
    path.write_bytes(content)
    found = identify(path)
    assert found.kind is kind
    assert said in found.description


def test_a_pickled_module_is_named_by_its_class(tmp_path):
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        data = pickle.dumps(Net(), protocol)
        found = identify(archive(tmp_path / "model.pt", net__data_dot_pkl=data))
        assert found.detail == f"of the class {__name__}.Net"


def test_a_state_dict_is_told_from_a_module(tmp_path):
    data = pickle.dumps(collections.OrderedDict(weight=[1.0]), 2)
    found = identify(archive(tmp_path / "model.pt", net__data_dot_pkl=data))
    assert found.description == "a pickled object (torch.save), most likely a state dict"


def test_nothing_is_unpickled(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "ran"), "w"))

    identify(archive(tmp_path / "model.pt", net__data_dot_pkl=pickle.dumps(Bomb(), 2)))
    assert not (tmp_path / "ran").exists()
