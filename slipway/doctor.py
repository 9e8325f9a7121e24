"""Whether this machine can build: one finding a check, each with what to do next."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from slipway import base, cuda, lock, preflight, process
from slipway.engine import rootfs
from slipway.engine.docker import Engine
from slipway.errors import EngineError, ProgramError, SlipwayError
from slipway.settings import Settings
from slipway.supply import programs, signing, syft

BUILDX = (0, 13)
NVIDIA = Path("/proc/driver/nvidia/version")
STATE_MB = 1000  # a root filesystem, its tar, logs

OK, WARN, FAIL, BLOCKED = "ok", "warn", "fail", "blocked"


@dataclass(frozen=True)
class Finding:
    """What one check found. `code` is the exit code of its kind of failure; 0 unless it failed."""

    check: str
    status: str
    told: str
    fix: str = ""
    code: int = 0


class Doubt(Exception):
    """Something that works, though less well than it should."""

    def __init__(self, told: str, *, fix: str) -> None:
        super().__init__(told)
        self.told = told
        self.fix = fix


def examine(settings: Settings) -> list[Finding]:
    """Every check, in the order in which a build needs them."""
    findings = []
    engine: Engine | None = None
    try:
        engine = Engine.connect(settings.environment)
        findings.append(_finding("engine", lambda: _version(engine)))
    except EngineError as error:
        findings.append(_failed("engine", error))
    for name, check in (("store", _store), ("engine-disk", _engine_disk)):
        if engine is None:
            findings.append(Finding(name, BLOCKED, "no engine to look at"))
        else:
            findings.append(_finding(name, lambda check=check: check(engine, settings)))  # type: ignore[misc]
    findings.append(_finding("buildx", _buildx))
    findings.append(_finding("state-disk", lambda: _state_disk(settings)))
    findings.append(_finding("base", lambda: _base(settings)))
    findings.append(_finding("python-packages", lambda: _python_packages(settings)))
    findings.append(_finding("gpu-driver", _gpu_driver))
    findings.append(_finding("cosign", lambda: _works(signing.cosign)))
    findings.append(_finding("syft", lambda: _works(syft.path)))
    findings.append(_finding("scanner", _scanner))
    return findings


def exit_code(findings: list[Finding]) -> int:
    """That of the first check that failed; 0 when none did."""
    return next((finding.code for finding in findings if finding.status == FAIL), 0)


def _finding(name: str, check: Callable[[], str]) -> Finding:
    try:
        return Finding(name, OK, check())
    except Doubt as doubt:
        return Finding(name, WARN, doubt.told, doubt.fix)
    except SlipwayError as error:
        return _failed(name, error)


def _failed(name: str, error: SlipwayError) -> Finding:
    told = "\n".join([error.message, *(str(fault) for fault in error.faults)])
    return Finding(name, FAIL, told, error.fix, error.exit_code)


def _version(engine: Engine) -> str:
    return f"Docker {engine.info().get('ServerVersion', 'of unknown version')}"


def _store(engine: Engine, settings: Settings) -> str:
    status = engine.info().get("DriverStatus") or []
    if any("io.containerd.snapshotter" in str(value) for pair in status for value in pair):
        return "containerd image store"
    raise Doubt(
        "the containerd image store is off: layers are compressed at each push, so a digest is known only afterwards",
        fix='set {"features": {"containerd-snapshotter": true}} in the engine\'s daemon.json and start it again',
    )


def _engine_disk(engine: Engine, settings: Settings) -> str:
    root = preflight.engine_disk(engine)
    if root is None:
        raise Doubt("the engine's disk cannot be seen from here", fix="look at its free space where the engine runs")
    return _free(root, settings.number("min-free-mb"), "invoke clean --cache")


def _state_disk(settings: Settings) -> str:
    folder = settings.state
    while not folder.is_dir():
        folder = folder.parent
    return _free(folder, STATE_MB, "invoke clean --all")


def _free(folder: Path, wanted: int, command: str) -> str:
    return f"{preflight.free_space(folder, wanted, command)} MB free on the disk of {folder}"


def _buildx() -> str:
    fix = "install docker-buildx 0.13 or newer (Debian, Ubuntu: `./run` does so)"
    try:
        told = process.run(["docker", "buildx", "version"], fix=fix).stdout
    except ProgramError as error:
        raise EngineError(f"docker has no buildx: {error.message.splitlines()[0]}", fix=fix) from None
    match = re.search(r"\bv?(\d+)\.(\d+)(\.\d+)?", told)
    if match is None:
        raise Doubt(f"buildx does not say which version it is: {told.strip()!r}", fix=fix)
    version = match.group(0).removeprefix("v")
    if (int(match.group(1)), int(match.group(2))) < BUILDX:
        raise EngineError(f"buildx {version} is older than 0.13", fix=fix)
    return f"buildx {version}"


def _base(settings: Settings) -> str:
    """Whether the base can be had as it is configured: Debian's archives answer, or the pulled image is there."""
    settled = base.of(
        next(iter(base.RELEASES)),
        base=settings.text("base"),
        mirror=settings.text("apt-mirror"),
        snapshot=settings.snapshot(),
    )
    if isinstance(settled, base.Pulled):
        preflight.pulled_base(settled)
        return f"{settled.reference} can be pulled"
    if process.find("mmdebstrap") is None:
        raise ProgramError(
            "mmdebstrap is not installed", fix="install it, or set base to an image by digest: REF@sha256:DIGEST"
        )
    with tempfile.TemporaryDirectory() as folder:
        try:
            rootfs.try_out(settled, Path(folder))
        except ProgramError as error:
            raise ProgramError(
                f"Debian's packages cannot be had:\n{_errors(error.message)}",
                fix="check the network, apt's proxy and certificates, and the settings apt-mirror and snapshot",
            ) from None
    return f"Debian's packages for {settled.os} can be had"


def _gpu_driver() -> str:
    """Which CUDA versions run here as they are; a machine without a GPU builds images for it all the same."""
    if not NVIDIA.is_file():
        return "no NVIDIA driver: images for GPUs are built and checked here, and do not run"
    driver = cuda.driver_of(NVIDIA.read_text(encoding="utf-8", errors="replace"))
    if not driver:
        raise Doubt(f"{NVIDIA} does not say the driver's version", fix="see what `nvidia-smi` says")
    lacking = {major: oldest for major, oldest in cuda.MINIMUM_DRIVERS.items() if not cuda.runs_under(driver, major)}
    if lacking:
        wants = "; ".join(f"CUDA {major} wants {oldest}" for major, oldest in lacking.items())
        raise Doubt(
            f"the NVIDIA driver {driver} is too old for some images: {wants}",
            fix="install a newer one; for data-center GPUs, derive an image with NVIDIA's cuda-compat package",
        )
    return f"NVIDIA driver {driver}: images of every CUDA version run here"


def _works(path: Callable[[], str]) -> str:
    """Where a program of the supply chain is. Building goes without; releasing with signatures and SBOMs does not."""
    try:
        found = path()
        process.run([found, "version"], timeout=60)
    except ProgramError as error:
        raise Doubt(error.message, fix=error.fix) from None
    return found


def _scanner() -> str:
    """Which programs there are to look for vulnerabilities; ECR looks without any."""
    found = [name for name in ("trivy", "grype", "pip-audit") if programs.find(name)]
    if not found:
        raise Doubt(
            "no trivy, grype or pip-audit: vulnerabilities are seen where ECR scans, or in a file of OSV advisories",
            fix="install one, and name it under `scan:` in release.yml",
        )
    return ", ".join(found)


def _errors(text: str) -> str:
    """The lines in which apt and mmdebstrap name errors; all of them when none does."""
    named = [line.strip() for line in text.splitlines() if line.strip().startswith("E: ")]
    return "\n".join(named[:3]) or text


def _python_packages(settings: Settings) -> str:
    """Whether uv finds a package the way the host's pip is told to look."""
    pip = settings.pip()
    missing = [path for path in pip.find_links if path.startswith("/") and not Path(path).is_dir()]
    argv = [lock.uv(), "pip", "compile", "--quiet", "--no-deps", "--no-cache", "-"]
    try:
        process.run(argv, stdin="pip\n", env=lock.index_environment(pip, ""), timeout=60)
    except ProgramError as error:
        raise ProgramError(
            f"Python packages cannot be had: {error.message}",
            fix="check the network, the proxy, and pip's settings index-url, extra-index-url, find-links and cert",
        ) from None
    if missing:
        raise Doubt(f"pip's find-links name folders that are not there: {', '.join(missing)}", fix="correct find-links")
    return f"Python packages can be had from {pip.index_url or 'the default index'}"
