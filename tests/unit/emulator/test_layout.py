"""The /opt/ml tree: schemas of the config files, and what is taken from a job's folders."""

from __future__ import annotations

import io
import json
import os
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from slipway.emulator import layout
from slipway.emulator.channels import Channel
from slipway.emulator.layout import HostFolders
from slipway.errors import InputError


def test_hyperparameters_as_sdk_v2_encodes_them() -> None:
    values = {"epochs": 10, "lr": 0.001, "name": "resnet", "flag": True, "none": None, "list": [1, "a"], "text": "é"}
    assert layout.encode_hyperparameters(values, raw=False) == {
        "epochs": "10",
        "lr": "0.001",
        "name": '"resnet"',
        "flag": "true",
        "none": "null",
        "list": '[1, "a"]',
        "text": '"é"',
    }


def test_hyperparameters_as_boto3_sends_them() -> None:
    assert layout.encode_hyperparameters({"name": "resnet", "epochs": 10}, raw=True) == {
        "name": "resnet",
        "epochs": "10",
    }


def test_input_data_config() -> None:
    assert layout.input_data_config([]) == {}
    test = Channel("test", "x", content_type="text/csv", input_mode="Pipe", distribution="ShardedByS3Key")
    assert layout.input_data_config([Channel("train", "x"), replace(test, record_wrapper="RecordIO")]) == {
        "train": {
            "TrainingInputMode": "File",
            "S3DistributionType": "FullyReplicated",
            "RecordWrapperType": "None",
        },
        "test": {
            "TrainingInputMode": "Pipe",
            "S3DistributionType": "ShardedByS3Key",
            "RecordWrapperType": "RecordIO",
            "ContentType": "text/csv",
        },
    }


def test_every_user_may_read_configs_and_write_results(tmp_path: Path) -> None:
    folders = HostFolders(tmp_path / "host")
    former = os.umask(0o077)
    try:
        folders.make()
        layout.write_configs(folders.config, {"hyperparameters": {"a": "1"}})
    finally:
        os.umask(former)
    path = folders.config / "hyperparameters.json"
    assert json.loads(path.read_text()) == {"a": "1"}
    assert path.stat().st_mode & 0o777 == 0o644
    for folder in (folders.config, folders.root / "input" / "data"):
        assert folder.stat().st_mode & 0o055 == 0o055
    for folder in (folders.model, folders.output_data, folders.root / "output", folders.root / "input"):
        assert folder.stat().st_mode & 0o777 == 0o777


def entries(archive: Path) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(archive.read_bytes()), mode="r:gz") as opened:
        return {entry.name: entry for entry in opened}


def test_equal_trees_give_equal_archives(tmp_path: Path) -> None:
    for name, when in (("one", 1), ("two", 2_000_000_000)):
        (tmp_path / name / "sub").mkdir(parents=True)
        for file in ("z", "a", "sub/b"):
            path = tmp_path / name / file
            path.write_text(file)
            os.utime(path, (when, when))
        layout.pack([tmp_path / name], tmp_path / f"{name}.tar.gz")
    assert (tmp_path / "one.tar.gz").read_bytes() == (tmp_path / "two.tar.gz").read_bytes()
    assert (tmp_path / "one.tar.gz").read_bytes()[4:8] == bytes(4), "the time of packing is in the header"
    assert list(entries(tmp_path / "one.tar.gz")) == ["a", "sub", "sub/b", "z"]


def test_modes_are_kept_to_what_matters(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "run.sh").touch(0o700)
    (tmp_path / "model" / "w").touch(0o600)
    layout.pack([tmp_path / "model"], tmp_path / "m.tar.gz")
    found = entries(tmp_path / "m.tar.gz")
    assert {name: entry.mode for name, entry in found.items()} == {"run.sh": 0o755, "w": 0o644}
    assert {(entry.uid, entry.gid, entry.mtime) for entry in found.values()} == {(0, 0, 0)}


def test_an_empty_tree_gives_no_archive_and_takes_a_former_one_away(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "m.tar.gz").write_text("of a former job")
    layout.pack([tmp_path / "model"], tmp_path / "m.tar.gz")
    assert not (tmp_path / "m.tar.gz").exists()


def test_hosts_are_merged_and_the_last_one_wins(tmp_path: Path) -> None:
    for host, files in (("1", ["same", "one"]), ("2", ["same", "two"])):
        (tmp_path / host).mkdir()
        for name in files:
            (tmp_path / host / name).write_text(host)
    layout.pack([tmp_path / "1", tmp_path / "2"], tmp_path / "m.tar.gz")
    with tarfile.open(tmp_path / "m.tar.gz") as archive:
        contents = {name: archive.extractfile(name).read() for name in archive.getnames()}  # type: ignore[union-attr]
    assert contents == {"same": b"2", "one": b"1", "two": b"2"}


def test_a_folder_of_one_host_gives_way_to_a_file_of_the_next(tmp_path: Path) -> None:
    (tmp_path / "1" / "x").mkdir(parents=True)
    (tmp_path / "1" / "x" / "inner").touch()
    (tmp_path / "2").mkdir()
    (tmp_path / "2" / "x").touch()
    layout.pack([tmp_path / "1", tmp_path / "2"], tmp_path / "m.tar.gz")
    assert {name: entry.isfile() for name, entry in entries(tmp_path / "m.tar.gz").items()} == {"x": True}


def test_links_are_kept_as_links_and_named(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("of the host")
    (tmp_path / "model" / "file").symlink_to(tmp_path / "secret" / "key")
    (tmp_path / "model" / "folder").symlink_to(tmp_path / "secret")
    (tmp_path / "model" / "a").write_text("twice")
    (tmp_path / "model" / "b").hardlink_to(tmp_path / "model" / "a")
    os.mkfifo(tmp_path / "model" / "pipe")
    notes = layout.pack([tmp_path / "model"], tmp_path / "m.tar.gz")
    found = entries(tmp_path / "m.tar.gz")
    assert {name: entry.issym() for name, entry in found.items()} == {
        "file": True,
        "folder": True,
        "a": False,
        "b": False,
    }
    assert found["b"].isfile() and found["b"].size == 5
    assert len([note for note in notes if "link" in note and "hosting refuses" in note]) == 2
    assert any("pipe" in note for note in notes)


def test_a_folder_that_became_a_link_is_not_entered(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("of the host")
    (tmp_path / "data").symlink_to(tmp_path / "secret")
    notes = layout.pack([tmp_path / "data"], tmp_path / "o.tar.gz")
    assert not (tmp_path / "o.tar.gz").exists()
    assert "replaced by a link" in notes[0]


def test_failure_text(tmp_path: Path) -> None:
    path = tmp_path / "failure"
    assert layout.failure_text(path) == ""
    path.write_text("why\n" + "x" * 2000)
    assert layout.failure_text(path) == ("why\n" + "x" * 2000)[:1024]
    path.write_bytes(b"\xff bad")
    assert layout.failure_text(path) == "\ufffd bad"


def test_failure_that_is_no_file_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of the host")
    link, pipe, folder = tmp_path / "link", tmp_path / "pipe", tmp_path / "folder"
    link.symlink_to(tmp_path / "secret")
    os.mkfifo(pipe)
    folder.mkdir()
    assert [layout.failure_text(path) for path in (link, pipe, folder)] == ["", "", ""]


def test_source_is_copied_without_the_output_that_lies_in_it(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "out").mkdir(parents=True)
    (source / "out" / "old.tar.gz").touch()
    (source / "train.py").write_text("pass")
    (tmp_path / "shared.py").write_text("shared")
    (source / "link.py").symlink_to(tmp_path / "shared.py")
    layout.copy_source(source, tmp_path / "code", leave_out=source / "out")
    assert sorted(path.name for path in (tmp_path / "code").iterdir()) == ["link.py", "train.py"]
    assert not (tmp_path / "code" / "link.py").is_symlink()


def test_links_of_the_source_that_lead_nowhere_are_named_at_once(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("a", "b"):
        (source / name).symlink_to("nowhere")
    with pytest.raises(InputError) as caught:
        layout.copy_source(source, tmp_path / "code", leave_out=tmp_path / "out")
    assert len(caught.value.faults) == 2
