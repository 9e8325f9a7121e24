"""A pulled base before a build, asked by the real docker: there, gone, refused, out of reach."""

from __future__ import annotations

import io
import json
import secrets
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from slipway import local_registry, preflight, process
from slipway.base import Pulled
from slipway.errors import AuthError, NotFoundError, RegistryError

pytestmark = pytest.mark.integration

ABSENT = "sha256:" + "0" * 64


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    found, _ = local_registry.ensure(tmp_path / "state")
    yield found.host
    local_registry.stop(tmp_path / "state")


@pytest.fixture
def pushed(registry: str, tmp_path: Path) -> str:
    """A small image in the registry, and in it only."""
    layer = tmp_path / "layer.tar"
    with tarfile.open(layer, "w") as tar:
        content = secrets.token_bytes(8)
        member = tarfile.TarInfo("file")
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    name = f"{registry}/slipway-test-{secrets.token_hex(4)}:1"
    process.run(["docker", "import", layer, name])
    try:
        process.run(["docker", "push", "--quiet", name])
    finally:
        process.run(["docker", "image", "rm", name])
    told = process.run(["docker", "buildx", "imagetools", "inspect", "--format", "{{json .Manifest}}", name])
    return f"{name}@{json.loads(told.stdout)['digest']}"


@pytest.fixture
def refusing() -> Iterator[str]:
    """A registry that wants a login."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="test"')
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_HEAD = do_GET

        def log_message(self, *arguments: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_an_image_of_a_registry_is_found(pushed: str) -> None:
    preflight.pulled_base(Pulled(pushed))


def test_an_image_that_does_not_exist_is_told_apart(registry: str) -> None:
    with pytest.raises(NotFoundError, match="does not exist"):
        preflight.pulled_base(Pulled(f"{registry}/nothing@{ABSENT}"))


def test_a_registry_that_wants_a_login_is_told_apart(refusing: str) -> None:
    with pytest.raises(AuthError, match="not logged in") as caught:
        preflight.pulled_base(Pulled(f"{refusing}/team/python@{ABSENT}"))
    assert f"docker login {refusing}" in caught.value.fix


def test_a_registry_that_is_down_is_told_apart() -> None:
    with pytest.raises(RegistryError, match="did not answer"):
        preflight.pulled_base(Pulled(f"127.0.0.1:1/team/python@{ABSENT}"))


def test_an_image_that_the_engine_has_needs_no_registry(registry: str, pushed: str, tmp_path: Path) -> None:
    process.run(["docker", "pull", "--quiet", pushed])
    try:
        local_registry.stop(tmp_path / "state")
        preflight.pulled_base(Pulled(pushed))
    finally:
        process.run(["docker", "image", "rm", pushed])
