"""docker-registry behind a user and a password, read back by code of its own."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.client
import json
import shutil
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

import bcrypt

TYPES = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.oci.image.index.v1+json",
)


@dataclass
class PasswordRegistry:
    """A docker-registry process behind a user and a password."""

    folder: Path
    port: int
    user: str
    password: str
    child: subprocess.Popen[bytes] | None = None

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.child = subprocess.Popen(
                [shutil.which("docker-registry") or "docker-registry", "serve", self.folder / "config.yml"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        while self.child.poll() is None:
            with contextlib.suppress(OSError):
                self.get("/v2/")
                return
        raise AssertionError("docker-registry did not start")

    def add_user(self, user: str, password: str) -> None:
        """Let another user in; the registry reads the file at its next start."""
        hashed = bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()
        with (self.folder / "htpasswd").open("a") as users:
            users.write(f"{user}:{hashed}\n")
        if self.child is not None:
            self.kill()
            self.start()

    def tell(self) -> None:
        """Print the end of its log, which pytest shows with a test that failed."""
        print(f"{self.user}'s registry said:", *self.log.read_text(errors="replace").splitlines()[-40:], sep="\n  ")

    def kill(self) -> None:
        if self.child is not None:
            self.child.kill()
            self.child.wait()
            self.child = None

    def get(self, path: str) -> tuple[int, dict[str, str], bytes]:
        return self.ask("GET", path)

    def ask(
        self, method: str, path: str, body: bytes | None = None, kind: str = ""
    ) -> tuple[int, dict[str, str], bytes]:
        pair = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        headers = {"Authorization": f"Basic {pair}", "Accept": ", ".join(TYPES)}
        if kind:
            headers["Content-Type"] = kind
        connection.request(method, path, body=body, headers=headers)
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        return answer.status, dict(answer.getheaders()), data

    def tags(self, repository: str) -> set[str]:
        status, _, body = self.get(f"/v2/{repository}/tags/list")
        return set(json.loads(body)["tags"] or []) if status == 200 else set()

    def digest(self, repository: str, tag: str) -> str:
        """The digest of the bytes under a tag; empty when there is none."""
        status, _, body = self.get(f"/v2/{repository}/manifests/{tag}")
        return "sha256:" + hashlib.sha256(body).hexdigest() if status == 200 else ""

    def config(self, repository: str, tag: str) -> str:
        return str(json.loads(self.get(f"/v2/{repository}/manifests/{tag}")[2])["config"]["digest"])


def make(folder: Path, user: str, password: str) -> PasswordRegistry:
    folder.mkdir(parents=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    hashed = bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()
    (folder / "htpasswd").write_text(f"{user}:{hashed}\n")
    (folder / "config.yml").write_text(
        json.dumps(
            {
                "version": 0.1,
                "storage": {"filesystem": {"rootdirectory": str(folder / "data")}, "delete": {"enabled": True}},
                "http": {"addr": f"127.0.0.1:{port}"},
                "auth": {"htpasswd": {"realm": "test", "path": str(folder / "htpasswd")}},
            }
        )
    )
    return PasswordRegistry(folder, port, user, password)
