"""A script's folder as sourcedir.tar.gz, which a toolkit unpacks to /opt/ml/code."""

from __future__ import annotations

import gzip
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipway.errors import Fault, InputError, nearest
from slipway.files import naming_full_disk

_LEFT_OUT = (".git", "__pycache__", ".ipynb_checkpoints", ".DS_Store")
# Folders that hold a person's secrets or a system's files; SDK v2 refuses them as source as well.
_SYSTEM = ("/", "/etc", "/var/lib", "/root", "/home", "/usr", "/proc", "/sys")
_SECRET = (".aws", ".ssh", ".kube", ".docker", ".config", ".gnupg")


@dataclass(frozen=True)
class Source:
    """A folder with a script in it, and further files or folders that go beside it."""

    folder: Path
    entry: str
    dependencies: tuple[Path, ...] = ()

    def pack(self, target: Path) -> int:
        """Write the archive; equal files give equal bytes. Returns the bytes of the files in it."""
        size = 0

        def add(archive: tarfile.TarFile, path: Path, name: str) -> None:
            nonlocal size
            entry = archive.gettarinfo(str(path), name)
            if entry is None:  # a socket
                return
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            entry.mtime = 0
            size += entry.size
            if entry.isfile():
                with path.open("rb") as content:
                    archive.addfile(entry, content)
            else:
                archive.addfile(entry)

        with (
            naming_full_disk(target),
            target.open("wb") as raw,
            gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed,
            # Links are followed: what they lead to may not be in the archive. A link to a folder becomes a folder.
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT, dereference=True) as archive,
        ):
            for path, name in self.files():
                add(archive, path, name)
        return size

    def copy(self, target: Path) -> None:
        """Lay the files out as a toolkit finds them."""
        with naming_full_disk(target):
            for path, name in self.files():
                place = target / name
                if path.is_dir():
                    place.mkdir(parents=True, exist_ok=True)
                else:
                    place.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(path, place)

    def files(self) -> list[tuple[Path, str]]:
        """What goes into the archive, with its name there."""
        found = _below(self.folder, "")
        for path in self.dependencies:
            found += _below(path, path.name + "/") if path.is_dir() else [(path, path.name)]
        return sorted(found, key=lambda item: item[1])


def find(given: Mapping[str, Any], home: Path) -> Source:
    """The source of a launch from the estimator's arguments. Raises InputError with every fault."""
    folder, entry = Path(str(given["source_dir"])), str(given["entry_point"])
    dependencies = tuple(Path(str(path)) for path in given.get("dependencies") or ())
    faults = []
    if not folder.is_dir():
        faults.append(Fault(f"the folder {folder} does not exist", "correct the script's path"))
    elif not (folder / entry).is_file():
        held = sorted(path.name for path in folder.iterdir() if path.suffix == ".py")
        faults.append(Fault(f"there is no {entry} in {folder}", nearest(entry, held) if held else "no script is there"))
    if not entry.endswith(".py"):
        faults.append(Fault(f"{entry} is no Python script", "accelerate launches files that end in .py alone"))
    for path in (folder, *dependencies):
        if _kept(path.resolve(), home.resolve()):
            faults.append(Fault(f"{path} is no folder to be uploaded", "put the script into a folder of its own"))
    faults += lacking(given)
    if not faults:
        faults = [
            Fault(f"the link {name} leads nowhere", "remove it or mend it", str(folder))
            for path, name in Source(folder, entry, dependencies).files()
            if path.is_symlink() and not path.exists()
        ]
    if faults:
        raise InputError("the source cannot be uploaded", faults=faults)
    return Source(folder, entry, dependencies)


def lacking(given: Mapping[str, Any]) -> list[Fault]:
    """The dependencies that are not there."""
    paths = [Path(str(path)) for path in given.get("dependencies") or ()]
    return [Fault(f"dependencies: {path} does not exist", "correct it") for path in paths if not path.exists()]


def _kept(path: Path, home: Path) -> bool:
    if str(path) in _SYSTEM or path == home:
        return True
    return any(path == home / name or home / name in path.parents for name in _SECRET)


def _below(folder: Path, prefix: str) -> list[tuple[Path, str]]:
    return [
        (path, prefix + path.relative_to(folder).as_posix())
        for path in folder.rglob("*")
        if not any(part in _LEFT_OUT for part in path.relative_to(folder).parts)
        and (path.is_symlink() or path.is_file() or path.is_dir())
    ]
