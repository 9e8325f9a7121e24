"""What is looked at before a build begins, so that it does not stop half way: free space, and a base that is pulled."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from slipway import process
from slipway.base import Pulled
from slipway.engine.docker import Engine
from slipway.errors import AuthError, DiskError, NotFoundError, RegistryError, SlipwayError
from slipway.registry.model import ecr_region, login_command

_REFUSED = re.compile(r"\b(401|403)\b|unauthori[sz]ed|denied|forbidden|authorization failed|no basic auth", re.I)
_UNKNOWN = re.compile(r"not found|manifest unknown|name unknown|\b404\b", re.I)


def free_space(folder: Path, wanted: int, command: str) -> int:
    """The free MB on a folder's disk. Raises DiskError when they are fewer than `wanted`; `command` frees some."""
    free = shutil.disk_usage(folder).free // 10**6
    if free < wanted:
        raise DiskError(f"{free} MB free on the disk of {folder}, {wanted} MB wanted", fix=f"free space, `{command}`")
    return free


def engine_disk(engine: Engine) -> Path | None:
    """Where the engine keeps images, when that is on this machine."""
    root = Path(str(engine.info().get("DockerRootDir") or ""))
    return root if root.is_dir() else None


def pulled_base(base: Pulled) -> None:
    """Make sure that a base given by digest can be had: it is in the engine, or its registry shows it.

    Raises AuthError (not logged in), NotFoundError (no such image) or RegistryError (no answer).
    """
    if process.run(["docker", "image", "inspect", "--format", "{{.Id}}", base.reference], check=False).code == 0:
        return
    shown = process.run(["docker", "buildx", "imagetools", "inspect", base.reference], check=False, timeout=60)
    if shown.code != 0:
        raise refusal(base.reference, (shown.stderr or shown.stdout).strip())


def refusal(reference: str, told: str) -> SlipwayError:
    """What the registry's answer about a base image means, and what to do next."""
    host = registry_host(reference)
    region = ecr_region(host)
    last = told.splitlines()[-1] if told else "no answer"
    if _REFUSED.search(told):
        wrong = f"; the address says region {region}, where the image must be" if region else ""
        return AuthError(
            f"the base image {reference} was refused by {host}: not logged in, or not allowed to read it\n  {last}",
            fix=f"log in with `{login_command(host)}`{wrong}",
        )
    if _UNKNOWN.search(told):
        where = f" in region {region}" if region else ""
        return NotFoundError(
            f"the base image {reference} does not exist at {host}{where}\n  {last}",
            fix="check the name, the digest" + (" and the region" if region else "") + " of the setting base",
        )
    return RegistryError(
        f"{host} did not answer about the base image {reference}\n  {last}",
        fix="check the network, the proxy and the certificates of the Docker engine's machine",
    )


def registry_host(reference: str) -> str:
    """The registry of an image reference; Docker Hub's where it names none, by Docker's own rule."""
    first, slash, _ = reference.partition("/")
    return first if slash and ("." in first or ":" in first or first == "localhost") else "docker.io"
