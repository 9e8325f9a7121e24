"""Input channels: where a script finds them, and what is in them."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from slipway.emulator.channels import Channel
from slipway.verify.jobs import Finished


def variable(channel: Channel) -> str:
    return "SM_CHANNEL_" + channel.name.upper()


def files(path: Path) -> dict[str, str]:
    """The files of a channel's location with their hashes, as the job must see them."""
    paths = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    base = path.parent if path.is_file() else path
    return {file.relative_to(base).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest() for file in paths}


def test_channels_folders(job: Finished, channels: tuple[Channel, ...]) -> None:
    seen = job.report["channels"]
    variables = job.report["variables"]
    wrong = []
    for channel in channels:
        if variable(channel) not in seen:
            wrong.append(f"channel {channel.name}: there is no {variable(channel)}")
        elif seen[variable(channel)] is None:
            wrong.append(f"channel {channel.name}: {variables[variable(channel)]} is no folder that can be read")
    assert not wrong, "\n".join(wrong)


def test_channels_content(job: Finished, channels: tuple[Channel, ...]) -> None:
    wrong = []
    for channel in channels:
        assert channel.path is not None
        wanted, seen = files(channel.path), job.report["channels"][variable(channel)]
        for name in sorted(wanted.keys() | seen.keys()):
            if name not in seen:
                wrong.append(f"channel {channel.name} lacks {name!r}")
            elif name not in wanted:
                wrong.append(f"channel {channel.name} has {name!r}, which nobody put there")
            elif wanted[name] != seen[name]:
                wrong.append(f"channel {channel.name}: {name!r} has other bytes")
    assert not wrong, "\n".join(wrong)


def test_channels_variables(job: Finished, channels: tuple[Channel, ...]) -> None:
    variables = job.report["variables"]
    names = json.dumps(sorted(channel.name for channel in channels), separators=(",", ":"))
    wanted = {"SM_CHANNELS": names}
    for channel in channels:
        wanted[variable(channel)] = f"/opt/ml/input/data/{channel.name}"
        wanted[re.sub(r"\W", "_", variable(channel))] = f"/opt/ml/input/data/{channel.name}"
    wrong = [
        f"{name} is {variables.get(name)!r}, not {value!r}"
        for name, value in wanted.items()
        if variables.get(name) != value
    ]
    assert not wrong, "\n".join(wrong)
