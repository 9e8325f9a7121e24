"""The data of input channels brought to this machine, and handed to each host as its channels ask for.

Source of the rules: the SageMaker API reference, Channel, S3DataSource and TrainingInputMode.
"""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from slipway.emulator import s3
from slipway.emulator.channels import FOLDER, Channel
from slipway.emulator.layout import open_to_all
from slipway.emulator.pipes import Pipe
from slipway.emulator.records import recordio
from slipway.engine.docker import Mount
from slipway.errors import Fault, InputError
from slipway.files import naming_full_disk, same_file

_BLOCK = 1 << 20


@dataclass
class ChannelStore:
    """Keeps the data of a job's channels below `folder`. `s3_endpoint` None: AWS's own."""

    folder: Path
    s3_endpoint: str | None
    _brought: dict[str, Path] = field(default_factory=dict)  # by channel: the folder that holds its objects

    def bring(self, channels: Sequence[Channel]) -> None:
        """Bring the data of every channel here. Raises InputError with every fault, DiskError."""
        faults: list[Fault] = []
        for channel in channels:
            faults += _contradictions(channel)
            if channel.file_system:
                what = f"channel {channel.name}: {channel.location} is not to be had on this machine"
                faults.append(Fault(what, "name a folder or an S3 prefix instead"))
        if not faults:
            faults = [fault for channel in channels for fault in self._try(channel)]
        if faults:
            raise InputError("the input channels cannot be read", faults=faults)

    def mounts(self, channels: Sequence[Channel], host: int, hosts: int) -> list[Mount]:
        """The folders of one host's channels, read-only. Those in Pipe mode have none."""
        return [
            Mount(self._folder(channel, host, hosts), f"{FOLDER}/{channel.name}", read_only=True)
            for channel in channels
            if channel.input_mode != "Pipe"
        ]

    def pipes(self, channels: Sequence[Channel], folder: Path, host: int, hosts: int) -> list[Pipe]:
        """The pipes of one host's channels, in `folder`, which it sees as /opt/ml/input/data. Not started."""
        return [
            Pipe(folder, channel.name, lambda channel=channel: self._stream(channel, host, hosts))  # type: ignore[misc]
            for channel in channels
            if channel.input_mode == "Pipe"
        ]

    def _try(self, channel: Channel) -> list[Fault]:
        try:
            self._brought[channel.name] = self._bring(channel)
        except InputError as error:
            return [Fault(f"channel {channel.name}: {error.message}", error.fix), *error.faults]
        except FileNotFoundError as error:
            return [Fault(f"channel {channel.name}: {error.filename} does not exist", "correct the location")]
        return []

    def _bring(self, channel: Channel) -> Path:
        """The folder that holds a channel's objects."""
        target = self.folder / channel.name
        if channel.data_type.endswith("ManifestFile"):
            return self._manifest(channel, target)
        path = channel.path
        if path is None:
            s3.download(channel.location, target, self.s3_endpoint)
        elif path.is_dir():
            return path.resolve()
        else:
            # A single object of S3 arrives as a file in the channel's folder; so does a single local file.
            with naming_full_disk(target):
                target.mkdir(parents=True)
                shutil.copyfile(path, target / path.name)
        open_to_all(target)
        return target

    def _manifest(self, channel: Channel, target: Path) -> Path:
        """The objects that a manifest names; an augmented one stands for itself."""
        if channel.path is None:
            s3.download(channel.location, target, self.s3_endpoint)
            manifest = target / PurePosixPath(channel.location).name
        else:
            manifest = channel.path
        text = manifest.read_text(encoding="utf-8")
        if channel.data_type == "AugmentedManifestFile":
            target.mkdir(parents=True, exist_ok=True)
            same_file(manifest, target / manifest.name)
            return target
        prefix, names = _manifest_entries(text)
        shutil.rmtree(target, ignore_errors=True)
        for name in names:
            self._fetch(f"{prefix}{name}", target / name)
        open_to_all(target)
        return target

    def _fetch(self, location: str, target: Path) -> None:
        """One object, under a name of its own."""
        if location.startswith("s3://"):
            s3.download_object(location, target, self.s3_endpoint)
            return
        with naming_full_disk(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(location.removeprefix("file://"), target)

    def _folder(self, channel: Channel, host: int, hosts: int) -> Path:
        brought = self._brought[channel.name]
        if channel.distribution != "ShardedByS3Key" or hosts == 1:
            return brought
        shard = self.folder / ".shards" / str(host) / channel.name
        if shard.exists():
            return shard
        shard.mkdir(parents=True)
        for name in self._names(channel, host, hosts):
            same_file(brought / name, shard / name)
        open_to_all(self.folder / ".shards")
        return shard

    def _names(self, channel: Channel, host: int, hosts: int) -> list[str]:
        """The objects of one host, in order of their keys. A host beyond their number gets none."""
        brought = self._brought[channel.name]
        names = sorted(path.relative_to(brought).as_posix() for path in brought.rglob("*") if path.is_file())
        return names[host::hosts] if channel.distribution == "ShardedByS3Key" else names

    def _stream(self, channel: Channel, host: int, hosts: int) -> Iterator[bytes]:
        """What one epoch of a channel in Pipe mode sends."""
        brought = self._brought[channel.name]
        if channel.data_type == "AugmentedManifestFile":
            (manifest,) = (path for path in brought.iterdir())
            lines = [line for line in manifest.read_text(encoding="utf-8").splitlines() if line.strip()]
            for line in lines[host::hosts] if channel.distribution == "ShardedByS3Key" else lines:
                for record in self._attributes(channel, json.loads(line)):
                    yield recordio(record) if channel.record_wrapper == "RecordIO" else record
            return
        for name in self._names(channel, host, hosts):
            if channel.record_wrapper == "RecordIO":
                data = (brought / name).read_bytes()
                yield recordio(gzip.decompress(data) if channel.compression == "Gzip" else data)
                continue
            opened = gzip.open if channel.compression == "Gzip" else open
            with opened(brought / name, "rb") as stream:
                while block := stream.read(_BLOCK):
                    yield block

    def _attributes(self, channel: Channel, line: dict[str, object]) -> Iterator[bytes]:
        """The attributes asked for, in their order: of a name that ends with -ref what it refers to, else the value."""
        for name in channel.attribute_names:
            value = line[name]
            if name.endswith("-ref"):
                target = self.folder / ".refs" / channel.name / str(value).replace("/", "_")
                if not target.exists():
                    self._fetch(str(value), target)
                yield target.read_bytes()
            else:
                yield (value if isinstance(value, str) else json.dumps(value)).encode()


def _contradictions(channel: Channel) -> list[Fault]:
    """What the service refuses of a channel's settings together."""
    piped = channel.input_mode == "Pipe"
    found = []
    for says, needs_pipe in (
        ("compression Gzip", channel.compression == "Gzip"),
        ("record_wrapper RecordIO", channel.record_wrapper == "RecordIO"),
        ("data_type AugmentedManifestFile", channel.data_type == "AugmentedManifestFile"),
    ):
        if needs_pipe and not piped:
            found.append(Fault(f"channel {channel.name}: {says} goes with input_mode Pipe only", "set input_mode Pipe"))
    if channel.data_type == "AugmentedManifestFile" and not channel.attribute_names:
        found.append(Fault(f"channel {channel.name}: an augmented manifest needs attribute_names", "name them"))
    return found


def _manifest_entries(text: str) -> tuple[str, list[str]]:
    """The prefix of a manifest, and the names below it. Raises InputError."""
    form = 'write [{"prefix": "s3://bucket/folder/"}, "a.csv", "b.csv"]'
    try:
        head, *names = json.loads(text)
        prefix = head["prefix"]
    except (ValueError, TypeError, KeyError):
        raise InputError("the manifest is no JSON list that begins with a prefix", fix=form) from None
    wrong = [name for name in names if not isinstance(name, str) or ".." in name.split("/") or name.startswith("/")]
    if wrong or not names:
        raise InputError(f"the manifest names {wrong[0]!r}" if wrong else "the manifest names no object", fix=form)
    return str(prefix), names
