"""What is inside an image: SBOMs in the two common forms, made by syft and read back.

Sources of the forms: CycloneDX 1.6 (JSON), SPDX 2.3 (JSON).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from slipway.engine.wheels import normal_name
from slipway.errors import ProgramError, TrustError
from slipway.files import naming_full_disk, write_whole
from slipway.supply import syft

if TYPE_CHECKING:
    from slipway.engine.docker import Engine

_PURL = re.compile(r"pkg:(?P<kind>[a-z]+)/(?:(?P<space>[^@?#]+)/)?(?P<name>[^/@?#]+)(?:@(?P<version>[^?#]+))?")
_KINDS = {"pypi": "python", "deb": "debian"}


@dataclass(frozen=True)
class Sbom:
    """The two documents of one image."""

    cyclonedx: Path
    spdx: Path


@dataclass(frozen=True, order=True)
class Package:
    """One package of an SBOM. `kind`: python | debian, or the type of its package URL."""

    kind: str
    name: str
    version: str

    @property
    def called(self) -> str:
        """Its name on record: `numpy` for Python, `libc6 (Debian)`, `name (KIND)` for all else."""
        if self.kind == "python":
            return normal_name(self.name)
        return f"{self.name} ({'Debian' if self.kind == 'debian' else self.kind})"


def recorded(called: str, version: str) -> Package:
    """The package that a record calls so."""
    name, _, kind = called.partition(" (")
    return Package(kind.rstrip(")").lower() or "python", name, version)


def make(image: str, folder: Path, engine: Engine | None = None) -> Sbom:
    """The SBOMs of an image: a reference in the engine, or the path of an archive (docker or OCI).

    With the engine at hand it is looked at in place, see `syft`. What `folder` holds already is returned as it is: name
    the folder after the image's config digest. Raises ProgramError when syft is missing or fails.
    """
    made = Sbom(folder / "cyclonedx.json", folder / "spdx.json")
    if made.cyclonedx.is_file() and made.spdx.is_file():
        return made
    with naming_full_disk(folder):
        folder.mkdir(parents=True, exist_ok=True)
        cyclonedx, spdx = syft.scan(image, folder, engine)
        if not packages(cyclonedx):
            raise ProgramError(f"syft found no package in {image}", fix="see what `syft scan` says of the image")
        for path, document in ((made.cyclonedx, cyclonedx), (made.spdx, without_files(spdx))):
            write_whole(path, json.dumps(document))
    return made


def read(path: Path) -> tuple[Package, ...]:
    """The packages of an SBOM file, in either form. Raises TrustError when it is none."""
    return packages(_document(path))


def packages(document: Mapping[str, Any]) -> tuple[Package, ...]:
    """The packages of a CycloneDX or SPDX document that have a package URL, each once, sorted."""
    if document.get("bomFormat") == "CycloneDX":
        urls = [component.get("purl", "") for component in document.get("components", [])]
    elif str(document.get("spdxVersion", "")).startswith("SPDX-"):
        urls = [
            reference.get("referenceLocator", "")
            for package in document.get("packages", [])
            for reference in package.get("externalRefs", [])
            if reference.get("referenceType") == "purl"
        ]
    else:
        raise TrustError("the SBOM is neither CycloneDX nor SPDX", fix="make it again: release the image anew")
    return tuple(sorted({package for package in map(_package, urls) if package is not None}))


def without_files(document: Mapping[str, Any]) -> dict[str, Any]:
    """An SPDX document of packages alone. syft lists files without having read them, each with a hash of zeros: that is
    ten times the rest, and untrue."""
    files = {one["SPDXID"] for one in document.get("files", ())}
    related = [
        one
        for one in document.get("relationships", ())
        if not files & {one["spdxElementId"], one["relatedSpdxElement"]}
    ]
    return {name: value for name, value in document.items() if name != "files"} | {"relationships": related}


def _package(url: str) -> Package | None:
    match = _PURL.match(url)
    if match is None or match["kind"] == "oci":  # the image itself, which SPDX lists as well
        return None
    kind = _KINDS.get(match["kind"], match["kind"])
    return Package(kind, unquote(match["name"]), unquote(match["version"] or ""))


def _document(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TrustError(f"{path} is no SBOM: {error}", fix="remove it; it is made again") from None
    if not isinstance(document, dict):
        raise TrustError(f"{path} is no SBOM: not a JSON object", fix="remove it; it is made again")
    return document
