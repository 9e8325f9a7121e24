"""The two ways in which syft sees an image find the same."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from slipway.engine.docker import Engine
from slipway.supply import sbom, syft

pytestmark = pytest.mark.integration


def test_a_look_inside_finds_what_the_written_image_holds(
    engine: Engine, train_image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = sbom.make(train_image, tmp_path / "written")
    with monkeypatch.context() as patched:
        patched.delattr(syft, "_written_out")
        inside = sbom.make(train_image, tmp_path / "inside", engine)
    found = sbom.read(inside.cyclonedx)
    assert found == sbom.read(inside.spdx) == sbom.read(written.cyclonedx)
    assert "libc6" in {package.name for package in found}
    subjects = [json.loads(made.cyclonedx.read_text())["metadata"]["component"] for made in (inside, written)]
    assert [subject["type"] for subject in subjects] == ["container", "container"]
    assert subjects[0]["version"] == engine.image(train_image)["Id"]
    assert [path.name for path in sorted(tmp_path.glob("*/*"))] == ["cyclonedx.json", "spdx.json"] * 2
    assert os.getpid() not in engine.runs().values(), "a container was left behind"
