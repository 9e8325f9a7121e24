"""Stand-ins for programs, and the two forms of an SBOM."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

URLS = (
    "pkg:pypi/torch@2.13.0%2Bcpu",
    "pkg:pypi/Pillow@11.0.0",
    "pkg:pypi/slipway-training@0.1.0",
    "pkg:deb/debian/libc6@2.36-9%2Bdeb12u13?arch=amd64&distro=debian-12",
)


def cyclonedx(*urls: str) -> dict[str, Any]:
    return {"bomFormat": "CycloneDX", "components": [{"purl": url} for url in urls] + [{"type": "operating-system"}]}


def spdx(*urls: str) -> dict[str, Any]:
    packages = [{"externalRefs": [{"referenceType": "purl", "referenceLocator": url}]} for url in urls]
    image = {"externalRefs": [{"referenceType": "purl", "referenceLocator": "pkg:oci/small@sha256%3A00?arch=amd64"}]}
    return {"spdxVersion": "SPDX-2.3", "packages": [*packages, image]}


@pytest.fixture
def sbom_file(tmp_path: Path) -> Path:
    path = tmp_path / "cyclonedx.json"
    path.write_text(json.dumps(cyclonedx(*URLS)))
    return path


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Puts a shell script on PATH, which then holds nothing but such scripts. Returns where it lists its arguments."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr("sys.executable", str(folder / "python"))

    def put(name: str, body: str) -> Path:
        calls = tmp_path / f"{name}.calls"
        (folder / name).write_text(f'#!/bin/sh\nPATH=/usr/bin:/bin\nprintf "%s\\n" "$*" >>"{calls}"\n{body}\n')
        (folder / name).chmod(0o755)
        return calls

    return put
