"""Copies between real registries while a proxy refuses, cuts, spoils and delays what is sent."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from slipway.errors import AuthError, RegistryError, SlipwayError, TagConflictError
from slipway.registry import Credentials, Manifest, Registry, blobs
from slipway.registry.blobs import Repository, Transfer, copy
from slipway.registry.removal import remove_tag
from slipway.registry.transport import ATTEMPTS, LONGEST_WAIT
from slipway.release.sharing import Holders
from tests.support.proxy import Harm, Proxy, Request, proxying
from tests.support.registries import PasswordRegistry, make

pytestmark = pytest.mark.integration

TYPE = "application/vnd.oci.image.manifest.v1+json"
CHUNK = 1 << 20
FRESH = Credentials("fresh", "token")


@dataclass
class Two:
    """A source that holds one image, and an empty target behind a proxy."""

    source: PasswordRegistry
    target: PasswordRegistry
    proxy: Proxy
    from_proxy: Proxy
    waits: list[float] = field(default_factory=list)

    def client(self, renew: Callable[[], Credentials | None] | None = None) -> Registry:
        given = Credentials(self.target.user, self.target.password)
        return Registry(self.proxy.host, given, renew=renew, sleep=self.waits.append)

    def image(self, *sizes: int) -> Manifest:
        """Put an image of random layers into the source."""
        source = Registry(self.source.host, Credentials(self.source.user, self.source.password))
        layers = [os.urandom(size) for size in sizes]
        contents = ["sha256:" + hashlib.sha256(layer).hexdigest() for layer in layers]  # as if they were not compressed
        parts = [json.dumps({"config": {}, "rootfs": {"diff_ids": contents}}).encode(), *layers]
        listed = []
        for data in parts:
            digest = "sha256:" + hashlib.sha256(data).hexdigest()
            begun = source.request("POST", "/v2/a/blobs/uploads/", doing="test", repository="a")
            address = f"{begun.headers['Location']}&digest={digest}"
            assert source.request("PUT", address, doing="test", repository="a", body=data).status == 201
            listed.append({"mediaType": "application/octet-stream", "digest": digest, "size": len(data)})
        body = {"schemaVersion": 2, "mediaType": TYPE, "config": listed[0], "layers": listed[1:]}
        manifest = Manifest(TYPE, json.dumps(body).encode())
        source.put_manifest("a", "v1", manifest)
        return manifest

    def copy(self, manifest: Manifest, to: str = "b", *, client: Registry | None = None, **more: object) -> Transfer:
        source = Registry(
            self.from_proxy.host, Credentials(self.source.user, self.source.password), sleep=self.waits.append
        )
        target = Repository(client or self.client(), to)
        return copy(Repository(source, "a"), target, manifest, "v1", **more)  # type: ignore[arg-type]

    def arrived(self, manifest: Manifest, at: str = "b") -> bool:
        """Whether the target has every byte of an image, by the registry's own files."""
        blobs = self.target.folder / "data/docker/registry/v2/blobs/sha256"
        for digest in manifest.blobs:
            path = blobs / digest[7:9] / digest[7:] / "data"
            if not path.is_file() or "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest() != digest:
                return False
        return self.target.digest(at, "v1") == manifest.digest


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Two]:
    monkeypatch.setattr(blobs, "CHUNK", CHUNK)
    with ExitStack() as stack:
        registries = [make(tmp_path / name, name, f"s3cret-{name}") for name in ("source", "target")]
        registries[1].add_user(FRESH.username, FRESH.password)
        for registry in registries:
            registry.start()
            stack.callback(registry.kill)
            stack.callback(registry.tell)
        source, target = registries
        yield Two(source, target, *(stack.enter_context(proxying(one.port)) for one in (target, source)))


def nth(number: int, method: str, harm: Harm) -> Callable[[Request], Harm | None]:
    """Do harm to one request of a method, counted from 1."""
    seen = [0]

    def judge(request: Request) -> Harm | None:
        seen[0] += request.method == method
        return harm if request.method == method and seen[0] == number else None

    return judge


def always(method: str, harm: Harm) -> Callable[[Request], Harm | None]:
    return lambda request: harm if request.method == method else None


def test_a_copy_and_a_second_one_that_sends_nothing(two: Two) -> None:
    manifest = two.image(CHUNK * 2 + 5, 100)
    done = two.copy(manifest)
    assert two.arrived(manifest) and done.sent == sum(manifest.blobs.values()) == two.proxy.blob_bytes
    again = two.copy(manifest)
    assert (again.sent, again.present) == (0, done.sent)


def test_what_a_neighbour_has_is_mounted(two: Two) -> None:
    manifest = two.image(CHUNK, 100)
    two.copy(manifest)
    sent = two.proxy.blob_bytes
    done = two.copy(manifest, "c", neighbours=["nowhere", "b"])
    assert (done.sent, done.mounted) == (0, sum(manifest.blobs.values()))
    assert two.proxy.blob_bytes == sent and two.arrived(manifest, "c")


@pytest.mark.parametrize(("number", "cut"), [(1, 0), (2, 1000), (3, 0), (3, CHUNK - 1), (4, 2)])
def test_a_cut_upload_is_taken_up_or_begun_anew(two: Two, number: int, cut: int) -> None:
    manifest = two.image(CHUNK * 2 + 5)
    two.proxy.harm = nth(number, "PATCH", Harm(cut=cut))
    two.copy(manifest)
    assert two.arrived(manifest)
    assert 1 <= len(two.waits) < ATTEMPTS


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
@pytest.mark.parametrize("method", ["HEAD", "POST", "PATCH", "PUT"])
def test_a_failure_that_passes(two: Two, status: int, method: str) -> None:
    manifest = two.image(CHUNK + 5)
    two.proxy.harm = nth(2, method, Harm(status=status, headers={"Retry-After": "7"}))
    two.copy(manifest)
    assert two.arrived(manifest)
    assert two.waits == [7.0]


@pytest.mark.parametrize("method", ["HEAD", "PATCH", "PUT"])
def test_a_failure_that_lasts_ends_within_bounds(two: Two, method: str) -> None:
    manifest = two.image(100)
    two.proxy.harm = always(method, Harm(status=503))
    with pytest.raises(RegistryError, match="503"):
        two.copy(manifest)
    assert len(two.waits) == ATTEMPTS - 1
    assert all(0 < wait <= LONGEST_WAIT for wait in two.waits)
    assert len(set(two.waits)) == len(two.waits), "jitter"
    assert two.target.digest("b", "v1") == ""


@pytest.mark.parametrize("method", ["HEAD", "POST", "PATCH", "PUT"])
def test_credentials_that_end_on_the_way_are_renewed(two: Two, method: str) -> None:
    manifest = two.image(CHUNK * 2 + 5)
    ended = [False]
    old = Credentials(two.target.user, two.target.password).basic

    def harm(request: Request) -> Harm | None:
        ended[0] = ended[0] or (request.method == method and "Authorization" in request.headers)
        if ended[0] and request.headers.get("Authorization") == old:
            challenge = {"WWW-Authenticate": 'Basic realm="test"'}
            return Harm(status=401, code="UNAUTHORIZED", message="token expired", headers=challenge)
        return None

    two.proxy.harm = harm
    two.copy(manifest, client=two.client(renew=lambda: FRESH))
    assert two.arrived(manifest)
    two.proxy.harm = lambda request: Harm(
        status=401, code="UNAUTHORIZED", headers={"WWW-Authenticate": 'Basic realm="test"'}
    )
    with pytest.raises(AuthError) as caught:
        two.copy(manifest, "c", client=two.client(renew=lambda: FRESH))
    assert FRESH.password not in str(caught.value) and two.target.password not in str(caught.value)


@pytest.mark.parametrize(
    ("method", "harm", "error", "told"),
    [
        ("POST", Harm(403, "DENIED", "no push for you"), AuthError, "does not allow"),
        ("POST", Harm(404, "NAME_UNKNOWN", "repository does not exist"), RegistryError, "has no repository"),
        ("PATCH", Harm(403, "DENIED", "project quota exceeded"), RegistryError, "has no room"),
        ("PUT", Harm(413, "DENIED", "too large"), RegistryError, "has no room"),
    ],
    ids=["forbidden", "no-repository", "quota", "too-large"],
)
def test_a_refusal_is_told_and_not_repeated(
    two: Two, method: str, harm: Harm, error: type[SlipwayError], told: str
) -> None:
    manifest = two.image(100)
    two.proxy.harm = always(method, harm)
    with pytest.raises(error, match=told):
        two.copy(manifest)
    assert two.waits == []
    assert two.target.digest("b", "v1") == ""


def test_a_tag_that_the_registry_keeps(two: Two) -> None:
    manifest = two.image(100)
    two.proxy.harm = lambda request: (
        Harm(400, "TAG_INVALID", "The image tag 'v1' already exists and is immutable.") if request.names_a_tag else None
    )
    with pytest.raises(TagConflictError):
        two.copy(manifest)


@pytest.mark.parametrize("size", [100, CHUNK * 2], ids=["small", "in parts"])
def test_bytes_that_are_spoiled_on_the_way_never_arrive(two: Two, size: int) -> None:
    manifest = two.image(size)
    (layer,) = (digest for digest, length in manifest.blobs.items() if length == size)
    two.from_proxy.harm = lambda request: Harm(spoil=True) if layer in request.path else None
    with pytest.raises(RegistryError, match=r"other bytes|did not match|invalid"):
        two.copy(manifest)
    assert two.target.digest("b", "v1") == "" and layer not in str(list(two.target.folder.rglob("data")))


def test_a_manifest_that_is_spoiled_when_read_back(two: Two) -> None:
    manifest = two.image(100)
    two.proxy.harm = lambda request: Harm(spoil=True) if request.method == "GET" else None
    with pytest.raises(RegistryError, match="gives bytes with the digest"):
        two.copy(manifest)


def test_a_tag_is_taken_away_and_nothing_else(two: Two) -> None:
    manifest = two.image(100)
    two.copy(manifest)
    client = two.client()
    client.put_manifest("b", "alias", manifest)
    remove_tag(client, "b", "alias")
    assert two.target.tags("b") == {"v1"} and two.arrived(manifest)
    remove_tag(client, "b", "never-there")
    assert two.target.tags("b") == {"v1"}


def test_a_registry_that_deletes_nothing_keeps_the_tag_as_it_was(two: Two) -> None:
    manifest = two.image(100)
    two.copy(manifest)
    two.proxy.harm = always("DELETE", Harm(405, "UNSUPPORTED"))
    with pytest.raises(RegistryError, match="does not let tags be deleted"):
        remove_tag(two.client(), "b", "v1")
    assert two.arrived(manifest)


def test_layers_of_a_neighbour_are_mounted_before_an_image_is_sent(two: Two) -> None:
    manifest = two.image(CHUNK, 100)
    two.copy(manifest)
    sent = two.proxy.blob_bytes
    holders = Holders(two.client())
    holders.learn("b", manifest.digest)
    holders.learn("nowhere", "sha256:" + "0" * 64)
    layers = list(manifest.blobs)[1:]
    holders.mount("c", [*layers, "sha256:" + "1" * 64])
    assert all(two.client().has_blob("c", digest) for digest in layers)
    assert two.proxy.blob_bytes == sent


def test_a_mount_that_the_registry_does_not_make_leaves_no_upload(two: Two) -> None:
    assert not blobs.mount(Repository(two.client(), "b"), "sha256:" + "0" * 64, "nowhere")
    assert len(two.proxy.answered("DELETE", "/blobs/uploads/")) == 1
    assert not list((two.target.folder / "data").rglob("_uploads/*/data"))
