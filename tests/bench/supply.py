"""What the supply chain adds to a release: the SBOM of an image, and signing with all that is attested.

python tests/bench/supply.py IMAGE      a reference of the engine: pytorch-training:2.13.0-cpu-py311-debian12-dev

The registry is docker-registry on loopback, the key a file. Signing does not depend on the image's size, attesting does
on its SBOMs'; what is attested are those of IMAGE.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parent))
import figures

from slipway.engine.docker import Engine
from slipway.supply import sbom, signing
from slipway.supply.config import Access, Signing
from tests.support.registries import PasswordRegistry, make

SIGNING_BOUND, SBOM_BOUND = 5.0, 30.0  # seconds
KIND = "application/vnd.oci.image.manifest.v1+json"
PREDICATE = {"buildDefinition": {"buildType": "urn:bench"}, "runDetails": {"builder": {"id": "urn:bench"}}}


def put_image(registry: PasswordRegistry, number: int) -> str:
    """An empty image that differs by its number; returns what is signed."""
    config = json.dumps({"architecture": "amd64", "os": "linux", "number": number}).encode()
    digest = "sha256:" + hashlib.sha256(config).hexdigest()
    place = registry.ask("POST", "/v2/bench/blobs/uploads/")[1]["Location"]
    upload = place[place.index("/v2/") :]
    registry.ask("PUT", f"{upload}&digest={digest}", config, "application/octet-stream")
    part = {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": digest, "size": len(config)}
    manifest = json.dumps({"schemaVersion": 2, "mediaType": KIND, "config": part, "layers": []}).encode()
    status = registry.ask("PUT", f"/v2/bench/manifests/v{number}", manifest, KIND)[0]
    assert status == 201, status
    return f"{registry.host}/bench@sha256:{hashlib.sha256(manifest).hexdigest()}"


def main() -> int:
    image = sys.argv[1]
    engine = Engine.connect(os.environ)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        made: list[sbom.Sbom] = []

        def inventory() -> float:
            started = time.perf_counter()
            made.append(sbom.make(image, folder / f"sbom-{len(made)}", engine))
            return time.perf_counter() - started

        environment = {**os.environ, "COSIGN_PASSWORD": "bench"}
        subprocess.run(["cosign", "generate-key-pair"], cwd=folder, env=environment, check=True, capture_output=True)
        key = Signing(
            kind="key", key=str(folder / "cosign.key"), public_key=str(folder / "cosign.pub"), password_from="P"
        )
        (folder / "provenance.json").write_text(json.dumps(PREDICATE))
        registry = make(folder / "registry", "bench", "bench")
        registry.start()
        access = Access(username="bench", password="bench", insecure=True, environment={"P": "bench"})
        numbers = iter(range(1000))

        def sign() -> float:
            subject = put_image(registry, next(numbers))
            files = (folder / "provenance.json", made[-1].cyclonedx, made[-1].spdx)
            started = time.perf_counter()
            signing.sign(subject, key, access)
            for kind, file in zip(signing.KINDS, files, strict=True):
                signing.attest(subject, file, kind, key, access)
            signing.verify(subject, key, access)
            return time.perf_counter() - started

        try:
            inventory()
            sign()
            values = figures.measure({"sbom": inventory, "sign": sign})
        finally:
            registry.kill()
    found = [
        figures.plain("signed, attested and checked, seconds an image", values["sign"], SIGNING_BOUND),
        figures.plain("SBOM, seconds an image", values["sbom"], SBOM_BOUND),
    ]
    for figure in found:
        print(figure)
    return 0 if all(figure.holds for figure in found) else 1


if __name__ == "__main__":
    sys.exit(main())
