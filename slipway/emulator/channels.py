"""Input channels: what each is called, where its data comes from, and how it gets into a container."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from slipway.engine.docker import Mount
from slipway.errors import Fault, InputError
from slipway.files import naming_full_disk

DATA = "/opt/ml/input/data"


@dataclass(frozen=True)
class Channel:
    """A File-mode channel. `location`: a path, `file:///…` or `s3://…`."""

    name: str
    location: str
    content_type: str = ""

    @property
    def path(self) -> Path | None:
        """The local file or folder; None for S3."""
        return None if self.location.startswith("s3://") else Path(self.location.removeprefix("file://"))


@dataclass(frozen=True)
class ChannelStore:
    """Makes the data of channels available below `folder`."""

    folder: Path
    s3_endpoint: str | None

    def mounts(self, channels: Sequence[Channel]) -> list[Mount]:
        """Bring the data of each channel here and mount it read-only. Raises InputError with every fault."""
        faults: list[Fault] = []
        mounts = [
            Mount(folder, f"{DATA}/{channel.name}", read_only=True)
            for channel in channels
            if (folder := self._folder_of(channel, faults)) is not None
        ]
        if faults:
            raise InputError("the input channels cannot be read", faults=faults)
        return mounts

    def _folder_of(self, channel: Channel, faults: list[Fault]) -> Path | None:
        path = channel.path
        if path is None:
            raise NotImplementedError
        if path.is_dir():
            return path.resolve()
        if not path.exists():
            faults.append(Fault(f"channel {channel.name}: {path} does not exist", "correct the location"))
            return None
        # A single object of S3 arrives as a file in the channel's folder; so does a single local file.
        target = self.folder / channel.name
        with naming_full_disk(target):
            target.mkdir(parents=True)
            shutil.copyfile(path, target / path.name)
        return target
