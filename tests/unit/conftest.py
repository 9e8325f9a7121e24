"""A small project, whole in every part, that tests change as they like."""

from __future__ import annotations

import functools
import hashlib
import http.server
import shutil
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slipway import lock
from slipway.engine import wheels
from slipway.spec import load
from slipway.spec.model import Image

ROOT = Path(__file__).parents[2]

SPEC = """\
framework: small
wheel-index:
  cpu: https://wheels.example/cpu
toolkits:
  training: [training]
stacks:
  "1.2":
    version: 1.2.0
    os: debian12
    python: ["3.11"]
    processors:
      cpu:
        architectures: [amd64, arm64]
    scopes: [training]
    packages:
      common: [small==1.2.0, numpy]
      training: [boto3]
  "1.1":
    version: 1.1.0
    os: debian12
    python: ["3.11"]
    processors:
      cpu: {}
    scopes: [training]
    packages:
      common: [small==1.1.0]
excluded:
  - architecture: arm64
    reason: no machine of this architecture builds here
"""

TOOLKIT = """\
[build-system]
requires = ["flit_core==3.12.0"]
build-backend = "flit_core.buildapi"

[project]
name = "small-toolkit"
version = "1.0"
description = "Says that it trains."
requires-python = ">=3.9"

[project.scripts]
train = "small_toolkit:train"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of one framework with two stacks, locked, with a toolkit and the real templates."""
    root = tmp_path / "project"
    toolkit = root / "toolkits" / "training"
    toolkit.mkdir(parents=True)
    (toolkit / "pyproject.toml").write_text(TOOLKIT)
    (toolkit / "small_toolkit.py").write_text('"""Says that it trains."""\n\n\ndef train():\n    print("training")\n')
    (root / "buildspec").mkdir()
    (root / "buildspec" / "small.yml").write_text(SPEC)
    shutil.copytree(ROOT / "dockerfiles", root / "dockerfiles")
    shutil.copytree(ROOT / "buildspec" / "defaults", root / "buildspec" / "defaults")
    lock_all(root)
    return root


@pytest.fixture
def write(project: Path) -> Callable[[str, str], Path]:
    """Write a file of the project by its path in it."""

    def write(name: str, text: str) -> Path:
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write


def lock_all(root: Path) -> None:
    """Write locks that look as if `invoke lock` had resolved every requirement to one pin."""
    texts: dict[str, str] = {}
    images = load.load(root).images
    for part in [lock.tools_part(), *(part for image in images for part in lock.parts(image))]:
        pins = "".join(pin(requirement) for requirement in part.requirements)
        texts[part.name] = f"# Made by `invoke lock`.\n# inputs: {part.inputs(texts)}\n{pins}"
        path = root / "buildspec" / "locks" / f"{part.name}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(texts[part.name])


def pin(requirement: str) -> str:
    name, _, version = requirement.partition("==")
    version = version or "1.0"
    return f"{name}=={version} \\\n    --hash=sha256:{hashlib.sha256(f'{name} {version}'.encode()).hexdigest()}\n"


def image_of(project: Path, image_id: str = "small-training-1.2.0-cpu-py311") -> Image:
    return next(image for image in load.load(project).images if image.id == image_id)


def make_wheel(folder: Path, name: str, version: str, *requires: str) -> Path:
    """A wheel that holds nothing but its metadata."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {requirement}\n" for requirement in requires)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


class Index:
    """A simple index: one folder a package."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url

    def add(self, name: str, version: str, *requires: str) -> str:
        """Offer a wheel; returns its SHA-256."""
        page = self.folder / "simple" / wheels.normal_name(name)
        path = make_wheel(page, name, version, *requires)
        links = "".join(
            f'<a href="{found.name.replace("+", "%2B")}#sha256={hashlib.sha256(found.read_bytes()).hexdigest()}">x</a>'
            for found in page.glob("*.whl")
        )
        (page / "index.html").write_text(links)
        return hashlib.sha256(path.read_bytes()).hexdigest()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    folder = tmp_path / "served"
    folder.mkdir()
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Index(folder, f"http://127.0.0.1:{server.server_port}/simple/")
        server.shutdown()
