"""Weights of a loaded model that stay in the model file, mapped: all workers of a container hold one copy together.

``torch.jit.load`` and ``torch.export.load`` copy every weight into memory of the process's own. Both keep weights
uncompressed in the archive, so the same bytes can be mapped instead, copy-on-write, once the model is there.
"""

from __future__ import annotations

import ctypes
import json
import pickle
import struct
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

SMALLEST = 1 << 20  # bytes of a weight that is worth a mapping
_WEIGHTS = "data/weights/model_weights_config.json"  # of exported programs that PyTorch 2.8 or later saved
_SAMPLE = 1 << 12  # bytes compared at both ends before a weight is exchanged


class Weight(NamedTuple):
    """Where an archive keeps a tensor: a member's name inside the archive, and the tensor's layout in it."""

    member: str
    offset: int  # in elements
    sizes: tuple[int, ...]
    strides: tuple[int, ...]


def share(model: Any, path: Path) -> int:
    """Exchanges large weights of a model on the CPU for mapped ones, as far as they are found. Gives how many bytes."""
    import torch

    with zipfile.ZipFile(path) as archive:
        found = list(_found(archive, model, torch))
        large = [(tensor, weight) for tensor, weight in found if tensor.numel() * tensor.element_size() >= SMALLEST]
        if not large:
            return 0
        storages = _Storages(torch, path, archive)
        shared = sum(_exchange(torch, tensor, weight, storages) for tensor, weight in large)
    _give_back()
    return shared


def _exchange(torch: Any, tensor: Any, weight: Weight, storages: _Storages) -> int:
    storage = storages.of(weight.member)
    same = tuple(tensor.shape) == weight.sizes and tuple(tensor.stride()) == weight.strides
    if storage is None or not same or tensor.device.type != "cpu":
        return 0
    mapped = torch.empty(0, dtype=tensor.dtype).set_(storage, weight.offset, weight.sizes, weight.strides)
    if not _alike(torch, tensor.detach(), mapped):
        return 0
    tensor.data = mapped
    return int(mapped.numel() * mapped.element_size())


def _alike(torch: Any, one: Any, other: Any) -> bool:
    """Whether both begin and end with the same bytes; more would read the whole file."""
    if not one.is_contiguous():
        return bool(torch.equal(one, other))
    ends = [tensor.reshape(-1).view(torch.uint8) for tensor in (one, other)]
    return all(torch.equal(*(end[part] for end in ends)) for part in (slice(_SAMPLE), slice(-_SAMPLE, None)))


class _Storages:
    """The members of an archive as parts of one mapping."""

    def __init__(self, torch: Any, path: Path, archive: zipfile.ZipFile) -> None:
        self._path = path
        self._members = {entry.filename.split("/", 1)[-1]: entry for entry in archive.infolist()}
        self._whole = torch.UntypedStorage.from_file(str(path), False, path.stat().st_size)

    def of(self, member: str) -> Any:
        entry = self._members.get(member)
        if entry is None or entry.compress_type != zipfile.ZIP_STORED:
            return None
        start = self._start(entry)
        return self._whole[start : start + entry.file_size]

    def _start(self, entry: zipfile.ZipInfo) -> int:
        """Where the bytes begin: after a local header, whose length the directory does not tell (APPNOTE, 4.3.7)."""
        with self._path.open("rb") as file:
            file.seek(entry.header_offset + 26)
            name, extra = struct.unpack("<HH", file.read(4))
        return entry.header_offset + 30 + int(name) + int(extra)


def _found(archive: zipfile.ZipFile, model: Any, torch: Any) -> Iterator[tuple[Any, Weight]]:
    """Tensors of the model, each beside what the archive says of it; nothing for an archive of an older form."""
    inner = {name.split("/", 1)[-1]: name for name in archive.namelist()}
    if _WEIGHTS in inner:
        yield from _exported(json.loads(archive.read(inner[_WEIGHTS])), model)
    elif "data.pkl" in inner:
        with archive.open(inner["data.pkl"]) as file:
            yield from _members(model, _Outline(file).load(), torch)


def _exported(weights: Mapping[str, Any], model: Any) -> Iterator[tuple[Any, Weight]]:
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    for name, entry in weights["config"].items():
        meta = entry.get("tensor_meta")
        if name in tensors and meta and not entry.get("use_pickle"):
            sizes, strides = (tuple(size.get("as_int", -1) for size in meta[key]) for key in ("sizes", "strides"))
            offset = meta["storage_offset"].get("as_int", -1)
            yield tensors[name], Weight(f"data/weights/{entry['path_name']}", offset, sizes, strides)


def _members(module: Any, described: Any, torch: Any) -> Iterator[tuple[Any, Weight]]:
    """Tensors of a module and of those inside it, beside what the archive says of them."""
    if not isinstance(described, _Object) or not isinstance(described.state, Mapping):
        return
    for name, value in described.state.items():
        member = getattr(module, name, None)
        if isinstance(value, Weight) and isinstance(member, torch.Tensor):
            yield member, value
        elif isinstance(member, torch.nn.Module):
            yield from _members(member, value, torch)


@dataclass
class _Object:
    """Stands for an instance of any class that the archive names."""

    state: Any = None

    def __new__(cls, *_: Any) -> _Object:
        return super().__new__(cls)

    def __init__(self, *_: Any) -> None:
        self.state = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Outline(pickle.Unpickler):
    """Reads the names and layouts of a model's tensors. Whatever class or function a pickle names, none is called."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _weight
        return _Object

    def persistent_load(self, pid: Any) -> str:
        """pid: ("storage", type, key, device, elements)."""
        return f"data/{pid[2]}"


def _weight(storage: str, offset: int, sizes: tuple[int, ...], strides: tuple[int, ...], *_: Any) -> Weight:
    return Weight(storage, offset, tuple(sizes), tuple(strides))


def _give_back() -> None:
    """Returns what the copies took to the system at once, where the C library can; glibc keeps it otherwise."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
