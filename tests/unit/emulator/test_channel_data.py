"""What each host gets of a channel, in every input mode."""

from __future__ import annotations

import gzip
import json
import struct
from pathlib import Path

import pytest

from slipway.emulator.channel_data import ChannelStore
from slipway.emulator.channels import Channel
from slipway.emulator.pipes import Pipe
from slipway.errors import InputError


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Three objects, one of them in a sub-folder."""
    folder = tmp_path / "data"
    (folder / "deep").mkdir(parents=True)
    for name in ("a", "b", "deep/c"):
        (folder / name).write_text(f"content of {name}\n")
    return folder


@pytest.fixture
def store(tmp_path: Path) -> ChannelStore:
    return ChannelStore(tmp_path / "store", None)


def read(pipe: Pipe, epochs: int = 1) -> list[bytes]:
    """What a script reads of the first epochs."""
    pipe.start()
    try:
        return [(pipe.folder / f"{pipe.name}_{epoch}").read_bytes() for epoch in range(epochs)]
    finally:
        pipe.stop()


def piped(store: ChannelStore, channel: Channel, folder: Path, host: int = 0, hosts: int = 1) -> Pipe:
    (pipe,) = store.pipes([channel], folder, host, hosts)
    return pipe


def test_mounts_are_read_only_and_named_after_the_channel(store: ChannelStore, data: Path) -> None:
    channels = [Channel("train", str(data)), Channel("test", str(data / "a"))]
    store.bring(channels)
    folder, single = store.mounts(channels, 0, 1)
    assert (folder.source, folder.target, folder.read_only) == (data, "/opt/ml/input/data/train", True)
    assert (single.target, single.read_only) == ("/opt/ml/input/data/test", True)
    assert [path.name for path in single.source.iterdir()] == ["a"]


def test_every_channel_that_is_gone_is_named(store: ChannelStore, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        store.bring([Channel("a", str(tmp_path / "x")), Channel("b", str(tmp_path / "y"))])
    assert [fault.what.split(":")[0] for fault in caught.value.faults] == ["channel a", "channel b"]


@pytest.mark.parametrize(
    ("channel", "what"),
    [
        (Channel("a", "efs://fs-01234567/x"), "is not to be had on this machine"),
        (Channel("a", "x", compression="Gzip"), "goes with input_mode Pipe only"),
        (Channel("a", "x", record_wrapper="RecordIO"), "goes with input_mode Pipe only"),
        (Channel("a", "x", input_mode="Pipe", data_type="AugmentedManifestFile"), "needs attribute_names"),
    ],
)
def test_what_the_service_or_this_machine_cannot_do(store: ChannelStore, channel: Channel, what: str) -> None:
    with pytest.raises(InputError) as caught:
        store.bring([channel])
    assert what in caught.value.faults[0].what


def test_a_sharded_channel_gives_each_host_its_own_objects(store: ChannelStore, data: Path) -> None:
    channel = Channel("train", str(data), distribution="ShardedByS3Key")
    store.bring([channel])
    seen = []
    for host in range(4):
        (mount,) = store.mounts([channel], host, 4)
        seen.append(sorted(str(path.relative_to(mount.source)) for path in mount.source.rglob("*") if path.is_file()))
    assert seen == [["a"], ["b"], ["deep/c"], []]
    (whole,) = store.mounts([channel], 0, 1)
    assert whole.source == data


def test_a_pipe_gives_the_whole_data_once_an_epoch(store: ChannelStore, data: Path, tmp_path: Path) -> None:
    channel = Channel("train", str(data), input_mode="Pipe")
    store.bring([channel])
    assert store.mounts([channel], 0, 1) == []
    whole = b"content of a\ncontent of b\ncontent of deep/c\n"
    assert read(piped(store, channel, tmp_path), epochs=3) == [whole, whole, whole]


def test_a_pipe_that_nobody_reads_or_reads_to_its_end_can_be_stopped(
    store: ChannelStore, data: Path, tmp_path: Path
) -> None:
    (data / "a").write_bytes(b"x" * (1 << 20))
    channel = Channel("train", str(data), input_mode="Pipe")
    store.bring([channel])
    unread = piped(store, channel, tmp_path)
    unread.start()
    unread.stop()
    other = tmp_path / "other"
    other.mkdir()
    begun = piped(store, channel, other)
    begun.start()
    with (other / "train_0").open("rb", buffering=0) as stream:
        assert stream.read(5) == b"xxxxx"
    assert len((other / "train_1").read_bytes()) > 1 << 20
    begun.stop()
    assert begun.problem == "" and unread.problem == ""
    for pipe in (unread, begun):
        assert pipe._thread is not None and not pipe._thread.is_alive()


def test_what_cannot_be_read_ends_the_pipe_and_is_told(store: ChannelStore, data: Path, tmp_path: Path) -> None:
    channel = Channel("train", str(data), input_mode="Pipe", compression="Gzip")
    store.bring([channel])
    pipe = piped(store, channel, tmp_path)
    assert read(pipe) == [b""]
    assert "channel train: epoch 1: Not a gzipped file" in pipe.problem


def test_compressed_and_wrapped(store: ChannelStore, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.gz").write_bytes(gzip.compress(b"12345"))
    channel = Channel("t", str(tmp_path / "data"), input_mode="Pipe", compression="Gzip", record_wrapper="RecordIO")
    store.bring([channel])
    assert read(piped(store, channel, tmp_path)) == [struct.pack("<II", 0xCED7230A, 5) + b"12345\0\0\0"]


def test_a_manifest_names_the_objects(store: ChannelStore, data: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "list.json"
    manifest.write_text(json.dumps([{"prefix": f"{data}/"}, "b", "deep/c"]))
    channel = Channel("train", str(manifest), data_type="ManifestFile")
    store.bring([channel])
    (mount,) = store.mounts([channel], 0, 1)
    found = {path.relative_to(mount.source).as_posix() for path in mount.source.rglob("*") if path.is_file()}
    assert found == {"b", "deep/c"}


@pytest.mark.parametrize("text", ["[]", "{}", "no", '[{"prefix": "x"}]', '[{"prefix": "x"}, "../y"]', '["a", "b"]'])
def test_no_manifest(store: ChannelStore, tmp_path: Path, text: str) -> None:
    (tmp_path / "list.json").write_text(text)
    with pytest.raises(InputError, match="manifest"):
        try:
            store.bring([Channel("train", str(tmp_path / "list.json"), data_type="ManifestFile")])
        except InputError as error:
            raise InputError(error.faults[0].what) from None


def test_an_augmented_manifest_gives_its_attributes_in_order(store: ChannelStore, data: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "list.jsonl"
    lines = [{"image-ref": f"{data}/{name}", "label": {"class": at}} for at, name in enumerate(("a", "b"))]
    manifest.write_text("\n".join(json.dumps(line) for line in lines) + "\n")
    kind = {"input_mode": "Pipe", "data_type": "AugmentedManifestFile"}
    channel = Channel("train", str(manifest), attribute_names=("label", "image-ref"), **kind)  # type: ignore[arg-type]
    store.bring([channel])
    assert read(piped(store, channel, tmp_path)) == [b'{"class": 0}content of a\n{"class": 1}content of b\n']
