"""Taking a tag away and leaving the image that it names.

Registries differ: the OCI distribution specification 1.1 lets DELETE name a tag; older ones delete by digest only, and
with a manifest every tag of it. There the tag is first made to name a manifest that nothing else does. ECR has its own
call for it.
"""

from __future__ import annotations

import json
import secrets

from slipway.errors import RegistryError
from slipway.files import sha256_bytes
from slipway.registry.client import Registry
from slipway.registry.model import Manifest

_TYPE = "application/vnd.oci.image.manifest.v1+json"
_EMPTY = b"{}"


def remove_tag(registry: Registry, repository: str, tag: str) -> None:
    """Take a tag away, if it is there. Raises RegistryError where the registry deletes nothing."""
    if registry.untag is not None:
        registry.untag(repository, tag)
        if registry.manifest(repository, tag) is None:
            return
    doing = f"take away {repository} {tag}"

    def delete(reference: str) -> int:
        path = f"/v2/{repository}/manifests/{reference}"
        return registry.request("DELETE", path, doing=doing, repository=repository).status

    if delete(tag) in (200, 202, 404):
        return
    alone = _unique_manifest(registry, repository)
    registry.put_manifest(repository, alone.digest, alone)
    if delete(alone.digest) not in (200, 202):  # tried without the tag first: it must not be left naming this
        raise RegistryError(f"{registry.host} does not let tags be deleted, asked to {doing}", fix="delete it by hand")
    registry.put_manifest(repository, tag, alone)
    if delete(alone.digest) not in (200, 202):
        raise RegistryError(f"{registry.host} failed to {doing}", fix="delete it by hand")


def _unique_manifest(registry: Registry, repository: str) -> Manifest:
    digest = f"sha256:{sha256_bytes(_EMPTY)}"
    part = {"mediaType": "application/vnd.oci.empty.v1+json", "digest": digest, "size": len(_EMPTY)}
    body = {
        "schemaVersion": 2,
        "mediaType": _TYPE,
        "config": part,
        "layers": [part],
        "annotations": {"removal": secrets.token_hex(16)},
    }
    if not registry.has_blob(repository, digest):
        doing = f"take an empty blob into {repository}"
        begun = registry.request("POST", f"/v2/{repository}/blobs/uploads/", doing=doing, repository=repository)
        if begun.status != 202:
            raise registry.refusal(begun, doing)
        location = begun.headers.get("Location", "")
        address = f"{location}{'&' if '?' in location else '?'}digest={digest}"
        headers = {"Content-Type": "application/octet-stream"}
        ended = registry.request("PUT", address, doing=doing, repository=repository, headers=headers, body=_EMPTY)
        if not ended.ok:
            raise registry.refusal(ended, doing)
    return Manifest(_TYPE, json.dumps(body).encode())
