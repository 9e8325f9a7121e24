"""What a requirements file says, read by pip's own rules for lines."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_COMMENT = re.compile(r"(^|\s+)#.*$")
_VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)\}")
_INCLUDE = re.compile(r"(?:-r|--requirement)(?:\s+|=|(?=[^\s-]))(.+)")
_CONSTRAINT = re.compile(r"(?:-c|--constraint)(?:\s+|=|(?=[^\s-]))(.+)")
# Options that say where packages come from. They do not matter when nothing has to come.
_SOURCES = re.compile(
    r"(?:-i|--index-url|--extra-index-url|--no-index|-f|--find-links|--no-binary|--only-binary|--prefer-binary"
    r"|--require-hashes|--pre|--trusted-host|--use-feature)(?:\s|=|$)"
)
_NAME = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:$|[\[<>=!~;@#\s])")
_ARCHIVES = (".whl", ".zip", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar")


@dataclass
class Lines:
    """The lines of a requirements file and of those that it includes, by what they mean.

    unjudged: paths, addresses, editable requirements and options that only pip can judge.
    """

    requirements: list[str] = field(default_factory=list)
    constraints: list[str] = field(default_factory=list)
    unjudged: list[str] = field(default_factory=list)


def read(path: str, environ: Mapping[str, str]) -> Lines:
    """Everything that a requirements file and its includes say. A file that cannot be read is for pip to report."""
    found = Lines()
    _read(path, environ, found, found.requirements, set())
    return found


def name(line: str) -> str:
    """The normalised distribution name at the beginning of a requirement; empty when there is none."""
    match = _NAME.match(line.strip())
    return re.sub(r"[-_.]+", "-", match[1]).lower() if match else ""


def logical(text: str) -> Iterator[str]:
    """Lines as pip joins them, with their ends: a backslash at the end of one continues it."""
    whole = ""
    for line in text.splitlines(keepends=True):
        whole += line
        if not line.rstrip("\r\n").endswith("\\"):
            yield whole
            whole = ""
    if whole:
        yield whole


def with_absolute_includes(line: str, folder: str) -> str:
    """A line whose included file is named from the root, for a copy of its file that stands elsewhere."""
    for option, pattern in (("-r", _INCLUDE), ("-c", _CONSTRAINT)):
        match = pattern.fullmatch(_COMMENT.sub("", line.strip()).strip())
        if match and "://" not in match[1]:
            return f"{option} {os.path.abspath(_beside(folder, match[1]))}\n"
    return line


def _read(path: str, environ: Mapping[str, str], found: Lines, into: list[str], seen: set[str]) -> None:
    if path in seen:
        return
    seen.add(path)
    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read()
    except (OSError, ValueError):
        found.unjudged.append(path)
        return
    for raw in logical(text):
        line = _COMMENT.sub("", re.sub(r"\\\r?\n", "", raw).strip()).strip()
        line = _VARIABLE.sub(lambda match: environ.get(match[1], match[0]), line)
        if include := _INCLUDE.fullmatch(line):
            _read(_beside(os.path.dirname(path), include[1]), environ, found, into, seen)
        elif constraint := _CONSTRAINT.fullmatch(line):
            _read(_beside(os.path.dirname(path), constraint[1]), environ, found, found.constraints, seen)
        elif line and not _SOURCES.match(line):
            requirement = re.split(r"\s--?[a-z]", line)[0].strip()
            (into if _is_named(requirement) else found.unjudged).append(requirement or line)


def _is_named(requirement: str) -> bool:
    return bool(_NAME.match(requirement)) and "@" not in requirement and not requirement.endswith(_ARCHIVES)


def _beside(folder: str, other: str) -> str:
    return os.path.join(folder, other.strip().strip("'\""))
