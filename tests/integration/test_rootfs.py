"""The real bootstrap: two of them are equal byte by byte, and nothing of the machine is left inside."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from slipway import base, settings
from slipway.base import Recipe
from slipway.console import Console
from slipway.engine import rootfs

pytestmark = [pytest.mark.integration, pytest.mark.slow]

UNCHECKED_HASH = 1  # in the second word of a .pyc file: PEP 552
CONTENT_OF_DEBCONF = "./var/cache/debconf/"  # the answers and questions of installed packages, no cache in truth


@pytest.fixture(scope="module", params=sorted(base.RELEASES))
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[rootfs.Rootfs]:
    recipe = base.of(request.param)
    assert isinstance(recipe, Recipe)
    found = []
    for _ in range(2):
        project = settings.read(project=tmp_path_factory.mktemp("project"), environment={})
        found.append(rootfs.ensure(recipe, project, Console(err=io.StringIO()), drift=False))
    return found


def test_two_are_equal_byte_by_byte(made: list[rootfs.Rootfs]) -> None:
    one, other = made
    assert one.tar != other.tar
    assert one.sha256 == other.sha256
    assert one.packages == other.packages


def test_nothing_of_the_machine_is_left(made: list[rootfs.Rootfs]) -> None:
    with tarfile.open(made[0].tar) as tar:
        members = {member.name: member for member in tar}
    files = {name: member for name, member in members.items() if member.isreg() and member.size}
    for name in ("./etc/hostname", "./etc/resolv.conf", "." + base.HOST_APT):
        assert name not in members
    # Empty files, such as apt's locks, are the same everywhere.
    assert not [name for name in files if name.startswith(("./run/", "./tmp/", "./var/lib/apt/lists/"))]
    assert not [name for name in files if name.startswith("./var/cache/") and not name.startswith(CONTENT_OF_DEBCONF)]
    assert not [name for name in files if name.startswith("./var/log/")]
    assert "./etc/machine-id" not in files
    assert max(member.mtime for member in members.values()) <= base.EPOCH


def test_licences_stay_and_manuals_go(made: list[rootfs.Rootfs]) -> None:
    with tarfile.open(made[0].tar) as tar:
        files = [member.name for member in tar if member.isreg()]
    assert sum(name.endswith("/copyright") for name in files) >= len(made[0].packages) // 2
    assert not [name for name in files if name.startswith(("./usr/share/man/", "./usr/share/locale/"))]
    docs = [name for name in files if name.startswith("./usr/share/doc/")]
    assert {Path(name).name for name in docs} == {"copyright"}


def test_bytecode_does_not_hang_on_file_times(made: list[rootfs.Rootfs]) -> None:
    with tarfile.open(made[0].tar) as tar:
        flags = {
            int.from_bytes(tar.extractfile(member).read(8)[4:], "little")  # type: ignore[union-attr]
            for member in tar
            if member.name.endswith(".pyc") and "/python3" in member.name
        }
    assert flags == {UNCHECKED_HASH}
