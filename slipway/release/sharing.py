"""Layers that a registry has in another repository, mounted before the engine sends an image.

The engine mounts by itself only what it remembers to have sent to a host, whatever its port and whether it is still
there. A registry's own manifests say better which of its blobs an image needs: their configurations name each layer by
the digest of its content, which the build's record has too.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from slipway.registry import Manifest, Registry
from slipway.registry.blobs import Repository, mount


@dataclass
class Holders:
    """Of one registry, by the digest of a layer's content: which blob that is, and a repository that holds it."""

    registry: Registry
    found: dict[str, tuple[str, str]] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)

    def learn(self, repository: str, digest: str) -> None:
        """Take note of the layers of an image, if the registry has it."""
        if digest in self.known:
            return
        self.known.add(digest)
        manifest = self.registry.manifest(repository, digest)
        if manifest is None or not manifest.is_image:
            return
        contents = configuration(self.registry, repository, manifest)["rootfs"]["diff_ids"]
        for content, layer in zip(contents, manifest.document["layers"], strict=True):
            self.found.setdefault(content, (layer["digest"], repository))

    def mount(self, repository: str, contents: Sequence[str]) -> None:
        """Mount into a repository the layers, by their contents, that another one holds."""
        target = Repository(self.registry, repository)
        for content in contents:
            digest, holder = self.found.get(content, ("", repository))
            if holder != repository and not self.registry.has_blob(repository, digest):
                mount(target, digest, holder)


def configuration(registry: Registry, repository: str, manifest: Manifest) -> dict[str, Any]:
    """An image's configuration, by the registry."""
    part = manifest.document["config"]
    found: dict[str, Any] = json.loads(registry.blob(repository, str(part["digest"]), int(part["size"])))
    return found
