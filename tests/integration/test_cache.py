"""Build caches in a registry, for the next machine: what is kept there, by the real engine."""

from __future__ import annotations

import base64
import json
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from slipway.engine import bake
from tests.support.registries import PasswordRegistry, make

pytestmark = pytest.mark.integration


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PasswordRegistry]:
    """A registry with a password, which the engine's client is logged in to."""
    registry = make(tmp_path / "registry", "someone", "s3cret")
    registry.start()
    pair = base64.b64encode(b"someone:s3cret").decode()
    (tmp_path / "docker").mkdir()
    (tmp_path / "docker/config.json").write_text(json.dumps({"auths": {registry.host: {"auth": pair}}}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    yield registry
    registry.kill()


def test_the_cache_of_an_image_holds_the_stages_below_it(
    registry: PasswordRegistry, base_image: str, tmp_path: Path
) -> None:
    name = f"slipway-test-{secrets.token_hex(4)}"
    for stage, text in (
        ("low", f"FROM {base_image}\nRUN echo {name} >/low\n"),
        ("top", "FROM low\nRUN echo top >/top\n"),
    ):
        (tmp_path / "folder" / stage).mkdir(parents=True)
        (tmp_path / "folder" / stage / "Dockerfile").write_text(text)
    top = {"context": "top", "contexts": {"low": "target:low"}, "tags": [f"{name}:1"], "output": ["type=docker"]}
    graph = {"group": {"default": {"targets": ["top"]}}, "target": {"low": {"context": "low"}, "top": top}}
    (tmp_path / "folder/docker-bake.json").write_text(json.dumps(graph))
    kept = {"top": f"{registry.host}/cache:top"}
    try:
        for _ in range(2):  # once there is no cache to take from yet, which is no failure
            baked = bake.bake(tmp_path / "folder", {}, lambda step: None, stages={"top": "top"}, cache=kept)
            assert baked.images["top"].config_digest
    finally:
        subprocess.run(["docker", "rmi", "--force", f"{name}:1"], check=False, capture_output=True)
    listed = json.loads(registry.get("/v2/cache/manifests/top")[2])["manifests"]
    layers = [part for part in listed if "layer" in part["mediaType"]]
    assert len([part for part in layers if part["size"] < 1000]) == 2, "those of both stages, beside the base's"
