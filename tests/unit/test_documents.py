"""YAML files of the project: whatever stands in one, it is data or a fault with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from slipway import documents
from slipway.documents import Document
from slipway.errors import Fault, SpecError


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid")
    size: int = 0
    colour: str = ""


class Whole(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str
    parts: dict[str, Part] = {}
    listed: list[Part] = []


def refused(text: str) -> tuple[Fault, ...]:
    with pytest.raises(SpecError) as caught:
        Document("file.yml", text)
    return caught.value.faults


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("a: 1\na: 2", 2, "'a' is given twice"),
        ("a:\n  b: 1\n  c: 2\n  b: 3", 4, "first on line 2"),
        ("a: 1\n\tb: 2", 2, "spaces: YAML allows no tabs"),
        ("a: b: c", 1, "mapping values are not allowed"),
        ("a: 1\nb: [1, 2", 2, "did not find expected"),
        ("a: 1\nb: \x00", 2, "control characters"),
        ("a: 1\n--- \nb: 2", 2, "another document"),
        ("a: 1\nb: !python/name:os.system x", 2, "could not determine a constructor"),
        ("a: 2027-13-45", 1, "month must be in 1..12"),
        ("a: 0b_", 1, "cannot be read"),
        ("a: &x 1\nb: *x", 2, "an alias"),
        ("a: &x [*x]", 1, "an alias"),
        ("? [a]\n: b", 1, "a key must be text"),
        ("a: 1\nb: " + "[" * 60 + "]" * 60, 2, "nested too deeply"),
        ("a: " + "[" * 9000, 1, ""),
    ],
)
def test_what_is_not_plain_yaml_is_told_with_its_line(text: str, line: int, told: str) -> None:
    (fault,) = refused(text)
    assert (fault.file, fault.line) == ("file.yml", line)
    assert told in str(fault)


def test_all_repeated_keys_are_told_at_once() -> None:
    assert [fault.line for fault in refused("a: 1\na: 2\nb: {c: 1, c: 2}")] == [2, 3]


@given(st.text())
def test_any_text_is_data_or_a_fault_with_a_line(text: str) -> None:
    try:
        Document("file.yml", text.encode(errors="replace").decode())
    except SpecError as error:
        assert error.faults
        assert all(fault.file == "file.yml" and fault.line for fault in error.faults)


def test_lines_and_spans_are_those_of_the_file() -> None:
    document = Document(
        "f", "a: 1\nb:\n  c:\n    - x\n    - y\n  # said of e\n  e: {\n  }\n  g: |\n    x\n  h:\nd: 2\n"
    )
    assert document.line(("b", "c", 1)) == 5
    assert document.line(("b", "missing", "deep")) == 2
    assert document.line(("missing",)) == 1
    assert document.span(("b",)) == (2, 11)
    assert document.span(("b", "c")) == (3, 5)
    assert document.span(("b", "e")) == (7, 8)
    assert document.span(("b", "g")) == (9, 10)
    assert document.span(("b", "h")) == (11, 11)
    assert document.span(("d",)) == (12, 12)
    assert document.span(("missing",)) is None


def faults(text: str) -> list[str]:
    parsed, found = Document("f", text).validate(Whole)
    assert (parsed is None) == bool(found)
    return [str(fault) for fault in found]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "f:1: name is missing (fix: add `name:`)"),
        ("# nothing\n", "f:1: name is missing"),
        ("- a\n- b", "f:1: the file: must be a mapping"),
        ("just words", "f:1: the file: must be a mapping"),
        ("name: x\nparts: [1]", "f:2: parts: must be a mapping"),
        ("name: x\nlisted: {a: 1}", "f:2: listed: must be a list"),
        ("name: 3", "f:1: name: must be text (given: 3) (fix: write it in quotes)"),
        ("name: x\npart: {}", "f:2: unknown key 'part' (fix: did you mean parts?)"),
        ("name: x\nparts:\n  one:\n    color: red", "f:4: unknown key 'color' (fix: did you mean colour?)"),
        ("name: x\nlisted:\n  - size: 1\n  - seize: 1", "f:4: unknown key 'seize' (fix: did you mean size?)"),
        ("name: x\nparts:\n  one:\n    size: big", "f:4: parts.one.size: input should be a valid integer"),
        ("name: x\n'[key]': 1", "f:2: unknown key '[key]'"),
        ("name: x\nWhole: 1", "f:2: unknown key 'Whole'"),
        ("name: x\n<<: {size: 1}", "f:2: unknown key '<<'"),
    ],
)
def test_what_does_not_fit_the_model_is_told_in_plain_words(text: str, told: str) -> None:
    (only,) = faults(text)
    assert only.startswith(told)


def test_all_faults_are_told_at_once() -> None:
    assert len(faults("nam: x\nparts: {a: {size: x, b: 1}}\nlisted: 3")) == 5


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    (tmp_path / "f.yml").write_bytes(b"\xef\xbb\xbfname: x")
    assert documents.read(tmp_path / "f.yml", tmp_path).data == {"name": "x"}
    assert documents.read_text(tmp_path / "f.yml", "f.yml") == "name: x"


def test_other_encodings_are_told_with_their_line(tmp_path: Path) -> None:
    (tmp_path / "f.yml").write_bytes("a: 1\nb: ü".encode("latin-1"))
    with pytest.raises(SpecError, match=r"f\.yml:2: not UTF-8 text \(byte 9"):
        documents.read(tmp_path / "f.yml", tmp_path)


def test_a_missing_file_and_a_folder_are_told(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"f\.yml does not exist"):
        documents.read(tmp_path / "f.yml", tmp_path)
    with pytest.raises(SpecError, match="cannot be read: Is a directory"):
        documents.read(tmp_path, tmp_path.parent)
