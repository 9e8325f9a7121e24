"""A model's folder for each test, and the service that a worker would make of it, without a server around it."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import sys
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).parents[3] / "toolkits" / "inference" / "src"

sys.path.insert(0, str(SOURCE))

DEFAULT = "sagemaker_inference.default_handler_service"


@dataclass
class Answer:
    """A reply, read."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def kind(self) -> str:
        return self.headers["content-type"]

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def error(self) -> dict[str, Any]:
        assert self.kind == "application/json"
        return json.loads(self.body)["error"]


@dataclass
class Base:
    """A base folder with one model, and variables of its own."""

    path: Path
    variables: dict[str, str] = field(default_factory=dict)
    service: Any = None

    @property
    def model(self) -> Path:
        return self.path / "model"

    def write(self, name: str, text: str = "") -> Path:
        """A file below the base folder."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    def code(self, text: str) -> Path:
        """The user's module where it belongs."""
        return self.write("model/code/inference.py", text)

    @property
    def settings(self):
        from sagemaker_inference.settings import Settings

        return Settings.read({"SAGEMAKER_BASE_DIR": str(self.path), **self.variables})

    def load(self, handler: str = DEFAULT, **place):
        from sagemaker_inference.service import Place, load_service

        self.service = load_service(self.settings, Place(str(self.model), **place), handler)
        return self.service

    def post(self, body=b"", kind=None, accept=None, **headers) -> Answer:
        """One request to the loaded service."""
        return answer(self.send(request(body, kind, accept, **headers)))

    def send(self, one):
        if self.service.asynchronous:
            return asyncio.run(self.service.handle_async(one))
        return self.service.handle(one)


def request(body=b"", kind=None, accept=None, identity="r-1", **headers):
    from sagemaker_inference.service import Headers, Request

    named = {
        "Content-Type": kind,
        "Accept": accept,
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    raw = {name: value for name, value in named.items() if value is not None}
    return Request(body.encode() if isinstance(body, str) else body, Headers.of(raw), identity)


def answer(reply) -> Answer:
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in reply.headers}
    assert len(headers) == len(reply.headers)
    body = reply.body if isinstance(reply.body, bytes) else b"".join(reply.body)
    return Answer(reply.status, headers, body)


@contextlib.contextmanager
def unchanged_interpreter():
    """What loading user code does to this process is undone."""
    kept = list(sys.path), dict(sys.modules), dict(os.environ), sys.dont_write_bytecode
    try:
        yield
    finally:
        sys.path[:], modules, environ, sys.dont_write_bytecode = kept
        for name in set(sys.modules) - set(modules):
            if name in ("inference", "helper") or not hasattr(sys.modules[name], "__spec__"):
                del sys.modules[name]
        for name in set(os.environ) - set(environ):
            del os.environ[name]
        os.environ.update(environ)
        importlib.invalidate_caches()


@pytest.fixture
def base(tmp_path, monkeypatch):
    """An empty base folder; only its own variables reach the settings, also where they are read again."""
    for name in list(os.environ):
        if name.startswith(("SAGEMAKER_", "SLIPWAY_", "MMS_", "TS_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("SAGEMAKER_BASE_DIR", str(tmp_path))
    (tmp_path / "model").mkdir()
    with unchanged_interpreter():
        yield Base(tmp_path)
