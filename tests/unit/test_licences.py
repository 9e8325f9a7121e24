"""The overview of licences that an image's last step writes, and the texts that must reach the image for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from slipway.spec import load

from .conftest import ROOT

SCRIPT = ROOT / "dockerfiles" / "licences.py.j2"
INFO = "Metadata-Version: 2.4\nName: {name}\nVersion: 1.0\n{more}"


def install(site: Path, name: str, more: str, *texts: str) -> None:
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(INFO.format(name=name, more=more))
    files = [f"{info.name}/METADATA", f"{name}/license.py"]
    for text in texts:
        path = site / text
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("Do as you like.\n")
        files.append(text)
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))


def overview(site: Path) -> str:
    # Without site-packages: what is installed here is not this test's.
    command = [sys.executable, "-S", SCRIPT]
    environment = {**os.environ, "PYTHONPATH": str(site)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def test_every_package_is_named_with_its_licence_and_its_texts(tmp_path: Path) -> None:
    install(tmp_path, "zeta", "License-Expression: MIT\n", "zeta-1.0.dist-info/licenses/LICENSE", "zeta/COPYING.txt")
    install(tmp_path, "alpha", "Classifier: License :: OSI Approved :: BSD License\n")
    install(tmp_path, "free", "License: Ours, all rights kept\nProject-URL: Home, https://free.example\n")
    many = [f"many-1.0.dist-info/licenses/part{at}/LICENSE" for at in range(2)]
    many += [f"many-1.0.dist-info/licenses/LICENSE.{at}" for at in range(5)]
    install(tmp_path, "many", "License: Zlib\n", *many)
    told = overview(tmp_path)
    assert told == overview(tmp_path), "the same packages give the same bytes"
    entries = {block.split("\n")[0]: block.split("\n")[1:] for block in told.split("\n\n")}
    assert entries["zeta 1.0: MIT"] == [
        f"    {tmp_path}/zeta/COPYING.txt",
        f"    {tmp_path}/zeta-1.0.dist-info/licenses/LICENSE",
    ]
    assert entries["alpha 1.0: BSD License"] == ["    no text in the package; see its project"]
    assert entries["free 1.0: Ours, all rights kept"] == ["    no text in the package; see https://free.example"]
    assert entries["many 1.0: Zlib"] == [
        f"    {tmp_path}/many-1.0.dist-info/licenses/",
        *(f"    {tmp_path}/many-1.0.dist-info/licenses/part{at}/LICENSE" for at in range(2)),
    ]
    names = [head.partition(" ")[0] for head in entries if " 1.0: " in head]
    assert names == sorted(names)


def test_a_text_that_is_gone_is_not_named(tmp_path: Path) -> None:
    install(tmp_path, "lost", "License: MIT\n", "lost-1.0.dist-info/LICENSE")
    (tmp_path / "lost-1.0.dist-info" / "LICENSE").unlink()
    assert "LICENSE" not in overview(tmp_path)


def test_each_toolkit_carries_the_licence(tmp_path: Path) -> None:
    for project in sorted((ROOT / "toolkits").glob("*/pyproject.toml")):
        assert 'license-files = ["LICENSE"]' in project.read_text(), project
        assert project.with_name("LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes(), project


def test_no_licence_is_left_out_of_an_image() -> None:
    for image in load.load(ROOT).images:
        for package, paths in image.leave_out.items():
            said = [path for path in paths if "dist-info" in path or "licen" in path.lower()]
            assert not said, f"{image.id}: leave-out of {package} takes licence texts away"
