"""What Slipway made and can do without: leftovers of runs, built images, and on request caches and folders.

Only what is on record as Slipway's is touched. Labels would not do: an image that someone built upon one of ours has
inherited them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from slipway.engine import inventory
from slipway.engine.docker import Engine
from slipway.records import Records
from slipway.settings import Settings

FOLDERS = ("rootfs", "build", "logs", "check", "warm-pools")


@dataclass(frozen=True)
class Leftover:
    """One thing to clear away. `size` is in bytes, None where it cannot be told; `remove` returns why it stays."""

    kind: str
    name: str
    size: int | None
    remove: Callable[[], str]


def of_engine(engine: Engine, settings: Settings, *, cache: bool) -> list[Leftover]:
    """What runs left behind, the images that were built here, and with `cache` the engine's whole build cache."""
    found = [
        Leftover("run", run, None, _run_removal(engine, run))
        for run, owner in engine.runs().items()
        if not alive(owner)
    ]
    found += _images(engine, Records(settings.state))
    if cache:
        size = inventory.build_cache_bytes(engine)
        found.append(Leftover("cache", "build cache of the engine", size, _cache_removal(engine)))
    return found


def of_state(settings: Settings) -> list[Leftover]:
    """The folders that the next command makes again: root filesystems, renders, logs. Records and registry stay."""
    folders = [settings.state / name for name in FOLDERS]
    return [
        Leftover("folder", str(folder.relative_to(settings.project)), folder_size(folder), _folder_removal(folder))
        for folder in folders
        if folder.is_dir()
    ]


def alive(pid: int) -> bool:
    """Whether a process of that number lives on this machine."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def folder_size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def _images(engine: Engine, records: Records) -> list[Leftover]:
    builds = records.builds()
    ours = {build.reference for build in builds} | {push.uri for push in records.pushes()}
    found = []
    for image in inventory.images(engine, (build.engine_id for build in builds)):
        # A tag that someone else gave the image is theirs, and keeps it.
        names = [tag for tag in image.tags if tag in ours] if image.tags else [image.id]
        size = image.size if set(names) >= set(image.tags) else 0
        found += [
            Leftover("image", name, size if at == 0 else 0, _image_removal(engine, name))
            for at, name in enumerate(names)
        ]
    return found


def _run_removal(engine: Engine, run: str) -> Callable[[], str]:
    def remove() -> str:
        engine.remove_run(run)
        return ""

    return remove


def _image_removal(engine: Engine, name: str) -> Callable[[], str]:
    return lambda: inventory.remove_image(engine, name)


def _cache_removal(engine: Engine) -> Callable[[], str]:
    def remove() -> str:
        inventory.prune_build_cache(engine)
        return ""

    return remove


def _folder_removal(folder: Path) -> Callable[[], str]:
    def remove() -> str:
        shutil.rmtree(folder)
        return ""

    return remove
