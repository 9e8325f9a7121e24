"""What the engine knows of an image beyond its description: the config digest, and how its layers came to be."""

from __future__ import annotations

import contextlib
import hashlib
import json
import tarfile
from collections.abc import Iterator
from typing import IO, Any

from slipway.engine.docker import Engine
from slipway.errors import EngineError

_LARGEST_DOCUMENT = 4 << 20


def config_digest(engine: Engine, reference: str) -> str:
    """The config digest of an image of the engine: `sha256:…`.

    The classic image store names images by it. The containerd store names them by their manifest or index, whose
    content the engine's API only gives away inside an exported image; the export is read until it has come by.
    Raises NotFoundError, EngineError.
    """
    found = str(engine.image(reference)["Id"])
    if not _names_manifests(engine):
        return found
    wanted = found
    documents: dict[str, bytes] = {}
    # Blobs come in the order of their digests: a manifest may come by before the index that names it.
    with _exported(engine, reference) as members:
        for name, content in members:
            documents[name] = content
            wanted, config = _follow(wanted, documents)
            if config:
                return config
    raise EngineError(f"the engine exported {reference} without its manifest {wanted}", fix="pull or build it again")


def history(engine: Engine, reference: str) -> list[str]:
    """The commands that made an image's layers, as everybody who has the image can read them."""
    return [str(step.get("CreatedBy", "")) for step in engine._api.history(engine.image(reference)["Id"])]


def _follow(wanted: str, documents: dict[str, bytes]) -> tuple[str, str]:
    """From index to manifest to config digest, as far as the documents seen so far lead."""
    while wanted in documents:
        document = json.loads(documents[wanted])
        if "config" in document:
            return wanted, str(document["config"]["digest"])
        wanted = _image_of(document)
    return wanted, ""


def _image_of(index: dict[str, Any]) -> str:
    """The digest of an index's image; attestations have a platform of their own, `unknown`."""
    for part in index.get("manifests", []):
        if part.get("platform", {}).get("os") != "unknown":
            return str(part["digest"])
    raise EngineError("an image index names no image", fix="pull or build the image again")


@contextlib.contextmanager
def _exported(engine: Engine, reference: str) -> Iterator[Iterator[tuple[str, bytes]]]:
    """The JSON documents among the blobs of an exported image, as (digest, content), checked."""
    url = engine._api._url("/images/{0}/get", reference)
    with engine._api._get(url, stream=True) as response:
        if response.status_code != 200:
            raise EngineError(f"the engine could not export {reference}: {response.text.strip()}", fix="see its log")
        yield _documents(response.raw)


def _documents(stream: IO[bytes]) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            if not member.name.startswith("blobs/sha256/") or not member.isreg() or member.size > _LARGEST_DOCUMENT:
                continue
            content = archive.extractfile(member)
            assert content is not None
            data = content.read()
            digest = member.name.rpartition("/")[2]
            if data[:1] == b"{" and hashlib.sha256(data).hexdigest() == digest:
                yield f"sha256:{digest}", data


def _names_manifests(engine: Engine) -> bool:
    """Whether the engine keeps images in containerd's store."""
    return any(
        "io.containerd.snapshotter" in str(value) for pair in engine.info().get("DriverStatus") or [] for value in pair
    )
