"""Wheels on the host: those that the host's pip settings already hold, and those of our own toolkits."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlparse

from slipway import process, toolkits
from slipway.files import locked, naming_full_disk, same_file, sha256_file
from slipway.settings import PipSettings

_PINNED = re.compile(r"[A-Za-z0-9._-]+==([^\s\\;]+)")


@dataclass(frozen=True)
class Pin:
    """One line of a lock: a distribution, its version, and the SHA-256 of every file that may be installed for it."""

    name: str
    version: str
    hashes: frozenset[str]


@cache
def pins(lock: str) -> tuple[Pin, ...]:
    """The pins of a hashed requirements file, names in their normal form (PEP 503)."""
    found = []
    for name, entry in entries(lock):
        match = _PINNED.match(entry)
        if match:
            hashes = frozenset(re.findall(r"--hash=sha256:([0-9a-f]{64})", entry))
            found.append(Pin(name, match[1], hashes))
    return tuple(found)


@cache
def versions(lock: str) -> tuple[tuple[str, str], ...]:
    """Names, in their normal form, and versions of the pins of a lock: all that most who read one want to know."""
    found = ((name, _PINNED.match(entry)) for name, entry in entries(lock))
    return tuple((name, match[1]) for name, match in found if match)


@cache
def entries(lock: str) -> tuple[tuple[str, str], ...]:
    """The entries of a lock in their order: a distribution's normal name, and the text that pins it."""
    texts = (entry.rstrip() for entry in re.split(r"^(?=[A-Za-z0-9])", lock, flags=re.MULTILINE))
    return tuple((normal_name(entry.split("==")[0]), entry) for entry in texts if re.match(r"[A-Za-z0-9]", entry))


def normal_name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def local_folders(pip: PipSettings) -> tuple[Path, ...]:
    """Folders on this host that pip takes wheels from: find-links that are paths or file:// addresses."""
    return tuple(path for path in map(local_path, pip.find_links) if path is not None and path.is_dir())


def local_path(location: str) -> Path | None:
    """The path that a location names on this host; None when it is an address elsewhere."""
    parts = urlparse(location)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return None if parts.scheme else Path(location).expanduser()


def wheels_of(name: str, pip: PipSettings) -> list[Path]:
    """The wheels of one distribution in the host's folders and file:// indexes."""
    normal = normal_name(name)
    places = [*local_folders(pip)]
    for index in (pip.index_url, *pip.extra_index_urls):
        page = local_path(index) if index.startswith("file:") else None
        if page is not None and (page / normal).is_dir():
            places += _linked_folders(page / normal)
    found = []
    for place in dict.fromkeys(places):
        found += [path for path in sorted(place.glob("*.whl")) if normal_name(path.name.split("-")[0]) == normal]
    return found


def stage(locks: Iterable[str], pip: PipSettings, folder: Path) -> list[Path]:
    """Put every wheel that the locks name and the host already has into `folder`; the rest comes from the indexes.

    A wheel counts only when its SHA-256 is in the lock. Files are linked where the disk allows, else copied.
    """
    staged = []
    # Two builds may want the same stage; what a killed one left half done is stale.
    with naming_full_disk(folder), locked(folder.with_name(f"{folder.name}.lock")):
        folder.mkdir(parents=True, exist_ok=True)
        for pin in {pin for lock in locks for pin in pins(lock)}:
            for wheel in wheels_of(pin.name, pip):
                if unquote(wheel.name).split("-")[1] == pin.version and sha256_file(wheel) in pin.hashes:
                    staged.append(same_file(wheel, folder / unquote(wheel.name)))
                    break
        for stale in set(folder.iterdir()) - set(staged):
            if stale.is_dir():
                shutil.rmtree(stale)
            else:
                stale.unlink()
    return sorted(staged)


def build_toolkit(source: Path, folder: Path, *, epoch: int) -> Path:
    """Build a toolkit's wheel into `folder`, stamped `epoch` (seconds since 1970): same source, same bytes."""
    project = source / "pyproject.toml"
    module = toolkits.read(source.name, project.read_bytes() if project.is_file() else None).distribution
    folder.mkdir(parents=True, exist_ok=True)
    process.run(
        [sys.executable, "-m", "flit_core.wheel", "--outdir", folder.resolve(), source],
        env={"SOURCE_DATE_EPOCH": str(epoch)},
        fix=f"see that toolkits/{source.name}/pyproject.toml builds with flit_core",
    )
    (wheel,) = folder.glob(f"{module}-*.whl")
    return wheel


def _linked_folders(page: Path) -> list[Path]:
    """The folders that a simple index's page links its files from, and the page's own."""
    listing = page / "index.html"
    folders = [page]
    if listing.is_file():
        for link in re.findall(r'href="([^"#]+)', listing.read_text(encoding="utf-8", errors="replace")):
            target = local_path(link) if link.startswith("file:") else page / unquote(link)
            if target is not None and not urlparse(link).netloc:
                folders.append(Path(os.path.normpath(target)).parent)
    return [folder for folder in dict.fromkeys(folders) if folder.is_dir()]
