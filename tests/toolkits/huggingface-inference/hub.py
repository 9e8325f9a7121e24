"""A small model hub over HTTP, as far as huggingface_hub asks it: repositories, revisions, tokens, and faults.

hub = Hub({"org/name": Repository({"main": {"config.json": b"{}"}})})
with hub.serving() as address: ...   # HF_ENDPOINT=address
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit


@dataclass
class Repository:
    """Files by path, of each revision (a branch or tag)."""

    revisions: Mapping[str, Mapping[str, bytes]]
    token: str | None = None
    """Who does not send it is told that there is no such repository."""
    gated: bool = False
    task: str | None = None

    @classmethod
    def of(cls, folder: Path, **more: str | bool | None) -> Repository:
        files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        return cls({"main": files}, **more)  # type: ignore[arg-type]

    def commit(self, revision: str) -> str | None:
        """The commit that a branch, tag or commit names."""
        for name in self.revisions:
            if revision in (name, _commit(name, self.revisions[name])):
                return _commit(name, self.revisions[name])
        return None

    def files(self, commit: str) -> Mapping[str, bytes]:
        return next(files for name, files in self.revisions.items() if _commit(name, files) == commit)


def _commit(name: str, files: Mapping[str, bytes]) -> str:
    return hashlib.sha1(repr((name, sorted(files.items()))).encode()).hexdigest()


@dataclass
class Hub:
    """cuts: path -> how many of its downloads end half way. busy: how many requests are answered with 503 first.
    missing: paths that are listed but not there."""

    repositories: dict[str, Repository]
    cuts: dict[str, int] = field(default_factory=dict)
    busy: int = 0
    missing: set[str] = field(default_factory=set)
    asked: list[tuple[str, str, str | None]] = field(default_factory=list)
    """Method, path and token of each request."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def serving(self, host: str = "127.0.0.1") -> Iterator[str]:
        handler = type("Handler", (_Handler,), {"hub": self})
        server = ThreadingHTTPServer((host, 0), handler)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://{host}:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def downloads(self) -> list[str]:
        """Paths of files whose content was asked for."""
        return [
            path.split("/resolve/")[1].split("/", 1)[1]
            for way, path, _ in self.asked
            if way == "GET" and "/resolve/" in path
        ]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ") or None
        with self.hub.lock:
            self.hub.asked.append((self.command, path, token))
            busy, self.hub.busy = self.hub.busy > 0, max(self.hub.busy - 1, 0)
        if busy:
            return self._refuse(503, "", "try again")
        api = re.fullmatch(r"/api/models/([^/]+/[^/]+?)(?:/(revision|tree)/([^/]+)(?:/.*)?)?", path)
        file = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
        matched = api or file
        repository = self.hub.repositories.get(matched[1]) if matched else None
        if matched is None or repository is None or repository.token not in (None, token):
            return self._refuse(401 if token is None else 404, "RepoNotFound", "Repository not found")
        revision = (api[3] or "main") if api else file[2]  # type: ignore[index]
        commit = repository.commit(revision)
        if commit is None:
            return self._refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        files = repository.files(commit)
        if api:
            return self._json(self._tree(files) if api[2] == "tree" else self._info(matched[1], repository, commit))
        if repository.gated:
            return self._refuse(403, "GatedRepo", "Access to this model is restricted")
        name = file[3]  # type: ignore[index]
        if name not in files or name in self.hub.missing:
            return self._refuse(404, "EntryNotFound", "Entry not found")
        return self._file(name, files[name], commit)

    def _info(self, name: str, repository: Repository, commit: str) -> dict[str, object]:
        files = repository.files(commit)
        return {
            "_id": "0",
            "id": name,
            "modelId": name,
            "sha": commit,
            "private": repository.token is not None,
            "gated": "manual" if repository.gated else False,
            "disabled": False,
            "tags": [],
            "downloads": 0,
            "pipeline_tag": repository.task,
            "siblings": [
                {"rfilename": path, "size": len(content), "blobId": _etag(content)} for path, content in files.items()
            ],
        }

    def _tree(self, files: Mapping[str, bytes]) -> list[dict[str, object]]:
        return [
            {"type": "file", "path": path, "size": len(content), "oid": _etag(content)}
            for path, content in files.items()
        ]

    def _file(self, name: str, content: bytes, commit: str) -> None:
        start = 0
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        if wanted:
            start = int(wanted[1])
        body = content[start:]
        self.send_response(206 if wanted else 200)
        self.send_header("ETag", f'"{_etag(content)}"')
        self.send_header("X-Repo-Commit", commit)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(len(body)))
        if wanted:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.end_headers()
        if self.command == "HEAD":
            return
        with self.hub.lock:
            cut = self.hub.cuts.get(name, 0) > 0
            if cut:
                self.hub.cuts[name] -= 1
        self.wfile.write(body[: len(body) // 2] if cut else body)
        if cut:
            self.wfile.flush()
            self.close_connection = True

    def _json(self, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _refuse(self, status: int, code: str, message: str) -> None:
        body = json.dumps({"error": message}).encode()
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
        self.send_header("X-Error-Message", message)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        return


def _etag(content: bytes) -> str:
    return hashlib.sha1(content).hexdigest()
