"""The tab-separated files that jobs are described with: input channels and metric definitions.

The format is accelerate's: a header line, one record a line, fields separated by a tab, no quoting. Accelerate itself
reads by position and drops the first line whatever it holds. This reader goes by the header's names and accepts what
has one meaning only; where accelerate would read something else, or stop, it warns.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from slipway.errors import Fault, InputError, nearest

QUOTED = re.compile(r"""(["'])(.*)\1""", re.DOTALL)


@dataclass(frozen=True)
class Form:
    """The columns of a file in accelerate's order: a name, then the column that describes it.

    `words`: no field holds a blank, so that blanks can only have been meant as separators. `free`: the second column is
    free text, in which tabs and quotes may be meant. `optional` columns may follow or stand between, in any order, and
    their fields may be empty; accelerate does not see them.
    """

    name: str
    described_by: str
    words: bool = False
    free: bool = False
    optional: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, str]:
        return (self.name, self.described_by)


@dataclass(frozen=True)
class Row:
    """One record: its line in the file, its fields by column; of optional columns only those that are filled in."""

    line: int
    values: Mapping[str, str]


@dataclass
class Table:
    """A file as read: its rows, what is wrong with it, and what accelerate would make of it instead."""

    file: str
    rows: list[Row] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    warnings: list[Fault] = field(default_factory=list)

    def fault(self, line: int | None, what: str, fix: str) -> None:
        self.faults.append(Fault(what, fix, self.file, line))

    def warn(self, line: int | None, what: str, fix: str = "") -> None:
        self.warnings.append(Fault(what, fix, self.file, line))

    def refuse_repeats(self, column: str) -> None:
        """A name that is given twice is a fault: accelerate lets the last channel win without a word."""
        first: dict[str, int] = {}
        for row in self.rows:
            name = row.values[column]
            if name in first:
                self.fault(row.line, f"{column} {name!r} is given twice", f"first on line {first[name]}; keep one")
            first.setdefault(name, row.line)

    def close(self) -> None:
        """Raise InputError when there are faults."""
        if self.faults:
            faults = sorted(self.faults, key=lambda fault: fault.line or 0)
            raise InputError(f"{self.file} has faults", faults=faults)


def read(path: Path, form: Form) -> Table:
    """Read a file. Raises InputError when it is missing or no text; other faults are gathered in the table."""
    table = Table(str(path))
    lines = _lines(path)
    at = next((number for number, line in enumerate(lines) if line.strip()), None)
    if at is None:
        table.fault(None, "the file is empty", f"begin with the header: {_shown(form)}")
        return table
    header = _header(table, form, at + 1, lines[at])
    if header is None:
        return table
    first = at + 1 if header else at
    if at > 0 and header:
        table.warn(
            at + 1, "blank lines before the header: accelerate would take the header for a record", "remove them"
        )
    for number, line in enumerate(lines[first:], first + 1):
        if line.strip():
            _record(table, form, header or form.columns, number, line)
        elif number < len(lines) or line:
            table.warn(number, "a blank line: accelerate stops at it", "remove it")
    return table


def _lines(path: Path) -> list[str]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}", fix="check the name") from None
    for mark in (b"\xff\xfe", b"\xfe\xff"):
        if data.startswith(mark):
            raise InputError(f"{path} is UTF-16 text", fix="save it as UTF-8")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        fault = Fault("not UTF-8 text", "save the file as UTF-8", str(path), data.count(b"\n", 0, error.start) + 1)
        raise InputError(f"{path} has faults", faults=[fault]) from None
    if "\0" in text:
        raise InputError(f"{path} holds binary data", fix="name a text file with tab-separated fields")
    return re.split(r"\r\n|\r|\n", text)


def _header(table: Table, form: Form, number: int, line: str) -> tuple[str, ...] | None:
    """The columns in the order of the header; empty when the line is no header, None when no record can be told."""
    parts = line.split("\t") if "\t" in line else re.split(r"[\s,]+", line)
    fields = [QUOTED.sub(r"\2", part.strip()) for part in parts]
    while not fields[-1]:
        fields.pop()
    known = (*form.columns, *form.optional)
    if not any(difflib.get_close_matches(part.lower(), form.columns, cutoff=0.5) for part in fields):
        fix = f"put this line before it: {_shown(form)}"
        table.fault(number, "the first line is no header, so accelerate would drop a record", fix)
        return ()
    unknown = [part for part in fields if part not in known]
    for part in unknown:
        table.fault(number, f"unknown column {part!r}", nearest(part, known))
    twice = [column for column in known if fields.count(column) > 1]
    for column in twice:
        table.fault(number, f"column {column} is given twice", "keep one")
    missing = [column for column in form.columns if column not in fields]
    if missing and not unknown and not twice:
        table.fault(number, f"column {missing[0]} is missing", f"the header is {_shown(form)}")
    if len(fields) != 2 and (unknown or twice or missing):
        return None
    if unknown or missing:
        return form.columns
    if tuple(fields[:2]) != form.columns:
        what = f"accelerate takes the first field for {form.name}, whatever the header says"
        table.warn(number, what, "swap the columns" if len(fields) == 2 else f"begin with {_shown(form)}")
    further = [column for column in fields if column in form.optional]
    if further:
        table.warn(number, f"accelerate does not see the columns {', '.join(further)}")
    return tuple(fields)


def _record(table: Table, form: Form, order: tuple[str, ...], number: int, line: str) -> None:
    fields = _fields(table, form, order, number, line)
    if fields is None:
        return
    values = dict(zip(order, (part.strip() for part in fields), strict=True))
    values = {column: value for column, value in values.items() if value or column in form.columns}
    unfit = [column for column, value in values.items() if _unfit(table, form, number, column, value)]
    if unfit:
        return
    name = next(part for column, part in zip(order, fields, strict=True) if column == form.name)
    if name != values[form.name]:
        table.warn(number, f"blanks around {form.name}: accelerate keeps them as part of it", "remove them")
    table.rows.append(Row(number, values))


def _fields(table: Table, form: Form, order: tuple[str, ...], number: int, line: str) -> list[str] | None:
    """Split a record into a field for each column; None after a fault."""
    fields = line.split("\t")
    if len(order) > 2:
        return _all_fields(table, form, order, number, fields)
    if len(fields) == 2:
        return fields
    if len(fields) == 1:
        words = line.split()
        if form.words and len(words) == 2:
            table.warn(
                number, "blanks instead of a tab: accelerate stops at this line", "put one tab between the fields"
            )
            return words
        seen = "a comma where a tab belongs" if "," in line and len(words) == 1 else "no tab"
        table.fault(number, f"{seen} in {line.strip()!r}", f"write {_shown(form, order)}")
        return None
    if not any(part.strip() for part in fields[2:]):
        return fields[:2]
    if form.free and order[-1] == form.described_by:
        table.warn(number, f"a tab inside {form.described_by}: accelerate cuts it off there", r"write \t")
        return [fields[0], "\t".join(fields[1:])]
    table.fault(number, f"{len(fields)} fields where the header has 2", f"write {_shown(form, order)}")
    return None


def _all_fields(table: Table, form: Form, order: tuple[str, ...], number: int, fields: list[str]) -> list[str] | None:
    """The fields of a record with optional columns: those at its end may be left out."""
    least = 1 + max(order.index(column) for column in form.columns)
    while len(fields) > len(order) and not fields[-1].strip():
        fields.pop()
    if least <= len(fields) <= len(order):
        return fields + [""] * (len(order) - len(fields))
    table.fault(number, f"{len(fields)} fields where the header has {len(order)}", f"write {_shown(form, order)}")
    return None


def _unfit(table: Table, form: Form, number: int, column: str, value: str) -> bool:
    """Note an empty or quoted field; whether it is a fault."""
    if not value:
        table.fault(number, f"{column} is empty", "fill it in, or remove the line")
        return True
    quoted = QUOTED.fullmatch(value)
    if quoted is None:
        return False
    if form.free and column == form.described_by:
        if quoted[1] not in quoted[2].replace(quoted[1] * 2, ""):
            what = f"the quotes around {column} are part of it, so it only matches lines that hold them"
            table.warn(number, what, "remove them if they were meant to enclose the field")
        return False
    table.fault(number, f"{column} {value}: quotes are part of a field here", f"write {quoted[2]} without quotes")
    return True


def _shown(form: Form, order: tuple[str, ...] = ()) -> str:
    return "<TAB>".join(order or form.columns)
