"""What a look inside an image says of shared objects: real ones, in which a name was changed."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pydantic_core._pydantic_core as real
import pytest

PROBE = Path(__file__).parents[3] / "tests/contract/probe/libraries.py"

pytestmark = pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"), reason="words of shared objects for Linux on x86-64"
)


def looked(site: Path) -> dict[str, Any]:
    """What libraries.py says of the packages of one folder, and no others."""
    code = f"import runpy, sys; sys.path[:] = [{str(site)!r}, *[p for p in sys.path if 'site-packages' not in p]]"
    command = [sys.executable, "-I", "-c", f"{code}; sys.argv[0] = {str(PROBE)!r}; runpy.run_path({str(PROBE)!r})"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    return folder


def put(site: Path, name: str, old: bytes = b"", new: bytes = b"") -> str:
    """A shared object among the packages, with a word of it changed for one as long."""
    whole = Path(real.__file__).read_bytes()
    assert old in whole and len(old) == len(new)
    path = site / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(whole.replace(old, new))
    return str(path)


def test_what_needs_a_library_that_nobody_has_is_named(site: Path) -> None:
    whole = put(site, "one/good.so")
    assert looked(site) == {"objects": 1, "lacking": {}, "broken": [], "loaded": 0, "unloadable": {}}
    lacking = put(site, "one/lacking.so", b"libc.so.6", b"libq.so.6")
    assert looked(site)["lacking"] == {lacking: ["libq.so.6"]}
    # A package may load it from where it lies before it is needed.
    put(site, "two.libs/libq.so.6")
    found = looked(site)
    assert (found["objects"], found["lacking"]) == (3, {})
    Path(whole).write_bytes(Path(whole).read_bytes()[:90_000])
    assert looked(site)["broken"] == [whole]


def test_libraries_that_are_packages_are_loaded_unless_they_need_a_driver(site: Path) -> None:
    put(site, "nvidia/made/lib/libgood.so.1")
    bad = put(site, "nvidia/made/lib/libbad.so.1", b"GLIBC_2.2.5", b"GLIBC_9.9.9")
    put(site, "nvidia/made/lib/libdriven.so.1", b"libgcc_s.so.1", b"libcuda.so.10")
    put(site, "nvidia/made/lib/libcufile_rdma.so.1", b"libc.so.6", b"libq.so.6")
    found = looked(site)
    assert (found["objects"], found["lacking"], found["loaded"]) == (4, {}, 2)
    assert list(found["unloadable"]) == [bad] and "GLIBC_9.9.9" in found["unloadable"][bad]
