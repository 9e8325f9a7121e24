"""An image from one registry to another, byte for byte: what is there is left, what a neighbour has is mounted.

Follows the OCI distribution specification 1.1, "Pushing a blob in chunks" and "Mounting a blob from another".
A cut upload goes on where the registry says that it stopped, or starts anew where it does not say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import urljoin

from slipway.errors import RegistryError
from slipway.files import sha256_bytes
from slipway.registry.client import Registry
from slipway.registry.model import Manifest
from slipway.registry.transport import ATTEMPTS, PASSING, Answer

CHUNK = 8 << 20
"""Bytes of one request. ECR wants every part but the last to have 5 MiB."""

# Beside those that pass by themselves: the upload is gone or at another place, or its bytes were changed on the way.
_ANEW = PASSING | {400, 404, 408, 416}


@dataclass(frozen=True)
class Repository:
    """A repository of a registry."""

    registry: Registry
    name: str

    def __str__(self) -> str:
        return f"{self.registry.host}/{self.name}"


@dataclass
class Transfer:
    """Bytes of one copy: uploaded, mounted from a neighbour, and found there."""

    sent: int = 0
    mounted: int = 0
    present: int = 0
    blobs: set[str] = field(default_factory=set)


def copy(
    source: Repository, target: Repository, manifest: Manifest, tag: str = "", *, neighbours: Iterable[str] = ()
) -> Transfer:
    """Copy an image and store its manifest under its digest, or under `tag`; read it back.

    `neighbours`: repositories of the target's registry that may hold some of its blobs. Raises RegistryError, also when
    either side gives other bytes than the digest promises, AuthError, TagConflictError.
    """
    done = Transfer()
    others = [name for name in dict.fromkeys(neighbours) if name != target.name]
    for digest, size in manifest.blobs.items():
        _copy_blob(source, target, digest, size, others, done)
    reference = tag or manifest.digest
    present = target.registry.manifest(target.name, reference)
    if present is None or present.digest != manifest.digest:
        target.registry.put_manifest(target.name, reference, manifest)
        present = target.registry.manifest(target.name, reference)
    if present is None or present.digest != manifest.digest:
        raise RegistryError(f"{target} does not give back {manifest.digest}, just stored", fix="try again")
    return done


def mount(target: Repository, digest: str, holder: str) -> bool:
    """Mount a blob from another repository of the same registry; whether the registry did."""
    answer = _begin(target, digest, holder)
    if answer.status == 201:
        return True
    # It began an upload instead, which nobody will go on with.
    location = answer.headers.get("Location", "")
    target.registry.request("DELETE", urljoin(answer.url, location), doing="end an upload", repository=target.name)
    return False


def _copy_blob(
    source: Repository, target: Repository, digest: str, size: int, neighbours: list[str], done: Transfer
) -> None:
    if digest in done.blobs:
        return
    done.blobs.add(digest)
    if target.registry.has_blob(target.name, digest):
        done.present += size
        return
    holder = next((name for name in neighbours if target.registry.has_blob(name, digest)), "")
    begun = _begin(target, digest, holder)
    if begun.status == 201:
        done.mounted += size
        return
    _Upload(source, target, digest, size).run(begun)
    done.sent += size


def _begin(target: Repository, digest: str, holder: str = "") -> Answer:
    """Ask for a blob's mount from a repository that holds it, or for the beginning of its upload."""
    query = f"?mount={digest}&from={holder}" if holder else ""
    doing = f"take {digest} into {target.name}"
    answer = target.registry.request(
        "POST", f"/v2/{target.name}/blobs/uploads/{query}", doing=doing, repository=target.name
    )
    if answer.status in (201, 202):
        return answer
    raise target.registry.refusal(answer, doing)


class _Interrupted(Exception):
    """A request of an upload failed in a way that may pass. `answer` is None when there was none."""

    def __init__(self, answer: Answer | None, error: Exception) -> None:
        super().__init__(str(error))
        self.answer = answer
        self.error = error


@dataclass
class _Upload:
    """The upload of one blob, over as many sessions as it takes."""

    source: Repository
    target: Repository
    digest: str
    size: int
    location: str = ""
    offset: int = 0

    @property
    def doing(self) -> str:
        return f"take {self.digest} into {self.target.name}"

    def run(self, begun: Answer) -> None:
        """Send every byte and close the upload. Raises what the last of its attempts met."""
        self._at(begun, 0)
        for attempt in range(1, ATTEMPTS + 1):
            failed = self._send()
            if failed is None:
                return
            if attempt == ATTEMPTS:
                raise failed.error
            self.target.registry.wait(attempt, failed.answer)
            self._resume()

    def _send(self) -> _Interrupted | None:
        """Send what is left; what interrupted it, if anything did."""
        try:
            while self.offset < self.size:
                self._send_chunk()
            self._close()
        except _Interrupted as interrupted:
            return interrupted
        return None

    def _send_chunk(self) -> None:
        length = min(CHUNK, self.size - self.offset)
        whole = length == self.size
        data = self.source.registry.part(self.source.name, self.digest, self.offset, length, whole=whole)
        if whole and f"sha256:{sha256_bytes(data)}" != self.digest:
            raise RegistryError(f"{self.source} gives other bytes for {self.digest}")
        span = f"{self.offset}-{self.offset + length - 1}"
        headers = {"Content-Type": "application/octet-stream", "Content-Range": span}
        self._at(self._request("PATCH", self.location, headers, data), self.offset + length)

    def _close(self) -> None:
        joint = "&" if "?" in self.location else "?"
        self._request("PUT", f"{self.location}{joint}digest={self.digest}", {"Content-Length": "0"}, b"")

    def _request(self, method: str, address: str, headers: dict[str, str], body: bytes) -> Answer:
        registry = self.target.registry
        try:
            answer = registry.request(
                method,
                address,
                doing=self.doing,
                repository=self.target.name,
                headers=headers,
                body=body,
                attempts=1,  # what arrived of a part that was cut is unknown
            )
        except RegistryError as error:
            raise _Interrupted(None, error) from None
        if answer.ok:
            return answer
        if answer.status in _ANEW:
            raise _Interrupted(answer, registry.refusal(answer, self.doing))
        raise registry.refusal(answer, self.doing)

    def _resume(self) -> None:
        """Go on where the registry says that the upload is; from the start where it does not say."""
        registry = self.target.registry
        answer = registry.request("GET", self.location, doing=self.doing, repository=self.target.name)
        span = re.fullmatch(r"(?:bytes=)?0-(\d+)", answer.headers.get("Range", ""))
        # 0-0 is what registries tell of an upload without a byte.
        if answer.status == 204 and span and 0 < int(span[1]) < self.size:
            self._at(answer, int(span[1]) + 1)
            return
        self._at(_begin(self.target, self.digest), 0)

    def _at(self, answer: Answer, offset: int) -> None:
        self.location = urljoin(answer.url, answer.headers.get("Location") or self.location)
        self.offset = offset
