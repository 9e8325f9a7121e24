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


def load(project: Path, instead: Mapping[str, str] | None = None) -> Matrix:
    """Read every file of buildspec/; `instead` holds texts that take the place of files, by their name in the project.

    Raises SpecError that lists each fault with file, line and fix.
    """
    known = faults.Known(
        toolkits=tuple(sorted(path.parent.name for path in (project / "toolkits").glob("*/pyproject.toml"))),
        scopes=tuple(scope for scope in SCOPES if (project / "dockerfiles" / f"{scope}.Dockerfile.j2").is_file()),
    )
    paths = sorted((project / "buildspec").glob("*.yml"))
    if not paths:
        raise SpecError("buildspec/ holds no .yml file", fix="add one; docs/extending-the-matrix.md shows how")
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
            name = path.relative_to(project).as_posix()
            document = Document(name, instead[name]) if name in instead else documents.read(path, project)
        except SpecError as error:
            wrong += error.faults or (Fault(error.message, error.fix, path.relative_to(project).as_posix()),)
            continue
        parsed, found = document.validate(BuildspecFile)
        wrong += found
        if parsed is not None:
            parts.append(Part(document, parsed))
    return parts, wrong


def read_sources(project: Path) -> Sources:
    """Read templates, locks and toolkits."""
    locks = project / "buildspec" / "locks"
    toolkits = project / "toolkits"
    return Sources(
        templates={
            path.name: documents.read_text(path, path.relative_to(project).as_posix())
            for path in sorted((project / "dockerfiles").glob("*.j2"))
        },
        locks={
            path.relative_to(locks).with_suffix("").as_posix(): documents.read_text(
                path, path.relative_to(project).as_posix()
            )
            for path in sorted(locks.rglob("*.txt"))
        },
        toolkits={
            folder.name: {path.relative_to(folder).as_posix(): path.read_bytes() for path in tree_files(folder)}
            for folder in sorted(toolkits.iterdir())
            if folder.is_dir()
        }
        if toolkits.is_dir()
        else {},
    )
