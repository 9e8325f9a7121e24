"""An image from the engine to a registry, each line of the engine's report checked.

docker-py returns normally when a push fails: the failure is one line among others.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from slipway.engine.docker import Engine
from slipway.engine.interrupts import uninterrupted
from slipway.errors import AuthError, EngineError, NotFoundError, RegistryError, SlipwayError, TagConflictError
from slipway.registry import Credentials, is_loopback, login_command

Progress = Callable[[int, int], None]
"""Called with bytes sent and bytes known to be sent in all."""

_DIGEST = re.compile(r"digest: (sha256:[0-9a-f]{64})")
_REFUSED = re.compile(r"\b(401|403)\b|unauthori[sz]ed|denied|forbidden|no basic auth|authentication required", re.I)
_UNKNOWN = re.compile(r"name unknown|repository .* (does not exist|not found)", re.I)
_IMMUTABLE = re.compile(r"immutable", re.I)


@dataclass
class Upload:
    """What the engine said of one upload. `sent`: layers that the registry did not have -> bytes, by short digest."""

    digest: str = ""
    sent: dict[str, int] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=dict)

    def bytes_sent(self, sizes: Mapping[str, int]) -> int:
        """Bytes of new layers, given the manifest's blobs; the engine itself gives small layers no size."""
        exact = {digest.partition(":")[2][:12]: size for digest, size in sizes.items()}
        return sum(exact.get(layer, seen) for layer, seen in self.sent.items())


def upload(
    engine: Engine,
    image: str,
    host: str,
    repository: str,
    tag: str,
    credentials: Credentials | None,
    progress: Progress,
) -> Upload:
    """Push `image` (the engine's ID) to `host/repository:tag`. The engine's own name for that is gone afterwards.

    Credentials go in a header of the engine's API. Raises AuthError, RegistryError, TagConflictError; NotFoundError
    when the engine no longer has the image.
    """
    target = f"{host}/{repository}"
    with _named(engine, image, target, tag):
        lines = engine._api.push(target, tag, stream=True, decode=True, auth_config=_login(credentials))
        with contextlib.closing(lines):
            return read_report(lines, host, repository, progress)


def read_report(lines: Iterable[Mapping[str, Any]], host: str, repository: str, progress: Progress) -> Upload:
    """Follow the engine's report of a push to its end. Raises the error that a line tells of."""
    done = Upload()
    for line in lines:
        if "error" in line or "errorDetail" in line:
            said = str((line.get("errorDetail") or {}).get("message") or line.get("error"))
            raise _failure(said, host, repository)
        layer, status = str(line.get("id", "")), str(line.get("status", ""))
        found = _DIGEST.search(status)
        if found:
            done.digest = found[1]
        elif status in ("Pushing", "Pushed") and layer:
            detail = line.get("progressDetail") or {}
            done.sent[layer] = max(done.sent.get(layer, 0), int(detail.get("current", 0)))
            done.totals[layer] = max(done.totals.get(layer, 0), int(detail.get("total", 0)))
            progress(sum(done.sent.values()), sum(done.totals.values()))
    if not done.digest:
        raise RegistryError(
            f"the engine stopped pushing to {host}/{repository} without a digest",
            fix="push again; sent layers are kept",
        )
    return done


@contextlib.contextmanager
def _named(engine: Engine, image: str, target: str, tag: str) -> Iterator[None]:
    """Give an image the name that a push needs, and take it away again."""
    import requests
    from docker.errors import APIError, DockerException, ImageNotFound

    reference = f"{target}:{tag}"
    try:
        with uninterrupted():
            engine._api.tag(image, target, tag)
        try:
            yield
        finally:
            with uninterrupted(), contextlib.suppress(ImageNotFound):
                engine._api.remove_image(reference)
    except ImageNotFound:
        raise NotFoundError(f"the engine no longer has {image}", fix="build the image again") from None
    except APIError as error:
        raise EngineError(f"the engine could not push to {target}: {error.explanation or error}") from None
    except (DockerException, requests.RequestException) as error:
        raise EngineError(f"the engine stopped answering while it pushed to {target}: {error}") from None


def _login(credentials: Credentials | None) -> dict[str, str] | None:
    if credentials is None:
        return None
    if credentials.identity_token:
        return {"identitytoken": credentials.identity_token}
    return {"username": credentials.username, "password": credentials.password}


def _failure(said: str, host: str, repository: str) -> SlipwayError:
    target = f"{host}/{repository}"
    if _IMMUTABLE.search(said):
        return TagConflictError(f"{target} keeps the tag from moving: {said}")
    if _UNKNOWN.search(said):
        return RegistryError(f"there is no repository {target}: {said}", fix="create it, or check its name and region")
    if _REFUSED.search(said):
        return AuthError(f"{host} refused the push to {repository}: {said}", fix=login_command(host))
    fix = "push again; layers that arrived are kept"
    if is_loopback(host) and "connection refused" in said:
        fix = "is the engine on another machine? Then name a registry that it can reach in release.yml"
    return RegistryError(f"the push to {target} failed: {said}", fix=fix)
