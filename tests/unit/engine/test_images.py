"""The config digest of an image, out of an export whose blobs come in any order."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from typing import Any, cast

import pytest

from slipway.engine import images
from slipway.engine.docker import Engine
from slipway.errors import EngineError

CONFIG = "sha256:" + "c" * 64
CONTAINERD = [["driver-type", "io.containerd.snapshotter.v1"]]


def blob(data: object) -> tuple[str, bytes]:
    content = data if isinstance(data, bytes) else json.dumps(data).encode()
    return "sha256:" + hashlib.sha256(content).hexdigest(), content


class FakeEngine:
    """Exports blobs in the order given, and counts how far the export was read."""

    def __init__(self, id: str, blobs: list[tuple[str, bytes]], status: object = CONTAINERD, code: int = 200) -> None:
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            for digest, content in blobs:
                entry = tarfile.TarInfo(f"blobs/sha256/{digest[7:]}")
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
        archive.seek(0)
        self.raw = archive
        self._id, self._status, self._code = id, status, code
        self._api = self

    def image(self, reference: str) -> dict[str, Any]:
        return {"Id": self._id}

    def info(self) -> dict[str, Any]:
        return {"DriverStatus": self._status}

    def _url(self, path: str, reference: str) -> str:
        return path.format(reference)

    def _get(self, url: str, stream: bool) -> FakeEngine:
        assert stream
        return self

    status_code = property(lambda self: self._code)
    text = "no space"

    def __enter__(self) -> FakeEngine:
        return self

    def __exit__(self, *error: object) -> None:
        pass


def digest_of(engine: FakeEngine) -> str:
    return images.config_digest(cast(Engine, engine), "some:image")


MANIFEST = blob({"config": {"digest": CONFIG}, "layers": []})
ATTESTATION = blob({"config": {"digest": "sha256:" + "a" * 64}, "layers": []})
INDEX = blob(
    {
        "manifests": [
            {"digest": ATTESTATION[0], "platform": {"os": "unknown", "architecture": "unknown"}},
            {"digest": MANIFEST[0], "platform": {"os": "linux", "architecture": "amd64"}},
        ]
    }
)
LAYER = blob(b"\x1f\x8b" + b"x" * (5 << 20))


def test_the_classic_store_names_images_by_their_config() -> None:
    assert digest_of(FakeEngine(CONFIG, [], status=[["Backing Filesystem", "extfs"]])) == CONFIG
    assert digest_of(FakeEngine(CONFIG, [], status=None)) == CONFIG


def test_a_manifest_leads_to_its_config() -> None:
    assert digest_of(FakeEngine(MANIFEST[0], [LAYER, ATTESTATION, MANIFEST])) == CONFIG


@pytest.mark.parametrize("blobs", [[INDEX, ATTESTATION, MANIFEST], [MANIFEST, ATTESTATION, INDEX]])
def test_an_index_leads_to_its_image_whichever_comes_first(blobs: list[tuple[str, bytes]]) -> None:
    assert digest_of(FakeEngine(INDEX[0], blobs)) == CONFIG


def test_the_export_is_read_no_further_than_needed() -> None:
    engine = FakeEngine(MANIFEST[0], [MANIFEST, LAYER])
    digest_of(engine)
    assert engine.raw.tell() < 1 << 20


def test_a_blob_that_is_not_what_its_name_says_is_not_believed() -> None:
    false = (MANIFEST[0], json.dumps({"config": {"digest": "sha256:" + "f" * 64}}).encode())
    with pytest.raises(EngineError, match="without its manifest"):
        digest_of(FakeEngine(MANIFEST[0], [false]))


def test_an_index_of_attestations_alone_is_no_image() -> None:
    index = blob({"manifests": [{"digest": ATTESTATION[0], "platform": {"os": "unknown"}}]})
    with pytest.raises(EngineError, match="names no image"):
        digest_of(FakeEngine(index[0], [index]))


def test_an_engine_that_cannot_export_is_an_error() -> None:
    with pytest.raises(EngineError, match="could not export some:image: no space"):
        digest_of(FakeEngine(MANIFEST[0], [], code=500))
