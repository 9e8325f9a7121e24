"""Input channels: limits of the service, and where data comes from."""

from __future__ import annotations

from pathlib import Path

import botocore.session
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.emulator import channels
from slipway.emulator.channels import Channel
from slipway.errors import InputError


def read(folder: Path, *rows: tuple[str, str]) -> channels.Channels:
    path = folder / "inputs.tsv"
    path.write_text("".join(f"{name}\t{location}\n" for name, location in (("channel_name", "data_location"), *rows)))
    return channels.read(path)


def faults(folder: Path, *rows: tuple[str, str]) -> list[str]:
    with pytest.raises(InputError) as caught:
        read(folder, *rows)
    return [str(fault) for fault in caught.value.faults]


def test_locations_of_every_kind(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    found = read(tmp_path, ("near", "data"), ("abs", str(tmp_path)), ("url", f"file://{tmp_path}"), ("s3", "s3://b/p"))
    assert found.warnings == ()
    assert [channel.location for channel in found.channels] == [
        str(tmp_path / "data"),
        str(tmp_path),
        f"file://{tmp_path}",
        "s3://b/p",
    ]
    assert [channel.path for channel in found.channels] == [tmp_path / "data", tmp_path, tmp_path, None]


@pytest.mark.parametrize(
    ("location", "what", "fix"),
    [
        ("nowhere", "does not exist", "relative to the file's folder"),
        ("file:///no/where", "/no/where does not exist", "correct the location"),
        ("file://data", "is not absolute", "write file:///data"),
        ("s3:///key", "names no bucket", "s3://BUCKET/PREFIX"),
        ("s3://" + "b" * 1020, "names no bucket", "1024 characters"),
        ("S3://b/k", "unknown kind of location", "did you mean s3"),
        ("gs://b/k", "unknown kind of location", "s3"),
        ("https://host/x", "unknown kind of location", "file"),
    ],
)
def test_a_bad_location_is_named(tmp_path: Path, location: str, what: str, fix: str) -> None:
    (found,) = faults(tmp_path, ("train", location))
    assert found.startswith(f"{tmp_path / 'inputs.tsv'}:2: channel train: ")
    assert what in found and fix in found


@pytest.mark.parametrize(
    ("location", "column", "value", "alone"),
    [
        ("s3://b/p", "access", "rw", "efs:// and fsx://"),
        (".", "access", "ro", "efs:// and fsx://"),
        *(
            (f"{kind}://fs-01234567/x", column, value, "S3")
            for kind in ("efs", "fsx")
            for column, value in (
                ("data_type", "S3Prefix"),
                ("distribution", "ShardedByS3Key"),
                ("attribute_names", "a,b"),
                ("instance_groups", "g"),
            )
        ),
    ],
)
def test_a_column_that_its_location_cannot_have_is_refused(
    tmp_path: Path, location: str, column: str, value: str, alone: str
) -> None:
    path = tmp_path / "inputs.tsv"
    rows = ["channel_name\tdata_location\t" + column, "other\ts3://b\t", f"train\t{location}\t"]
    path.write_text("\n".join(rows) + "\n")
    assert len(channels.read(path).channels) == 2, "empty is fine"
    path.write_text("\n".join(rows) + value + "\n")
    with pytest.raises(InputError) as caught:
        channels.read(path)
    (fault,) = caught.value.faults
    assert (fault.file, fault.line) == (str(path), 3)
    assert fault.what == f"channel train: {column} {value!r} is not for such a location"
    assert fault.fix == f"leave it empty: it is for {alone} alone"


def test_every_fault_at_once(tmp_path: Path) -> None:
    found = faults(tmp_path, ("tr ain", "s3://b"), ("a", "nowhere"), ("b", "s3://b"), ("b", "s3://c"))
    assert [text.split(":")[1] for text in found] == ["2", "3", "5"]


def test_twenty_channels_and_no_more(tmp_path: Path) -> None:
    rows = [(f"c{number}", "s3://b") for number in range(21)]
    assert len(read(tmp_path, *rows[:20]).channels) == 20
    assert "21 channels" in faults(tmp_path, *rows)[0]


def test_a_header_alone_is_warned_of(tmp_path: Path) -> None:
    found = read(tmp_path)
    assert found.channels == ()
    assert "names no channel" in str(found.warnings[0])


def test_the_limits_are_those_of_the_service_model() -> None:
    model = botocore.session.get_session().get_service_model("sagemaker")
    name = model.shape_for("ChannelName")
    assert name.metadata["max"] == 64
    assert f"{name.metadata['pattern']}" == r"[A-Za-z0-9\.\-_]+"
    assert model.shape_for("InputDataConfig").metadata["max"] == channels.MOST


@given(st.text(min_size=1, max_size=70))
def test_a_name_is_taken_when_the_service_takes_it(name: str) -> None:
    allowed = set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_")
    assert bool(channels.NAME.fullmatch(name)) == (set(name) <= allowed and len(name) <= 64)


def table(folder: Path, *rows: str) -> Path:
    path = folder / "inputs.tsv"
    path.write_text("".join(row.replace(" ", "\t") + "\n" for row in rows))
    return path


def test_optional_columns_go_by_name_and_may_be_left_empty(tmp_path: Path) -> None:
    path = table(
        tmp_path, "input_mode channel_name data_location content_type", "FastFile a s3://b/a", " b s3://b/b text/csv"
    )
    found = channels.read(path)
    assert found.channels == (
        Channel("a", "s3://b/a", input_mode="FastFile"),
        Channel("b", "s3://b/b", content_type="text/csv"),
    )
    told = [str(warning) for warning in found.warnings]
    assert any("accelerate takes the first field" in each for each in told)
    assert any("accelerate does not see the columns input_mode, content_type" in each for each in told)


@pytest.mark.parametrize(
    ("rows", "what"),
    [
        (("channel_name data_location input_mode", "a s3://b/a Fast"), "did you mean FastFile"),
        (("channel_name data_location distribution", "a s3://b/a Sharded"), "did you mean ShardedByS3Key"),
        (("channel_name data_location input_mod", "a s3://b/a File"), "did you mean input_mode"),
        (("channel_name data_location access access", "a s3://b/a"), "column access is given twice"),
        (("channel_name input_mode access", "a File ro"), "column data_location is missing"),
        (("channel_name data_location access", "a s3://b/a ro more"), "4 fields where the header has 3"),
        (("channel_name access data_location", "a ro"), "2 fields where the header has 3"),
        (("channel_name data_location access", "a  ro"), "data_location is empty"),
        (("channel_name data_location", "a efs://data"), "write efs://fs-"),
        (("channel_name data_location", "a fxs://fs-01234567/x"), "did you mean fsx"),
    ],
)
def test_faults_of_optional_columns_and_file_systems(tmp_path: Path, rows: tuple[str, ...], what: str) -> None:
    with pytest.raises(InputError) as caught:
        channels.read(table(tmp_path, *rows))
    assert any(what in str(fault) for fault in caught.value.faults), caught.value.faults
