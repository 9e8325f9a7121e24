"""Channels in every input mode, as a job on two hosts sees them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from slipway.emulator.channels import Channel
from slipway.emulator.job import LogLine, TrainingJob
from slipway.emulator.training import run_training
from slipway.engine.docker import Engine

pytestmark = pytest.mark.integration

TRAIN = """\
import json, os
data = "/opt/ml/input/data"
seen = {"files": sorted(os.listdir(data + "/parts")), "fast": open(data + "/fast/a").read()}
seen["few"] = os.listdir(data + "/few")
seen["epochs"] = [open(data + "/piped_%d" % epoch).read() for epoch in range(2)]
with open("/opt/ml/input/config/inputdataconfig.json") as config:
    seen["modes"] = {name: one["TrainingInputMode"] for name, one in json.load(config).items()}
print("SEEN " + json.dumps(seen), flush=True)
"""


def test_each_host_gets_its_part(
    engine: Engine, train_image: str, script: Callable[[str], Path], tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for name in ("a", "b", "c"):
        (data / name).write_text(name * 3)
    channels = (
        Channel("parts", str(data), distribution="ShardedByS3Key"),
        Channel("few", str(data / "a"), distribution="ShardedByS3Key"),
        Channel("fast", str(data), input_mode="FastFile"),
        Channel("piped", str(data), input_mode="Pipe", distribution="ShardedByS3Key"),
        Channel("unread", str(data), input_mode="Pipe"),
    )
    lines: list[LogLine] = []
    job = TrainingJob(image=train_image, source=script(TRAIN), entry="train.py", channels=channels, hosts=2)
    result = run_training(job, engine, tmp_path / "out", on_line=lines.append)
    assert result.status == "Completed", result.failure_reason
    (note,) = (note for note in result.notes if "channel" in note)
    assert note.startswith("channel unread: the job never opened its pipe")
    seen = {line.host: json.loads(line.text[5:]) for line in lines if line.text.startswith("SEEN ")}
    assert {host: found["files"] for host, found in seen.items()} == {"algo-1": ["a", "c"], "algo-2": ["b"]}
    assert seen["algo-1"]["epochs"] == ["aaaccc", "aaaccc"] and seen["algo-2"]["epochs"] == ["bbb", "bbb"]
    assert seen["algo-1"]["fast"] == "aaa"
    assert {host: found["few"] for host, found in seen.items()} == {"algo-1": ["a"], "algo-2": []}
    assert seen["algo-1"]["modes"] == {
        "parts": "File",
        "few": "File",
        "fast": "FastFile",
        "piped": "Pipe",
        "unread": "Pipe",
    }
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["logs"]
