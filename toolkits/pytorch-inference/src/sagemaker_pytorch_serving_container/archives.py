"""What a model file is, told from its bytes: nothing is unpickled, and PyTorch is not needed.

``torch.jit.save``, ``torch.export.save`` and ``torch.save`` all write zip archives, so a name says little.
"""

from __future__ import annotations

import enum
import pickletools
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

BEFORE_ZIP = "in the format from before PyTorch 1.6"

_SAFETENSORS_HEADER_LIMIT = 100_000_000
_PICKLE_LIMIT = 16 << 20  # a description of tensors, not the tensors themselves


class Kind(enum.Enum):
    """What PyTorch can do with a file."""

    TORCHSCRIPT = "TorchScript"
    EXPORTED = "an exported program (torch.export)"
    COMPILED = "a compiled package (AOTInductor)"
    PICKLED = "a pickled object (torch.save)"
    SAFETENSORS = "safetensors weights"
    UNKNOWN = "nothing that PyTorch reads"


@dataclass(frozen=True)
class Archive:
    """A model file, and what it is."""

    path: Path
    kind: Kind
    detail: str = ""  # a half sentence more, such as the class of a pickled module

    @property
    def description(self) -> str:
        return f"{self.kind.value}{', ' + self.detail if self.detail else ''}"


def identify(path: Path) -> Archive:
    """What the file is. Raises OSError when it cannot be read."""
    if zipfile.is_zipfile(path):
        return _identify_zip(path)
    with path.open("rb") as file:
        start = file.read(9)
    size = path.stat().st_size
    if not size:
        return Archive(path, Kind.UNKNOWN, "for it is empty")
    if start[8:9] == b"{" and int.from_bytes(start[:8], "little") < min(size, _SAFETENSORS_HEADER_LIMIT):
        return Archive(path, Kind.SAFETENSORS)
    if start.startswith(b"version https"[:9]):
        return Archive(path, Kind.UNKNOWN, "but a pointer of Git LFS to a file that was never downloaded")
    if start[:2] == b"\x80\x02":
        return Archive(path, Kind.PICKLED, BEFORE_ZIP)
    return Archive(path, Kind.UNKNOWN, "or cut short")


def _identify_zip(path: Path) -> Archive:
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        # Archives of PyTorch have one folder at top level; those of torch.export before 2.8 have none.
        inner = {name: "/".join(PurePosixPath(name).parts[1:]) for name in names}
        found = set(inner.values())
        if "serialized_exported_program.json" in names:
            return Archive(path, Kind.EXPORTED)
        if any(name.startswith("models/") and name.endswith(".json") for name in found):
            return Archive(path, Kind.EXPORTED)
        if any(name.startswith("data/aotinductor/") for name in found):
            return Archive(path, Kind.COMPILED)
        if "constants.pkl" in found:
            return Archive(path, Kind.TORCHSCRIPT)
        pickles = [name for name in names if inner[name] == "data.pkl"]
        if pickles and archive.getinfo(pickles[0]).file_size < _PICKLE_LIMIT:
            return Archive(path, Kind.PICKLED, _pickled(archive.read(pickles[0])))
    return Archive(
        path, Kind.PICKLED if pickles else Kind.UNKNOWN, "" if pickles else "but a zip archive of something else"
    )


def _pickled(data: bytes) -> str:
    """What a pickle holds, by the classes it names in the order in which it names them."""
    names = _named_classes(data)
    foreign = [name for name in names if not name.startswith(("torch.", "collections.", "_codecs.", "builtins."))]
    if foreign:
        return f"of the class {foreign[0]}"
    modules = [name for name in names if name.startswith("torch.nn.") and not name.startswith("torch.nn.parameter")]
    if modules:
        return f"of the class {modules[0]}"
    return "most likely a state dict" if names else ""


def _named_classes(data: bytes) -> list[str]:
    """``module.name`` of every class or function that a pickle names. Nothing is imported."""
    found: list[str] = []
    recent: list[str] = []
    try:
        for operation, argument, _ in pickletools.genops(data):
            if operation.name == "GLOBAL":
                found.append(str(argument).replace(" ", "."))
            elif operation.name == "STACK_GLOBAL" and len(recent) > 1:
                found.append(".".join(recent[-2:]))
            elif isinstance(argument, str):
                recent.append(argument)
    except ValueError:
        return found
    return found
