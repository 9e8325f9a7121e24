"""Hashed locks: each stack resolved with uv, once, for exactly the Python and platform of its images.

A stack's lock has two kinds of part: `common`, which every image of the stack installs, and one for each scope, which
holds only what that scope adds. The scope's part is resolved under the common one, so the two cannot contradict; the
common part of a stack that stands on another one, under that one's.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from slipway import process
from slipway.engine import wheels
from slipway.errors import LockError, ProgramError
from slipway.files import write_whole
from slipway.settings import PipSettings, Settings
from slipway.spec.model import Image

TOOLS = ("uv",)
TOOLS_LOCK = "tools"
ALWAYS = ("pip",)  # in every stack: users and SageMaker's own drivers call it

_EXACT = re.compile(r"([A-Za-z0-9._-]+(?:\[[^\]]+\])?)==([^\s,;]+)")
_HEADER = "# Made by `invoke lock`; change buildspec/ instead.\n"
_GLIBC = {"debian12": "2_36", "debian13": "2_40"}
_MACHINE = {"amd64": "x86_64", "arm64": "aarch64"}


@dataclass(frozen=True)
class Part:
    """One lock file to be: what it is asked for, and the lines it must not repeat."""

    name: str  # "<stack id>/common", "<stack id>/training", "tools"
    requirements: tuple[str, ...]
    python: str
    platform: str
    wheel_index: str = ""
    under: tuple[str, ...] = ()  # the parts whose pins bind this one
    folder: str = "buildspec/locks"  # where its file lies: beside the buildspec file that asks for it

    @property
    def file(self) -> str:
        return f"{self.folder}/{self.name}.txt"

    def inputs(self, locks: Mapping[str, str]) -> str:
        """Hash of all that decides the lock; it stands in the lock's second line."""
        # Of the parts that it stands under only the pins count: a new hash of the same version changes nothing here.
        data = [sorted(self.requirements), self.python, self.platform, sorted(self.bound(locks))]
        return hashlib.sha256(json.dumps(data).encode()).hexdigest()[:32]

    def bound(self, locks: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        """Names and versions that are installed below it."""
        return tuple(pin for name in self.under for pin in wheels.versions(locks.get(name, "")))


@dataclass(frozen=True)
class Change:
    """What locking changed in one file: the pins that came, went or moved, as `name old -> new`."""

    name: str
    lines: tuple[str, ...]
    diff: str


def parts(image: Image) -> tuple[Part, ...]:
    """The lock parts of an image: its stacks' common ones, lowest first, then its scope's when it adds anything."""
    platform = f"{_MACHINE[image.architecture]}-manylinux_{_GLIBC[image.os]}"
    found: list[Part] = []
    for cell in image.ground:
        asked = (*(() if found else ALWAYS), *cell.packages["common"])
        below = _names(found)
        found.append(Part(common(cell), asked, cell.python, platform, cell.wheel_index, below, folder(cell)))
    if image.packages[image.scope]:
        name, own, below = f"{image.stack_id}/{image.scope}", image.packages[image.scope], _names(found)
        found.append(Part(name, own, image.python, platform, image.wheel_index, below, folder(image)))
    return tuple(found)


def folder(cell: Image) -> str:
    """Where the locks of a cell's own stack lie: relative to the project, where its buildspec file is of it."""
    above, slash, _ = cell.file.rpartition("/")
    return f"{above}{slash}locks"


def common(cell: Image) -> str:
    """The name of the part that every image of a cell's stack installs."""
    return f"{cell.stack_id}/common"


def _names(parts: Iterable[Part]) -> tuple[str, ...]:
    return tuple(part.name for part in parts)


def tools_part() -> Part:
    return Part(TOOLS_LOCK, TOOLS, "3.11", "linux")


def faults(image: Image, locks: Mapping[str, str]) -> list[str]:
    """Why the locks do not serve this image: one sentence for each part that is missing or out of date."""
    found = []
    for part in (*parts(image), tools_part()):
        text = locks.get(part.name)
        if text is None:
            found.append(f"{part.file} does not exist")
        elif f"# inputs: {part.inputs(locks)}\n" not in text:
            found.append(f"{part.file} was made for other packages than buildspec/ names now")
    return found


def resolve(
    part: Part,
    locks: Mapping[str, str],
    pip: PipSettings,
    settings: Settings,
    *,
    upgrade: bool = False,
    alone: bool = False,
) -> str:
    """Resolve one part and return the lock's text. Pins of the present lock are kept unless `upgrade`; `alone`: of what
    is asked for, not of what that requires."""
    with tempfile.TemporaryDirectory(prefix="slipway-lock-") as scratch:
        asked, out = Path(scratch) / "in.txt", Path(scratch) / "out.txt"
        asked.write_text("".join(f"{line}\n" for line in part.requirements))
        if part.name in locks and not upgrade:
            out.write_text(locks[part.name])
        argv: list[str | Path] = [uv(), "pip", "compile", asked, "--output-file", out, "--quiet"]
        argv += ["--generate-hashes", "--no-header", "--no-annotate", "--only-binary", ":all:", "--no-config"]
        argv += ["--python-version", part.python, "--python-platform", part.platform]
        argv += ["--index-strategy", "unsafe-best-match"]  # pip's own: all indexes count alike
        if alone:
            argv.append("--no-deps")
        if part.under:
            bound = Path(scratch) / "bound.txt"
            bound.write_text("".join(f"{name}=={version}\n" for name, version in part.bound(locks)))
            argv += ["--constraint", bound]
        for path in pip.constraints:
            argv += ["--constraint", path]
        try:
            process.run(argv, env=index_environment(pip, _wheel_index(part, locks, pip, settings)), timeout=900)
        except ProgramError as error:
            raise LockError(
                f"{part.name} cannot be locked: {error.message}", fix="change the requirements, or the index settings"
            ) from None
        text = out.read_text()
    held = {name for name, _ in part.bound(locks)}
    return _HEADER + f"# inputs: {part.inputs(locks)}\n" + _without(text, held)


def newer(part: Part, locks: Mapping[str, str], pip: PipSettings, settings: Settings) -> dict[str, tuple[str, str]]:
    """Of what a part asks for in one version alone: the version, and the newest that its Python and platform have."""
    pinned = {match[1]: match[2] for match in map(_EXACT.fullmatch, part.requirements) if match}
    if not pinned:
        return {}
    asked = Part(f"newest of {part.name}", tuple(pinned), part.python, part.platform)
    found = resolve(asked, {}, pip, settings, alone=True)
    newest = {pin.name: pin.version for pin in wheels.pins(found)}
    versions = {
        name: (old, newest.get(wheels.normal_name(name.partition("[")[0]), old)) for name, old in pinned.items()
    }
    return {name: pair for name, pair in versions.items() if pair[0] != pair[1].partition("+")[0]}


def compare(part: Part, old: str, new: str) -> Change:
    """What a lock's new text changes."""
    before = {pin.name: pin.version for pin in wheels.pins(old)}
    after = {pin.name: pin.version for pin in wheels.pins(new)}
    lines = [
        f"{name} {before.get(name, 'new')} -> {after.get(name, 'gone')}"
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    ]
    diff = "".join(difflib.unified_diff(old.splitlines(True), new.splitlines(True), "before", "after", n=0))
    return Change(part.name, tuple(lines), diff)


def write(project: Path, part: Part, old: str, new: str) -> Change:
    """Write one lock and say what it changed."""
    write_whole(project / part.file, new)
    return compare(part, old, new)


def uv() -> str:
    """Path of the uv program that was installed with Slipway."""
    from uv import find_uv_bin

    return str(find_uv_bin())


def index_environment(pip: PipSettings, wheel_index: str) -> dict[str, str]:
    """The host's package settings in uv's words."""
    folders = [place for place in pip.find_links if (path := wheels.local_path(place)) is None or path.is_dir()]
    here = [url for url in pip.extra_index_urls if url.startswith("file:")]
    extra = [wheel_index, *(url for url in pip.extra_index_urls if url not in here)]
    if here:
        # uv takes a version's hashes from the first index that has it. An index on this disk may hold a few of its
        # files only, so it comes after the one that everybody has.
        extra += [pip.index_url, *here]
    found = {
        "UV_DEFAULT_INDEX": pip.index_url,
        "UV_INDEX": " ".join(url for url in extra if url),
        "UV_FIND_LINKS": ",".join(folders),  # uv stops at a folder that is not there; pip only warns
        "SSL_CERT_FILE": pip.cert,
        "UV_INSECURE_HOST": " ".join(pip.trusted_hosts),
    }
    return {name: value for name, value in found.items() if value}


def _wheel_index(part: Part, locks: Mapping[str, str], pip: PipSettings, settings: Settings) -> str:
    """The framework's own index, unless a wheel folder of the host already holds the build that the stack pins."""
    asked = [match for match in (re.fullmatch(r"([\w.-]+)==(\S+)", line) for line in part.requirements) if match]
    pinned = [(match[1], match[2]) for match in asked]
    pinned += part.bound(locks)
    tag = "cp" + part.python.replace(".", "")
    for name, version in pinned if part.wheel_index else ():
        for wheel in wheels.wheels_of(name, pip):
            held = wheel.name.split("-")[1]
            if "+" in held and held.split("+")[0] == version.split("+")[0] and tag in wheel.name:
                return ""
    return settings.text("wheel-index") or part.wheel_index if part.wheel_index else ""


def _without(text: str, names: set[str]) -> str:
    """A lock's text without the entries of some distributions."""
    kept = [entry for name, entry in wheels.entries(text) if name not in names]
    return "\n".join(kept) + "\n"
