"""Toolkit wheels for everyone: the same bytes each time, into a folder or an index with a login."""

from __future__ import annotations

import base64
import email.parser
import email.policy
import hashlib
import http.server
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from invoke.exceptions import Exit

from slipway.base import EPOCH
from slipway.commands import supply as command
from slipway.engine import wheels as engine
from slipway.errors import RegistryError, SpecError, TagConflictError
from slipway.supply import wheels


@pytest.fixture
def two(project: Path) -> Path:
    """The small project with a second toolkit."""
    other = project / "toolkits" / "other"
    shutil.copytree(project / "toolkits" / "training", other)
    (other / "small_toolkit.py").rename(other / "other_toolkit.py")
    text = (other / "pyproject.toml").read_text().replace("small-toolkit", "other-toolkit").replace("small_", "other_")
    (other / "pyproject.toml").write_text(text)
    return project


def test_they_are_the_bytes_that_images_hold_and_pip_takes_them_by_hash(two: Path, tmp_path: Path) -> None:
    made = wheels.build(two, tmp_path / "1")
    assert [(wheel.name, wheel.version) for wheel in made] == [("other-toolkit", "1.0"), ("small-toolkit", "1.0")]
    again = wheels.build(two, tmp_path / "2")
    assert [wheel.hash for wheel in made] == [wheel.hash for wheel in again]
    inside = engine.build_toolkit(two / "toolkits/training", tmp_path / "3", epoch=EPOCH)
    assert hashlib.sha256(inside.read_bytes()).hexdigest() == made[1].hash
    asked = tmp_path / "requirements.txt"
    asked.write_text("".join(f"{wheel.requirement}\n" for wheel in made))
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--isolated",
        "--quiet",
        "install",
        "--no-index",
        "--find-links",
        tmp_path / "1",
    ]
    subprocess.run([*pip, "--target", tmp_path / "here", "--require-hashes", "-r", asked], check=True)
    assert (tmp_path / "here/small_toolkit.py").is_file()


def test_a_project_without_toolkits_is_told(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no toolkits"):
        wheels.build(tmp_path, tmp_path / "dist")


class Index(http.server.BaseHTTPRequestHandler):
    """Takes uploads from one user, refuses a file that it has, and lists what it has: the part of an index in use."""

    files: dict[str, bytes]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Authorization") != "Basic " + base64.b64encode(b"someone:s3cret").decode():
            self.answer(403, b"who are you?")
            return
        head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
        parts = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + body)
        for part in parts.iter_parts():
            if name := part.get_filename():
                taken = name in self.files
                self.files.setdefault(name, part.get_payload(decode=True))
                self.answer(409 if taken else 200, b"it is there" if taken else b"")
                return
        self.answer(400, b"no file")

    def do_GET(self) -> None:
        asked = self.path.strip("/").split("/")[-1].replace("-", "_")
        found = [name for name in self.files if name.startswith(asked)]
        links = "".join(
            f'<a href="/files/{name}#sha256={hashlib.sha256(self.files[name]).hexdigest()}">{name}</a>'
            for name in found
        )
        self.answer(200 if found else 404, links.encode())

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    Index.files = {}
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_an_index_gets_them_once(project: Path, tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = wheels.build(project, tmp_path / "dist")
    for name, value in (("USERNAME", "someone"), ("PASSWORD", "wrong")):
        monkeypatch.setenv(f"UV_PUBLISH_{name}", value)
    with pytest.raises(RegistryError, match=r"who are you|403") as caught:
        wheels.publish(made, f"{address}/upload/")
    assert "wrong" not in str(caught.value)
    assert Index.files == {}
    monkeypatch.setenv("UV_PUBLISH_PASSWORD", "s3cret")
    wheels.publish(made, f"{address}/upload/")
    assert {name: hashlib.sha256(data).hexdigest() for name, data in Index.files.items()} == {
        made[0].path.name: made[0].hash
    }
    wheels.publish(made, f"{address}/upload/", known=f"{address}/simple/")
    with pytest.raises(RegistryError):
        wheels.publish(made, f"{address}/upload/")


def test_the_command_writes_down_what_an_index_has_and_changes_no_version(
    project: Path, address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(project)
    monkeypatch.setenv("UV_PUBLISH_USERNAME", "someone")
    monkeypatch.setenv("UV_PUBLISH_PASSWORD", "s3cret")
    words = (f"{address}/upload/", f"{address}/simple/", True)
    command.wheels(*words)
    (told,) = json.loads(capsys.readouterr().out)
    (kept,) = (project / "releases").glob("*.json")
    document = json.loads(kept.read_text())
    assert (document["kind"], document["to"]) == ("wheels", words[0])
    assert document["wheels"] == [{"name": "small-toolkit", "version": "1.0", "hash": told["hash"]}]
    command.wheels(*words)
    assert len(list((project / "releases").glob("*.json"))) == 1
    (project / "toolkits/training/small_toolkit.py").write_text('"""Other."""\n')
    before = dict(Index.files)
    with pytest.raises(Exit) as caught:
        command.wheels(*words)
    assert caught.value.code == TagConflictError.exit_code
    assert Index.files == before
