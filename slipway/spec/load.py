"""buildspec/ -> Matrix, and the files that decide images -> Sources. Every fault of every file at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from slipway import documents
from slipway.documents import Document
from slipway.errors import Fault, SpecError
from slipway.files import tree_files
from slipway.spec import cells, faults
from slipway.spec.cells import Part
from slipway.spec.model import SCOPES, Matrix, Sources


def load(project: Path, own: Path | None = None, *, instead: Mapping[str, str] | None = None) -> Matrix:
    """Read every file of buildspec/, and a team's `own` file, which may lie anywhere.

    `instead` holds texts that take the place of files, by their name in the project. Raises SpecError that lists each
    fault with file, line and fix.
    """
    known = faults.Known(
        toolkits=tuple(sorted(_toolkits(project, own))),
        scopes=tuple(scope for scope in SCOPES if (project / "dockerfiles" / f"{scope}.Dockerfile.j2").is_file()),
    )
    paths = sorted((project / "buildspec").glob("*.yml"))
    if not paths:
        raise SpecError("buildspec/ holds no .yml file", fix="add one; docs/extending-the-matrix.md shows how")
    if own is not None and own.resolve() not in [path.resolve() for path in paths]:
        paths.append(own.resolve())
    parts, wrong = _read(paths, project, instead or {})
    for part in parts:
        wrong += faults.of_file(part, parts, known)
    images, excluding = cells.images(parts)
    wrong += [*excluding, *faults.duplicates(images)]
    if wrong:
        raise SpecError(f"buildspec/ has {len(wrong)} fault{'s' if len(wrong) > 1 else ''}", faults=wrong)
    return Matrix(images)


def _read(paths: list[Path], project: Path, instead: Mapping[str, str]) -> tuple[list[Part], list[Fault]]:
    from slipway.spec.schema import BuildspecFile

    parts: list[Part] = []
    wrong: list[Fault] = []
    for path in paths:
        try:
            name = documents.name(path, project)
            document = Document(name, instead[name]) if name in instead else documents.read(path, project)
        except SpecError as error:
            wrong += error.faults or (Fault(error.message, error.fix, documents.name(path, project)),)
            continue
        parsed, found = document.validate(BuildspecFile)
        wrong += found
        if parsed is not None:
            parts.append(Part(document, parsed))
    return parts, wrong


def read_sources(project: Path, own: Path | None = None) -> Sources:
    """Read templates, locks and toolkits; locks and toolkits of a team's `own` buildspec file lie beside it."""
    return Sources(
        templates={
            path.name: documents.read_text(path, documents.name(path, project))
            for path in sorted((project / "dockerfiles").glob("*.j2"))
        },
        locks={
            path.relative_to(folder).with_suffix("").as_posix(): documents.read_text(
                path, documents.name(path, project)
            )
            for folder in (project / "buildspec" / "locks", *([own.resolve().parent / "locks"] if own else []))
            for path in sorted(folder.rglob("*.txt"))
        },
        toolkits={
            name: {path.relative_to(folder).as_posix(): path.read_bytes() for path in tree_files(folder)}
            for name, folder in sorted(_toolkits(project, own).items())
        },
    )


def _toolkits(project: Path, own: Path | None) -> dict[str, Path]:
    """The folders of toolkits by their names: the project's, and those beside a team's own file.

    Raises SpecError for a name that both have.
    """
    found: dict[str, Path] = {}
    for root in dict.fromkeys([project / "toolkits", *([own.resolve().parent / "toolkits"] if own else [])]):
        for path in sorted(root.glob("*/pyproject.toml")):
            if path.parent.name in found:
                raise SpecError(f"{path.parent} has the name of a toolkit of Slipway", fix="give it another name")
            found[path.parent.name] = path.parent
    return found
