"""Which engine is meant: docker's own rules for contexts and variables."""

from __future__ import annotations

import hashlib
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from slipway.engine.docker import Engine
from slipway.errors import EngineError


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        answer = {"ApiVersion": "1.45"} if self.path.endswith("/version") else {"Name": self.server.server_port}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def engines() -> Iterator[list[int]]:
    """Three stand-ins; each tells its port as its name."""
    servers = [http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) for _ in range(3)]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    yield [server.server_port for server in servers]
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def contexts(engines: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The contexts `one` and `two`, for the first two engines."""
    for name, port in zip(("one", "two"), engines, strict=False):
        folder = tmp_path / "contexts" / "meta" / hashlib.sha256(name.encode()).hexdigest()
        folder.mkdir(parents=True)
        endpoint = {"docker": {"Host": f"tcp://127.0.0.1:{port}", "SkipTLSVerify": False}}
        (folder / "meta.json").write_text(json.dumps({"Name": name, "Metadata": {}, "Endpoints": endpoint}))
    (tmp_path / "config.json").write_text(json.dumps({"currentContext": "one"}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))


def name_of(engine: Engine) -> int:
    return int(engine.info()["Name"])


@pytest.mark.usefixtures("contexts")
def test_docker_and_we_mean_the_same_engine(engines: list[int]) -> None:
    one, two, three = engines
    host = {"DOCKER_HOST": f"tcp://127.0.0.1:{three}"}
    assert name_of(Engine.connect({})) == one, "the current context"
    assert name_of(Engine.connect({"DOCKER_CONTEXT": "two"})) == two
    assert name_of(Engine.connect({**host, "DOCKER_CONTEXT": "two"})) == three, "DOCKER_HOST goes before contexts"
    assert name_of(Engine.connect(host, context="two")) == two, "but not before one that is asked for"


@pytest.mark.usefixtures("contexts")
def test_a_context_that_does_not_exist_is_told() -> None:
    for given, named in (({"DOCKER_CONTEXT": "three"}, ""), ({}, "three")):
        with pytest.raises(EngineError, match="there is no docker context 'three'"):
            Engine.connect(given, context=named)


def test_no_engine_is_told() -> None:
    with pytest.raises(EngineError, match="no Docker engine answers"):
        Engine.connect({"DOCKER_HOST": "tcp://127.0.0.1:1"})
