"""Where an archive keeps a weight, told without PyTorch and without a call of what the archive names."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from sagemaker_pytorch_serving_container import mapping
from sagemaker_pytorch_serving_container.mapping import Weight


class Bytes:
    """Stands for torch.UntypedStorage: the file's bytes."""

    @staticmethod
    def from_file(path, shared, size):
        assert not shared, "a model that writes into a weight must not write into the file"
        return Path(path).read_bytes()[:size]


@pytest.fixture
def storages(tmp_path, torch):
    path = tmp_path / "model.pt"
    with zipfile.ZipFile(path, "w") as file:
        entry = zipfile.ZipInfo("net/data/0")
        entry.extra = b"FB\x05\x00ZZZZZ"  # the padding with which PyTorch aligns what it writes
        file.writestr(entry, b"weight 0")
        file.writestr("net/data/1", b"weight 1", zipfile.ZIP_DEFLATED)
        file.writestr("net/data/2/deep", b"weight 2")
    torch.UntypedStorage = Bytes
    with zipfile.ZipFile(path) as file:
        yield mapping._Storages(torch, path, file)


def test_a_member_is_found_behind_its_local_header(storages):
    assert storages.of("data/0") == b"weight 0"
    assert storages.of("data/2/deep") == b"weight 2"


@pytest.mark.parametrize("member", ["data/1", "data/3"])
def test_what_is_compressed_or_missing_is_not_mapped(storages, member):
    assert storages.of(member) is None


def entry(**changed):
    meta = {"sizes": [{"as_int": 2}, {"as_int": 3}], "strides": [{"as_int": 3}, {"as_int": 1}]}
    return {"path_name": "weight_0", "tensor_meta": {**meta, "storage_offset": {"as_int": 4}}, **changed}


@pytest.mark.parametrize(
    ("name", "described", "found"),
    [
        ("layer", entry(), [("own", Weight("data/weights/weight_0", 4, (2, 3), (3, 1)))]),
        ("mean", entry(), [("buffer", Weight("data/weights/weight_0", 4, (2, 3), (3, 1)))]),
        ("layer", entry(use_pickle=True), []),
        ("layer", entry(tensor_meta=None), []),
        ("other", entry(), []),
    ],
)
def test_weights_of_an_exported_program_by_name(name, described, found):
    model = SimpleNamespace(named_parameters=lambda: [("layer", "own")], named_buffers=lambda: [("mean", "buffer")])
    assert list(mapping._exported({"config": {name: described}}, model)) == found


class Storage:
    """Pickled by its persistent id, as PyTorch does."""


class Rebuilt:
    def __reduce__(self):
        return (_rebuild_tensor_v2, (Storage(), 4, (2, 3), (3, 1), False, None))


class Module:
    def __init__(self, ran):
        self.weight, self.inner, self.bomb = Rebuilt(), Inner(), Bomb(ran)


class Inner:
    def __init__(self):
        self.bias = Rebuilt()


class Bomb:
    def __init__(self, ran):
        self.ran = ran

    def __reduce__(self):
        return (open, (self.ran, "w"))


def _rebuild_tensor_v2(*_):
    """Stands for the function of torch._utils."""


class Pickler(pickle._Pickler):
    def persistent_id(self, value):
        return ("storage", "FloatStorage", "7", "cpu", 6) if isinstance(value, Storage) else None


def test_weights_of_a_module_are_told_from_its_pickle_and_nothing_is_called(torch, tmp_path, monkeypatch):
    ran = tmp_path / "ran"
    written = io.BytesIO()
    Pickler(written, 2).dump(Module(str(ran)))
    # As torch.jit.save writes it, where the function is PyTorch's.
    data = written.getvalue().replace(f"c{__name__}\n_rebuild".encode(), b"ctorch._utils\n_rebuild")
    torch.Tensor = str
    torch.nn = SimpleNamespace(Module=SimpleNamespace)
    model = SimpleNamespace(weight="own", inner=SimpleNamespace(bias="inner's"), bomb=SimpleNamespace())
    found = list(mapping._members(model, mapping._Outline(io.BytesIO(data)).load(), torch))
    assert found == [("own", Weight("data/7", 4, (2, 3), (3, 1))), ("inner's", Weight("data/7", 4, (2, 3), (3, 1)))]
    assert not ran.exists()
