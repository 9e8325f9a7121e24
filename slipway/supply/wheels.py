"""The toolkits as wheels for Dockerfiles that are not ours: the very bytes that are inside the images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from slipway import lock, process
from slipway.base import EPOCH
from slipway.engine import wheels
from slipway.errors import RegistryError, SpecError
from slipway.files import sha256_file

TIMEOUT = 600.0  # seconds


@dataclass(frozen=True, order=True)
class Wheel:
    """One wheel. `hash` is its SHA-256, as `pip install --require-hashes` and the ledger have it."""

    name: str
    version: str
    path: Path
    hash: str

    @property
    def requirement(self) -> str:
        """The line of a requirements file that installs exactly this file."""
        return f"{self.name}=={self.version} --hash=sha256:{self.hash}"


def build(project: Path, folder: Path) -> list[Wheel]:
    """Build every toolkit of a project into `folder`: same source, same bytes, on any machine.

    Raises SpecError where the project has none, ProgramError where one does not build.
    """
    sources = sorted(path.parent for path in (project / "toolkits").glob("*/pyproject.toml"))
    if not sources:
        raise SpecError("the project has no toolkits", fix="run the command in a project with a folder toolkits/")
    return sorted(_wheel(wheels.build_toolkit(source, folder, epoch=EPOCH)) for source in sources)


def publish(made: Sequence[Wheel], index: str, known: str = "") -> None:
    """Upload wheels to a package index (the API that twine and uv speak).

    uv reads its own variables for the login: UV_PUBLISH_TOKEN, or UV_PUBLISH_USERNAME and UV_PUBLISH_PASSWORD; on
    GitHub Actions it asks for a token itself. `known`: the index's simple pages; what is there is not sent again.
    Raises RegistryError when the index refuses.
    """
    words = ["publish", "--quiet", "--publish-url", index, *(["--check-url", known] if known else [])]
    done = process.run([lock.uv(), *words, *(str(wheel.path) for wheel in made)], timeout=TIMEOUT, check=False)
    if done.code != 0:
        lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise RegistryError(
            f"the package index did not take the wheels: {' '.join(lines[-4:])[:600]}",
            fix="check UV_PUBLISH_TOKEN, or UV_PUBLISH_USERNAME and UV_PUBLISH_PASSWORD; with --known SIMPLE-URL files "
            "that it has already are left out",
        )


def _wheel(path: Path) -> Wheel:
    name, version = path.name.split("-")[:2]
    return Wheel(wheels.normal_name(name), version, path, sha256_file(path))
