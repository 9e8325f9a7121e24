"""The Debian packages of a root filesystem, and the record they are compared with.

A record, buildspec/base/OS.packages, has one `NAME VERSION` a line, sorted. Debian moves on by itself, so a difference
is shown and never stops a build; who wants none sets `snapshot`.
"""

from __future__ import annotations

import tarfile
from dataclasses import dataclass
from pathlib import Path

from slipway.errors import BuildError, Fault, SpecError
from slipway.files import write_whole

Packages = tuple[tuple[str, str], ...]

_STATUS = "var/lib/dpkg/status"


@dataclass(frozen=True)
class Drift:
    """How the packages differ from the record: one line each, `+` new, `-` gone, `~` another version."""

    lines: tuple[str, ...]
    recorded: bool  # whether there is a record at all

    def __bool__(self) -> bool:
        return bool(self.lines)


def read_tar(tar: Path) -> Packages:
    """The installed packages of a root filesystem, sorted by name."""
    with tarfile.open(tar) as archive:
        for name in (f"./{_STATUS}", _STATUS):
            try:
                member = archive.extractfile(name)
            except KeyError:
                continue
            if member is not None:
                return parse_status(member.read().decode())
    raise BuildError(f"{tar} holds no Debian root filesystem: {_STATUS} is missing", fix="delete it and build again")


def parse_status(text: str) -> Packages:
    """Names and versions in dpkg's status file. Only fully installed packages count."""
    found = []
    for paragraph in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if ": " in line and line[0] != " ")
        if fields.get("Status") == "install ok installed":
            found.append((fields["Package"], fields["Version"]))
    return tuple(sorted(found))


def record_path(project: Path, os_name: str) -> Path:
    return project / "buildspec" / "base" / f"{os_name}.packages"


def read_record(path: Path) -> Packages | None:
    """The record, or None when there is none yet. Raises SpecError with every line that is not `NAME VERSION`."""
    if not path.is_file():
        return None
    rows = []
    faults = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        words = line.split()
        if len(words) == 2:
            rows.append((words[0], words[1]))
        elif words and not line.startswith("#"):
            faults.append(
                Fault(f"not `NAME VERSION`: {line!r}", "write it anew with `invoke base --record`", path.name, number)
            )
    if faults:
        raise SpecError(f"{path.name} has faults", faults=faults)
    return tuple(rows)


def write_record(path: Path, packages: Packages) -> None:
    write_whole(path, "".join(f"{name} {version}\n" for name, version in packages))


def drift(recorded: Packages | None, packages: Packages) -> Drift:
    if recorded is None:
        return Drift((), recorded=False)
    before, now = dict(recorded), dict(packages)
    lines = []
    for name in sorted({*before, *now}):
        if name not in before:
            lines.append(f"+ {name} {now[name]}")
        elif name not in now:
            lines.append(f"- {name} {before[name]}")
        elif before[name] != now[name]:
            lines.append(f"~ {name} {before[name]} -> {now[name]}")
    return Drift(tuple(lines), recorded=True)
