"""Debian package lists: read from dpkg's status file, recorded, compared."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from slipway.engine import packages
from slipway.errors import BuildError, SpecError

STATUS = """\
Package: zlib1g
Status: install ok installed
Description: compression library - runtime
 Package: not-a-field
Version: 1:1.2.13.dfsg-1

Package: adduser
Status: install ok installed
Version: 3.134

Package: gone
Status: deinstall ok config-files
Version: 1.0
"""


def test_installed_packages_are_read_sorted_and_removed_ones_are_not() -> None:
    assert packages.parse_status(STATUS) == (("adduser", "3.134"), ("zlib1g", "1:1.2.13.dfsg-1"))


def test_a_tar_gives_its_packages(tmp_path: Path) -> None:
    path = tmp_path / "rootfs.tar"
    with tarfile.open(path, "w") as tar:
        member = tarfile.TarInfo("./var/lib/dpkg/status")
        member.size = len(STATUS)
        tar.addfile(member, io.BytesIO(STATUS.encode()))
    assert len(packages.read_tar(path)) == 2


def test_a_tar_without_debian_in_it_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rootfs.tar"
    tarfile.open(path, "w").close()
    with pytest.raises(BuildError, match="no Debian root filesystem"):
        packages.read_tar(path)


def test_a_record_reads_back_as_it_was_written(tmp_path: Path) -> None:
    path = packages.record_path(tmp_path, "debian12")
    assert packages.read_record(path) is None
    written = (("adduser", "3.134"), ("zlib1g", "1:1.2.13.dfsg-1"))
    packages.write_record(path, written)
    assert packages.read_record(path) == written


def test_every_bad_line_of_a_record_is_named(tmp_path: Path) -> None:
    path = tmp_path / "debian12.packages"
    path.write_text("adduser 3.134\nzlib1g\nlibc6 2.36 extra\n")
    with pytest.raises(SpecError) as caught:
        packages.read_record(path)
    assert [fault.line for fault in caught.value.faults] == [2, 3]


def test_drift_tells_new_gone_and_changed_packages() -> None:
    before = (("a", "1"), ("b", "1"), ("c", "1"))
    now = (("b", "2"), ("c", "1"), ("d", "1"))
    drift = packages.drift(before, now)
    assert drift.lines == ("- a 1", "~ b 1 -> 2", "+ d 1")
    assert not packages.drift(now, now)


def test_no_record_is_not_the_same_as_no_drift() -> None:
    assert not packages.drift(None, (("a", "1"),)).recorded
    assert packages.drift((), ()).recorded
