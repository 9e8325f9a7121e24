"""The /opt/ml tree of a training container: what SageMaker writes before the start, what it reads at the end.

The names and schemas of the config files are those of the SageMaker developer guide, "How Amazon SageMaker Provides
Training Information".
"""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import stat
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from slipway.emulator.channels import Channel
from slipway.engine.docker import Mount
from slipway.errors import Fault, InputError
from slipway.files import naming_full_disk, write_whole

ML = "/opt/ml"
CODE = f"{ML}/code"
CHECKPOINTS = f"{ML}/checkpoints"
FAILURE_CHARACTERS = 1024


@dataclass(frozen=True)
class HostFolders:
    """The part of a job's work folder that one host sees under /opt/ml."""

    root: Path

    @property
    def config(self) -> Path:
        return self.root / "input" / "config"

    @property
    def data(self) -> Path:
        return self.root / "input" / "data"

    @property
    def model(self) -> Path:
        return self.root / "model"

    @property
    def output_data(self) -> Path:
        return self.root / "output" / "data"

    @property
    def code(self) -> Path:
        return self.root / "code"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    @property
    def names(self) -> Path:
        """What it sees as /etc/hosts, where it is not alone."""
        return self.root / "hosts"

    @property
    def failure(self) -> Path:
        return self.root / "output" / "failure"

    def make(self) -> None:
        """Make the folders. An image may run as any user, so all may write, as in a folder of their own."""
        for folder in (self.config, self.data, self.model, self.output_data):
            folder.mkdir(parents=True)
        open_to_all(self.root)
        for folder in (self.root / "input", self.model, self.root / "output", self.output_data):
            folder.chmod(0o777)

    def mounts(self) -> list[Mount]:
        """Single folders, not /opt/ml whole: an image may carry files of its own there."""
        names = ["input", "model", "output", *(["code"] if self.code.is_dir() else [])]
        return [Mount(self.root / name, f"{ML}/{name}") for name in names]


def encode_hyperparameters(values: Mapping[str, Any], *, raw: bool) -> dict[str, str]:
    """Hyperparameters as the service hands them on: strings.

    SDK v2 encodes each value as JSON once, strings too; boto3, the CLI and SDK v3 (`raw`) send strings as they are.
    """
    return {
        key: value if raw and isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for key, value in values.items()
    }


def input_data_config(channels: Sequence[Channel]) -> dict[str, Any]:
    """inputdataconfig.json."""
    return {
        channel.name: {
            "TrainingInputMode": channel.input_mode or "File",
            "S3DistributionType": channel.distribution or "FullyReplicated",
            "RecordWrapperType": channel.record_wrapper or "None",
            **({"ContentType": channel.content_type} if channel.content_type else {}),
        }
        for channel in channels
    }


def write_configs(folder: Path, documents: Mapping[str, Any]) -> None:
    """Write `<name>.json` for each document, readable by every user of the container."""
    for name, data in documents.items():
        write_whole(folder / f"{name}.json", json.dumps(data, ensure_ascii=False), mode=0o644)


def copy_source(source: Path, target: Path, *, leave_out: Path) -> None:
    """Copy a source folder, so that a job neither sees later edits nor leaves files of root behind in it.

    Links are followed, as their targets may lie outside. `leave_out` is the job's own output, which may lie inside.
    """
    faults = [
        Fault(f"the link {path.relative_to(source)} leads nowhere", "remove it or mend it", str(source))
        for path in source.rglob("*")
        if path.is_symlink() and not path.exists()
    ]
    if faults:
        raise InputError("the source folder cannot be copied", faults=faults)

    def inside(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if (Path(folder) / name).resolve() == leave_out.resolve()]

    with naming_full_disk(target):
        shutil.copytree(source, target, ignore=inside)
    open_to_all(target)
    target.chmod(0o777)  # toolkits build packages there


def open_to_all(folder: Path) -> None:
    """Let every user read a folder that Slipway filled: an image may run as any."""
    for path in (folder, *tree(folder)):
        path.chmod(path.stat().st_mode | (0o755 if path.is_dir() else 0o444))


def failure_text(path: Path) -> str:
    """The first characters of output/failure; empty when there is none.

    The file was written by the job: it may be a link to any file of this machine or a pipe, which are not followed.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return ""
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return ""
        return os.read(handle, FAILURE_CHARACTERS * 4).decode("utf-8", "replace")[:FAILURE_CHARACTERS]
    finally:
        os.close(handle)


def pack(folders: Sequence[Path], target: Path) -> list[str]:
    """Merge folders into one tar.gz, byte-equal for equal contents; of equal names the last folder's wins.

    Returns what a user should know of it. An empty tree gives no file, as SageMaker then uploads no object.
    """
    merged: dict[str, Path] = {}
    notes: list[str] = []
    for folder in folders:
        if folder.is_symlink():
            # The job may have put it there, and it may lead to any folder of this machine.
            notes.append(f"{folder.name} was replaced by a link; nothing of it is in {target.name}")
            continue
        for path in sorted(tree(folder)):
            name = path.relative_to(folder).as_posix()
            if _is_folder(merged.get(name)) and not _is_folder(path):
                merged = {other: kept for other, kept in merged.items() if not other.startswith(f"{name}/")}
            merged[name] = path
    if not merged:
        target.unlink(missing_ok=True)
        return notes
    part = target.with_name(f".{target.name}.part")
    try:
        with naming_full_disk(target), part.open("wb") as raw:
            # Level 1: a model hardly compresses, and the job's user is waiting.
            with (
                gzip.GzipFile("", "wb", compresslevel=1, fileobj=raw, mtime=0) as packed,
                tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive,
            ):
                for name in sorted(merged):
                    notes += _add(archive, name, merged[name], target.name)
            part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return notes


def _is_folder(path: Path | None) -> bool:
    return path is not None and path.is_dir() and not path.is_symlink()


def tree(folder: Path) -> list[Path]:
    """Everything below a folder. Links to folders are not entered: they may lead out of it."""
    found = []
    for place, folders, files in os.walk(folder):
        found += [Path(place) / name for name in (*folders, *files)]
    return found


def _add(archive: tarfile.TarFile, name: str, path: Path, archive_name: str) -> list[str]:
    status = path.lstat()
    entry = tarfile.TarInfo(name)
    entry.mode = 0o755 if status.st_mode & 0o100 or stat.S_ISDIR(status.st_mode) else 0o644
    content: IO[bytes] = io.BytesIO()
    notes = []
    if stat.S_ISDIR(status.st_mode):
        entry.type = tarfile.DIRTYPE
    elif stat.S_ISLNK(status.st_mode):
        entry.type, entry.linkname = tarfile.SYMTYPE, str(path.readlink())
        notes.append(f"{archive_name} holds the link {name}: SageMaker hosting refuses archives with links")
    elif stat.S_ISREG(status.st_mode):
        entry.size = status.st_size
        content = path.open("rb")
    else:
        return [f"{name} is neither file, folder nor link; left out of {archive_name}"]
    with content:
        archive.addfile(entry, content)
    return notes
