"""Root filesystems bootstrapped from Debian's packages, made once a recipe and kept under the state folder.

A finished one stands at rootfs/HASH/rootfs.tar beside rootfs.json. It appears by a rename, so whoever sees the folder
sees all of it; two builds at once take turns on a lock file.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from slipway import process
from slipway.base import HOST_APT_KEYS, Recipe
from slipway.console import Console
from slipway.engine import packages as debian
from slipway.errors import BuildError, DiskError, ProgramError, SlipwayError
from slipway.files import canonical_json, locked, naming_full_disk, sha256_file, write_whole
from slipway.settings import Settings

_SHOWN_DRIFT = 5
_STEPS = tuple(f"I: {step}" for step in ("running apt", "downloading", "extracting", "installing", "creating"))


@dataclass(frozen=True)
class Rootfs:
    """A root filesystem: its tar, the tar's SHA-256 (hexadecimal), and its Debian packages by name."""

    tar: Path
    sha256: str
    packages: debian.Packages


def ensure(recipe: Recipe, settings: Settings, console: Console, *, drift: bool = True) -> Rootfs:
    """The recipe's root filesystem, made when it is not there yet; with `drift`, its drift is shown.

    Raises ProgramError (mmdebstrap missing), DiskError, or BuildError (the bootstrap failed; the message has its last
    lines and the log's path). On Ctrl-C or an error nothing is left but the log.
    """
    folder = settings.state / "rootfs" / recipe.hash
    found = _read(folder)
    if found is None:
        waiting = f"base {recipe.os}: another command is making it; waiting"
        with naming_full_disk(folder), locked(folder.with_name(folder.name + ".lock"), lambda: console.note(waiting)):
            found = _read(folder) or _make(recipe, folder, console)
    if drift:
        show_drift(recipe, found, settings, console)
    return found


def show_drift(
    recipe: Recipe, rootfs: Rootfs, settings: Settings, console: Console, *, whole: bool = False
) -> debian.Drift:
    """Say how the packages differ from buildspec/base/OS.packages: the count and a few lines, or all of them."""
    path = debian.record_path(settings.project, recipe.os)
    drift = debian.drift(debian.read_record(path), rootfs.packages)
    name = path.relative_to(settings.project)
    if not drift.recorded:
        console.note(f"base {recipe.os}: no record {name}; `invoke base --record` writes it")
    elif drift:
        console.note(f"base {recipe.os}: {len(drift.lines)} Debian packages differ from {name}:")
        shown = drift.lines if whole else drift.lines[:_SHOWN_DRIFT]
        for line in shown:
            console.note(f"  {line}")
        if len(shown) < len(drift.lines):
            console.note(
                f"  and {len(drift.lines) - len(shown)} more: `invoke base` shows all, `--record` accepts them"
            )
    return drift


def _read(folder: Path) -> Rootfs | None:
    """What an earlier command made; None when it is not there or not whole."""
    tar = folder / "rootfs.tar"
    try:
        data = json.loads((folder / "rootfs.json").read_text(encoding="utf-8"))
        if tar.stat().st_size != data["size"]:
            return None
        return Rootfs(tar, data["sha256"], tuple((name, version) for name, version in data["packages"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _make(recipe: Recipe, folder: Path, console: Console) -> Rootfs:
    if process.find("mmdebstrap") is None:
        raise ProgramError(
            "the base root filesystem is made by mmdebstrap, which is not installed",
            fix="install mmdebstrap (Debian, Ubuntu: apt-get install mmdebstrap), or set base to an image by digest",
        )
    with naming_full_disk(folder):
        prefix = f".making-{recipe.hash[:16]}-"
        for stale in folder.parent.glob(prefix + "*"):  # of a command that was killed: the lock is ours
            shutil.rmtree(stale, ignore_errors=True)
        work = Path(tempfile.mkdtemp(prefix=prefix, dir=folder.parent))
    try:
        with naming_full_disk(folder):
            _bootstrap(recipe, work, folder.with_name(folder.name + ".log"), console)
            tar = work / "rootfs.tar"
            found = debian.read_tar(tar)
            data = {
                "sha256": sha256_file(tar),
                "size": tar.stat().st_size,
                "recipe": recipe.command(),
                "packages": found,
            }
            write_whole(work / "rootfs.json", canonical_json(data))
            shutil.rmtree(folder, ignore_errors=True)
            work.chmod(0o755)
            work.rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    rootfs = _read(folder)
    assert rootfs is not None
    return rootfs


def _bootstrap(recipe: Recipe, work: Path, log_path: Path, console: Console) -> None:
    host_apt = work / "host-apt.conf"
    write_whole(host_apt, host_apt_settings(), mode=0o600)
    started = time.monotonic()
    console.note(f"base {recipe.os}: making the root filesystem from Debian's packages (about half a minute)")
    with log_path.open("w", encoding="utf-8") as log:

        def on_line(line: str) -> None:
            log.write(line + "\n")
            if line.startswith(_STEPS):
                console.note(f"base {recipe.os}: {line[3:]}")

        try:
            arguments = recipe.arguments(str(work / "rootfs.tar"), host_apt=str(host_apt))
            process.stream(arguments, on_line, env=recipe.environment)
        except ProgramError as error:
            log.flush()
            raise explain(error, log_path) from error
        finally:
            host_apt.unlink(missing_ok=True)
    console.note(f"base {recipe.os}: made in {time.monotonic() - started:.0f} s")


_FULL = r"No space left on device|enough free space|Disk quota exceeded"
_REFUSED = r"unable to pick chroot mode|permission denied|Operation not permitted|newuidmap"
_UNREACHED = (
    r"Could not (resolve|connect)|Temporary failure resolving|Connection (refused|failed|timed out)"
    r"|Failed to fetch|does not have a Release file|Certificate verification failed"
)


def explain(error: ProgramError, log_path: Path) -> SlipwayError:
    """What a failed bootstrap most likely wants, told from what it printed."""
    text = log_path.read_text(encoding="utf-8", errors="replace") + error.message
    ending = f"\n  log: {log_path}\n  {error.message}"
    if re.search(_FULL, text):
        return DiskError(
            f"no space left while the base root filesystem was made{ending}",
            fix="free about 1 GB on the disk of the state folder and of TMPDIR, or run `invoke clean`",
        )
    if re.search(_UNREACHED, text):
        return BuildError(
            f"Debian's packages could not be fetched for the base root filesystem{ending}",
            fix="check the network, apt's proxy and certificate settings, and the settings apt-mirror and snapshot",
        )
    if re.search(_REFUSED, text, re.IGNORECASE):
        return BuildError(
            f"the base root filesystem cannot be made by this user{ending}",
            fix="run as root, give the user a range in /etc/subuid and /etc/subgid, or set base to an image by digest",
        )
    return BuildError(f"the base root filesystem could not be made{ending}", fix="read the log")


def host_apt_settings() -> str:
    """What the host's apt is told about proxies, certificates and the like; empty where there is no apt."""
    if process.find("apt-config") is None:
        return ""
    dump = process.run(["apt-config", "dump", "Acquire"], check=False).stdout
    return "".join(f"{line}\n" for line in dump.splitlines() if re.search(HOST_APT_KEYS, line))


def try_out(recipe: Recipe, folder: Path) -> None:
    """Resolve the recipe's packages from where they would come from, without making anything of them.

    `folder` takes the host's apt settings. Raises ProgramError when Debian's archives cannot be had.
    """
    host_apt = folder / "host-apt.conf"
    write_whole(host_apt, host_apt_settings(), mode=0o600)
    # In a trial run mmdebstrap runs no hooks; a file of apt options it takes all the same, and keeps nothing.
    arguments = [*recipe.arguments("/dev/null"), f"--aptopt={host_apt}", "--simulate"]
    process.run(arguments, env=recipe.environment, timeout=120)
