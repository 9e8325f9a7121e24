"""What every image stands on: a Debian root filesystem made by a recipe, or an image pulled by digest.

Nothing here looks at the machine, the network or the clock, so that a plan and a render may use it. A recipe's hash
covers the whole command line that makes the root filesystem: change how it is made, and every image's input changes.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from slipway.errors import Fault, SpecError, nearest
from slipway.files import canonical_json, sha256_bytes

BOOTSTRAP = "bootstrap"
EPOCH = 1700000000  # newer file times are set back to this one; any fixed second does
# usr-is-merged: apt would take usrmerge, which converts old systems and brings all of Perl along for that.
INCLUDE = ("ca-certificates", "python3", "python3-venv", "usr-is-merged")
HOST_APT = "/etc/apt/apt.conf.d/98slipway-host"  # inside the root filesystem, only while it is made
# What the host tells apt about the way to the archive: proxies, certificates, retries, a mirror with old dates.
HOST_APT_KEYS = r"^Acquire::(https?::|Check-|Retries |ForceIPv)"


@dataclass(frozen=True)
class Debian:
    """A Debian release: its suite in the archive, and the Python that it carries."""

    suite: str
    python: str


RELEASES = {"debian12": Debian("bookworm", "3.11"), "debian13": Debian("trixie", "3.13")}

# mmdebstrap keeps what it downloaded out of the result by itself. These go as well: the host's own name, resolver and
# apt settings, logs, and the backups that programs leave beside the files they change. Python's bytecode is compiled
# again with unchecked hashes: bytecode that names a file time is void once times are clamped, and bytecode that names
# a checked hash reads every source file at every start.
_LEFTOVERS = (
    f'rm -f "$1{HOST_APT}" "$1/etc/hostname" "$1/etc/resolv.conf"',
    'find "$1/var/log" -type f -exec truncate -s 0 {} +',
    'rm -f "$1"/etc/passwd- "$1"/etc/group- "$1"/etc/shadow- "$1"/etc/gshadow- "$1"/etc/subuid- "$1"/etc/subgid-',
    'rm -f "$1"/var/cache/debconf/*-old "$1"/var/lib/dpkg/*-old',
)
_BYTECODE = (
    'PYTHONHASHSEED=0 chroot "$1" python3 -m compileall -q -f --invalidation-mode unchecked-hash'
    " -x lib2to3/tests /usr/lib/python3 /usr/lib/python{python} /usr/share/python3"
)


@dataclass(frozen=True)
class Recipe:
    """How a root filesystem is bootstrapped. `epoch` is in seconds since 1970."""

    os: str
    suite: str
    python: str
    architecture: str = "amd64"
    include: tuple[str, ...] = INCLUDE
    epoch: int = EPOCH
    mirror: str = ""
    snapshot: str = ""

    @property
    def hash(self) -> str:
        return sha256_bytes(canonical_json(self.command()).encode())

    def command(self, target: str = "rootfs.tar", *, host_apt: str = "") -> list[str]:
        """The whole command that writes `target`: `env`, the environment, mmdebstrap and its arguments."""
        setting = [f"{name}={value}" for name, value in self.environment.items()]
        return ["env", *setting, *self.arguments(target, host_apt=host_apt)]

    @property
    def environment(self) -> dict[str, str]:
        return {"LC_ALL": "C.UTF-8", "SOURCE_DATE_EPOCH": str(self.epoch)}

    def arguments(self, target: str, *, host_apt: str = "") -> list[str]:
        """mmdebstrap's argument list; `host_apt` is a file of apt settings to use on the way."""
        hooks = [*_LEFTOVERS, _BYTECODE.format(python=self.python)]
        return [
            *("mmdebstrap", "--variant=minbase", f"--architectures={self.architecture}", "--format=tar"),
            f"--include={','.join(self.include)}",
            "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr",
            "--keyring=/usr/share/keyrings/debian-archive-keyring.gpg",
            "--aptopt=Acquire::Languages none",
            "--dpkgopt=path-exclude=/usr/share/man/*",
            "--dpkgopt=path-exclude=/usr/share/doc/*",
            "--dpkgopt=path-include=/usr/share/doc/*/copyright",
            "--dpkgopt=path-exclude=/usr/share/locale/*",
            *([f"--setup-hook=upload {shlex.quote(host_apt)} {HOST_APT}"] if host_apt else []),
            *(f"--customize-hook={hook}" for hook in hooks),
            *(self.suite, target),
            *self.sources(),
        ]

    def sources(self) -> list[str]:
        """The lines of sources.list; none: those of mmdebstrap, which are Debian's own addresses."""
        if self.snapshot:
            return _lines(self.snapshot, self.suite, "[check-valid-until=no] ")
        return _lines(self.mirror, self.suite) if self.mirror else []

    def script(self, target: str = "rootfs.tar") -> str:
        """The same command for a POSIX shell, with the host's own apt settings on the way."""
        command = shlex.join(self.command(target, host_apt="@")).replace("upload @ ", "upload '\"$host_apt\"' ")
        return (
            "host_apt=$(mktemp)\n"
            f"apt-config dump Acquire 2>/dev/null | grep -E '{HOST_APT_KEYS}' >\"$host_apt\" || :\n"
            f"{command}\n"
            'rm -f "$host_apt"\n'
        )


@dataclass(frozen=True)
class Pulled:
    """A public or private image by digest."""

    reference: str  # HOST/NAME@sha256:DIGEST

    @property
    def hash(self) -> str:
        return sha256_bytes(self.reference.encode())


Base = Recipe | Pulled


def of(os_name: str, *, base: str = BOOTSTRAP, mirror: str = "", snapshot: str = "") -> Base:
    """The base of an OS name under the three settings. Raises SpecError with every fault of them."""
    faults = []
    if os_name not in RELEASES:
        faults.append(Fault(f"unknown os {os_name!r}", nearest(os_name, RELEASES)))
    if base == BOOTSTRAP:
        faults += _address_faults(mirror, snapshot)
    else:
        faults += _reference_faults(base)
        given = [name for name, value in (("snapshot", snapshot), ("apt-mirror", mirror)) if value]
        faults += [
            Fault(f"{name} has no effect on a pulled base", f"unset {name}, or set base to bootstrap") for name in given
        ]
    if faults:
        raise SpecError("the base of the images is not usable", faults=faults)
    if base != BOOTSTRAP:
        return Pulled(base)
    release = RELEASES[os_name]
    return Recipe(os_name, release.suite, release.python, mirror=mirror.rstrip("/"), snapshot=snapshot.rstrip("/"))


def _lines(archive: str, suite: str, options: str = "") -> list[str]:
    """Debian's three archives where the address follows Debian's layout; else the one archive that it is."""
    lines = [f"deb {options}{archive} {suite} main"]
    security = re.sub(r"/debian(?=/|$)", "/debian-security", archive)
    if security != archive:
        lines.append(f"deb {options}{archive} {suite}-updates main")
        lines.append(f"deb {options}{security} {suite}-security main")
    return lines


def _address_faults(mirror: str, snapshot: str) -> list[Fault]:
    faults = []
    if mirror and snapshot:
        what = "snapshot and apt-mirror both say where Debian's packages come from"
        faults.append(Fault(what, "give one of them"))
    if snapshot and not _is_address(snapshot):
        fix = "give a time such as 20261101T000000Z, or the URL of an archive"
        faults.append(Fault(f"snapshot is neither a time nor a URL: {snapshot!r}", fix))
    if mirror and not _is_address(mirror):
        faults.append(Fault(f"apt-mirror is not a URL: {mirror!r}", "give one such as https://HOST/debian"))
    for name, value in (("apt-mirror", mirror), ("snapshot", snapshot)):
        if "@" in value:
            what = f"{name} holds a user name or password, which would stand in every image"
            faults.append(
                Fault(what, "put a proxy that logs in into apt's configuration, or use a mirror without login")
            )
    return faults


def _is_address(text: str) -> bool:
    return re.fullmatch(r"(https?|file)://?[^\s\[\]]+", text) is not None


def _reference_faults(reference: str) -> list[Fault]:
    fix = "give `bootstrap`, or REF@sha256:DIGEST; `docker buildx imagetools inspect REF` prints the digest"
    if "@" not in reference:
        return [Fault(f"base has no digest: {reference!r}", fix)]
    name, digest = reference.split("@", 1)
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        return [Fault(f"base's digest is not sha256: and 64 hexadecimal digits: {digest!r}", fix)]
    if not re.fullmatch(r"[a-z0-9.\-]+(:[0-9]+)?(/[a-z0-9._\-]+)*(:[\w.\-]+)?", name):
        return [Fault(f"base's name is not an image reference: {name!r}", fix)]
    return []


def describe(base: Base) -> str:
    """One line for a plan: what the images stand on."""
    if isinstance(base, Pulled):
        return f"pulled {base.reference}"
    source = base.snapshot or base.mirror
    return f"bootstrapped {base.os} ({base.suite})" + (f" from {source}" if source else "")
