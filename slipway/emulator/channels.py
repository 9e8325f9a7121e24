"""Input channels: what each is called, where its data comes from, and how a script gets it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slipway import tables
from slipway.errors import Fault, nearest

FOLDER = "/opt/ml/input/data"
MOST = 20
NAME = re.compile(r"[A-Za-z0-9.\-_]{1,64}")
NAME_RULE = "1 to 64 letters, digits, dots, dashes and underscores"

# What a channel may say beyond its location, and the values that the service takes.
_CHOICES = {
    "input_mode": ("File", "FastFile", "Pipe"),
    "distribution": ("FullyReplicated", "ShardedByS3Key"),
    "compression": ("None", "Gzip"),
    "data_type": ("S3Prefix", "ManifestFile", "AugmentedManifestFile"),
    "record_wrapper": ("None", "RecordIO"),
    "access": ("ro", "rw"),
}
# Fields of S3DataSource alone, and of FileSystemDataSource alone.
_S3_ALONE = ("data_type", "distribution", "attribute_names", "instance_groups")
_FILE_SYSTEM_ALONE = ("access",)
_FORM = tables.Form(
    "channel_name",
    "data_location",
    words=True,
    optional=("content_type", "attribute_names", "instance_groups", *_CHOICES),
)
_FILE_SYSTEM = re.compile(r"(efs|fsx)://(fs-[0-9a-f]{8,17})(/.*)?")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):/")


@dataclass(frozen=True)
class Channel:
    """A channel. `location`: a path, `file:///…`, `s3://…`, or `efs://fs-…/folder` and `fsx://fs-…/folder`.

    What is empty has the service's default. `instance_groups` are those that get the channel; empty: all. `access` is
    that of a file system; on this machine there are none.
    """

    name: str
    location: str
    content_type: str = ""
    input_mode: str = ""
    distribution: str = ""
    compression: str = ""
    data_type: str = ""
    record_wrapper: str = ""
    attribute_names: tuple[str, ...] = ()
    access: str = ""
    instance_groups: tuple[str, ...] = ()

    @property
    def file_system(self) -> tuple[str, str, str] | None:
        """Kind (efs or fsx), ID and folder of a file system; None for anything else."""
        found = _FILE_SYSTEM.fullmatch(self.location)
        return (found[1], found[2], found[3] or "/") if found else None

    @property
    def path(self) -> Path | None:
        """The local file or folder; None for S3."""
        return None if self.location.startswith("s3://") else Path(self.location.removeprefix("file://"))


@dataclass(frozen=True)
class Channels:
    """The channels of a file, where accelerate would read it differently, and each channel's line."""

    channels: tuple[Channel, ...]
    warnings: tuple[Fault, ...]
    lines: Mapping[str, int] = field(default_factory=dict)


def read(path: Path) -> Channels:
    """Read an inputs file (`channel_name<TAB>data_location`). Local paths are relative to the file's folder.

    Raises InputError with every fault. Limits: the service model's InputDataConfig and ChannelName.
    """
    table = tables.read(path, _FORM)
    table.refuse_repeats("channel_name")
    channels = []
    for row in table.rows:
        name = row.values["channel_name"]
        if not NAME.fullmatch(name) or name in (".", ".."):
            table.fault(row.line, f"channel name {name!r}", NAME_RULE)
        channels.append(Channel(name, _location(table, row, path.parent), **_further(table, row)))
    if len(channels) > MOST:
        table.fault(table.rows[MOST].line, f"{len(channels)} channels", f"SageMaker takes {MOST} at most")
    if not channels and not table.faults:
        table.warn(None, "the file names no channel")
    table.close()
    lines = {row.values["channel_name"]: row.line for row in table.rows}
    return Channels(tuple(channels), tuple(table.warnings), lines)


def _further(table: tables.Table, row: tables.Row) -> dict[str, Any]:
    """What the optional columns say; what is wrong with it goes into the table."""
    values: dict[str, Any] = {name: row.values[name] for name in ("content_type", *_CHOICES) if name in row.values}
    for name, choices in _CHOICES.items():
        value = values.get(name)
        if value is not None and value not in choices:
            what = f"channel {row.values['channel_name']}: {name} {value!r} is not known"
            table.fault(row.line, what, nearest(value, choices))
    kind = row.values["data_location"].partition("://")[0]
    mounted = kind in ("efs", "fsx")
    for column in _S3_ALONE if mounted else _FILE_SYSTEM_ALONE:
        if row.values.get(column):
            what = f"channel {row.values['channel_name']}: {column} {row.values[column]!r} is not for such a location"
            where = "S3" if mounted else "efs:// and fsx://"
            table.fault(row.line, what, f"leave it empty: it is for {where} alone")
    for column in ("attribute_names", "instance_groups"):
        if row.values.get(column):
            values[column] = tuple(name.strip() for name in row.values[column].split(","))
    return values


def _location(table: tables.Table, row: tables.Row, folder: Path) -> str:
    """A row's location, a path of it made absolute; what is wrong with it goes into the table."""
    location = row.values["data_location"]

    def fault(what: str, fix: str) -> str:
        table.fault(row.line, f"channel {row.values['channel_name']}: {what}", fix)
        return location

    scheme = _SCHEME.match(location)
    if location.startswith("s3://"):
        if re.fullmatch(r"s3://[^/]+(/.*)?", location) and len(location) <= 1024:
            return location
        return fault(f"{location!r} names no bucket", "write s3://BUCKET/PREFIX, 1024 characters at most")
    if location.startswith(("efs://", "fsx://")):
        if _FILE_SYSTEM.fullmatch(location):
            return location
        return fault(f"{location!r} names no file system", f"write {location[:3]}://fs-0123456789abcdef0/FOLDER")
    if location.startswith("file://"):
        path = Path(location.removeprefix("file://"))
        if not path.is_absolute():
            return fault(f"{location} is not absolute", f"write file:///{path}, or the path alone")
    elif scheme:
        known = ("s3", "file", "efs", "fsx")
        return fault(f"{location}: unknown kind of location", nearest(scheme[1].lower(), known))
    else:
        path = (folder / location).absolute()
        location = str(path)
    if not path.exists():
        return fault(f"{path} does not exist", "correct the location; a path is relative to the file's folder")
    return location
