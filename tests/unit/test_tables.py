"""The TSV reader: what is accepted, what is warned of, and what each fault says."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway import tables
from slipway.errors import InputError

WORDS = tables.Form("channel_name", "data_location", words=True)
FREE = tables.Form("metric_name", "metric_regex", free=True)


def read(folder: Path, content: str | bytes, form: tables.Form = WORDS) -> tables.Table:
    path = folder / "file.tsv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return tables.read(path, form)


def pairs(table: tables.Table) -> list[tuple[str, ...]]:
    return [tuple(row.values.values()) for row in table.rows]


def accelerate(content: str) -> dict[str, str]:
    """What accelerate makes of a file: it goes by position and drops the first line."""
    values = {}
    for line in list(io.StringIO(content, newline=None))[1:]:
        fields = line.split("\t")
        values[fields[0]] = fields[1].strip()
    return values


PLAIN = "channel_name\tdata_location\ntrain\ts3://b/train\ntest\ts3://b/test\n"


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(PLAIN, id="plain"),
        pytest.param(PLAIN.replace("\n", "\r\n"), id="CRLF"),
        pytest.param("\ufeff" + PLAIN, id="BOM"),
        pytest.param(PLAIN.removesuffix("\n"), id="no last line feed"),
        pytest.param(PLAIN.replace("/test", "/test  "), id="blanks after the location"),
        pytest.param(PLAIN.replace("/test", "/test\t"), id="tab at the end"),
        pytest.param(
            PLAIN.replace("channel_name\tdata_location", "channel_name data_location"), id="blanks in the header"
        ),
    ],
)
def test_what_accelerate_reads_alike_is_read_without_a_warning(tmp_path: Path, content: str) -> None:
    table = read(tmp_path, content)
    assert (table.faults, table.warnings) == ([], [])
    assert dict(pairs(table)) == {"train": "s3://b/train", "test": "s3://b/test"}  # type: ignore[arg-type]
    assert dict(pairs(table)) == accelerate(content)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("content", "line", "warning"),
    [
        ("data_location\tchannel_name\ns3://b/train\ttrain\n", 1, "takes the first field for channel_name"),
        ("channel_name\tdata_location\n\ntrain\ts3://b/train\n", 2, "a blank line"),
        ("channel_name\tdata_location\ntrain\ts3://b/train\n  \n", 3, "a blank line"),
        ("\n\nchannel_name\tdata_location\ntrain\ts3://b/train\n", 3, "blank lines before the header"),
        ("channel_name\tdata_location\ntrain   s3://b/train\n", 2, "blanks instead of a tab"),
        ("channel_name\tdata_location\n train\ts3://b/train\n", 2, "blanks around channel_name"),
    ],
)
def test_what_accelerate_reads_otherwise_is_read_with_a_warning(
    tmp_path: Path, content: str, line: int, warning: str
) -> None:
    table = read(tmp_path, content)
    assert table.faults == []
    assert [(row.values["channel_name"], row.values["data_location"]) for row in table.rows] == [
        ("train", "s3://b/train")
    ]
    assert [found.line for found in table.warnings] == [line]
    assert warning in str(table.warnings[0])
    with contextlib.suppress(IndexError):  # it stops
        assert accelerate(content) != {"train": "s3://b/train"}


HEAD = "channel_name\tdata_location\n"


@pytest.mark.parametrize(
    ("content", "line", "what", "fix"),
    [
        ("", None, "the file is empty", "channel_name<TAB>data_location"),
        ("\n \n", None, "the file is empty", "channel_name<TAB>data_location"),
        ("train\ts3://b/train\n", 1, "no header", "channel_name<TAB>data_location"),
        ("channel\tdata_location\ntrain\ts3://b\n", 1, "unknown column 'channel'", "did you mean channel_name"),
        ("channel_name\tdata_location\tcontent_tpye\na\tb\tc\n", 1, "unknown column 'content_tpye'", "data_location"),
        ("channel_name\ntrain\n", 1, "column data_location is missing", "channel_name<TAB>data_location"),
        ("channel_name\tchannel_name\na\tb\n", 1, "given twice", "keep one"),
        (HEAD + "train s3://b/a b\n", 2, "no tab in", "channel_name<TAB>data_location"),
        (HEAD + "train,s3://b/train\n", 2, "a comma where a tab belongs", "channel_name<TAB>data_location"),
        (HEAD + "train\n", 2, "no tab in 'train'", "channel_name<TAB>data_location"),
        (HEAD + "train\ts3://b\tmore\n", 2, "3 fields where the header has 2", "channel_name<TAB>data_location"),
        (HEAD + "\ts3://b\n", 2, "channel_name is empty", "fill it in"),
        (HEAD + "train\t \n", 2, "data_location is empty", "fill it in"),
        (HEAD + '"train"\ts3://b\n', 2, "quotes are part of a field here", "write train without quotes"),
        (HEAD + "train\t's3://b'\n", 2, "quotes are part of a field here", "write s3://b without quotes"),
    ],
)
def test_a_fault_has_line_and_fix(tmp_path: Path, content: str, line: int | None, what: str, fix: str) -> None:
    table = read(tmp_path, content)
    found = [fault for fault in table.faults if what in fault.what]
    assert found, table.faults
    assert (found[0].line, found[0].file) == (line, str(tmp_path / "file.tsv"))
    assert fix in found[0].fix
    assert len(table.faults) == 1, "one fault, one message"


def test_all_faults_are_gathered_and_sorted(tmp_path: Path) -> None:
    table = read(tmp_path, HEAD + "a,b\ntrain\ts3://b\nx\n\ty\ntrain\ts3://c\n")
    table.refuse_repeats("channel_name")
    with pytest.raises(InputError) as caught:
        table.close()
    assert [fault.line for fault in caught.value.faults] == [2, 4, 5, 6]
    assert "first on line 3" in caught.value.faults[-1].fix


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (PLAIN.encode("utf-16"), "is UTF-16 text"),
        (b"channel_name\tdata_location\ntrain\ts3://b/\xff\n", "file.tsv:2: not UTF-8"),
        (b"channel_name\tdata\0", "holds binary data"),
    ],
)
def test_what_is_no_text_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, content)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.tsv cannot be read: No such file"):
        tables.read(tmp_path / "gone.tsv", WORDS)


def test_a_literal_tab_belongs_to_free_text_and_is_warned_of(tmp_path: Path) -> None:
    content = "metric_name\tmetric_regex\nloss\tloss\t([0-9.]+)\n"
    table = read(tmp_path, content, FREE)
    assert pairs(table) == [("loss", "loss\t([0-9.]+)")]
    assert "cuts it off there" in str(table.warnings[0])
    assert accelerate(content) == {"loss": "loss"}


def test_a_literal_tab_is_a_fault_where_it_could_be_anything(tmp_path: Path) -> None:
    table = read(tmp_path, "metric_regex\tmetric_name\nloss\t([0-9.]+)\tloss\n", FREE)
    assert [fault.line for fault in table.faults] == [2]


@pytest.mark.parametrize(
    ("regex", "warned"),
    [
        ("\"'loss': ([0-9.]+)\"", True),
        ('"""loss"": ([0-9.]+)"', True),
        ('"loss": "([0-9.]+)"', False),
        ("'loss': '([0-9.]+)'", False),
        ("loss=([0-9.]+)", False),
    ],
)
def test_quotes_around_a_regex_stay_and_are_explained(tmp_path: Path, regex: str, warned: bool) -> None:
    table = read(tmp_path, f"metric_name\tmetric_regex\nloss\t{regex}\n", FREE)
    assert pairs(table) == [("loss", regex)]
    assert [bool("part of it" in warning.what) for warning in table.warnings] == ([True] if warned else [])


field = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp", "Zs"]), min_size=1).filter(
    lambda text: text.strip() == text and not text.startswith(("'", '"', "\ufeff"))
)


@given(st.dictionaries(field, field, min_size=1), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans())
def test_well_formed_files_are_read_as_written(
    tmp_path_factory: pytest.TempPathFactory, values: dict[str, str], end: str, mark: bool, swapped: bool
) -> None:
    order = -1 if swapped else 1
    lines = ["\t".join(pair[::order]) for pair in (FREE.columns, *values.items())]
    table = read(tmp_path_factory.getbasetemp(), ("\ufeff" if mark else "") + end.join([*lines, ""]), FREE)
    assert table.faults == []
    assert {row.values["metric_name"]: row.values["metric_regex"] for row in table.rows} == values
    assert bool(table.warnings) == swapped


@given(st.binary())
def test_no_bytes_make_it_fail_otherwise(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    try:
        table = read(tmp_path_factory.getbasetemp(), HEAD.encode() + content)
    except InputError:
        return
    accounted = {row.line for row in table.rows} | {fault.line for fault in (*table.faults, *table.warnings)}
    text = content.decode().replace("\r\n", "\n").replace("\r", "\n")
    lines = text.split("\n")
    expected = {number for number, line in enumerate(lines, 2) if line or number - 1 < len(lines)}
    assert expected <= accounted, "a line was ignored without a word"
