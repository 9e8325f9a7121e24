"""Which engine is meant: docker's own rules for contexts and variables."""

from __future__ import annotations

import hashlib
import http.server
import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from slipway.engine.docker import Engine, _endpoint
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


DOCKER = """\
#!{python}
import json, pathlib, sys
contexts = json.loads((pathlib.Path(__file__).parent / "contexts.json").read_text())
assert sys.argv[1:3] == ["context", "inspect"]
if sys.argv[3] not in contexts:
    sys.exit("no such context")
print(json.dumps([contexts[sys.argv[3]]]))
"""


@pytest.fixture
def contexts(engines: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The contexts `one`, which is the current one, and `two`, for the first two engines."""
    known = {
        name: {"Name": name, "Metadata": {}, "Endpoints": {"docker": {"Host": f"tcp://127.0.0.1:{port}"}}}
        for name, port in zip(("one", "two"), engines, strict=False)
    }
    (tmp_path / "contexts.json").write_text(json.dumps(known))
    (tmp_path / "docker").write_text(DOCKER.format(python=sys.executable))
    (tmp_path / "docker").chmod(0o755)
    meta = tmp_path / "contexts" / "meta" / hashlib.sha256(b"one").hexdigest() / "meta.json"
    meta.parent.mkdir(parents=True)
    plain = {"Host": f"tcp://127.0.0.1:{engines[0]}", "SkipTLSVerify": False}
    meta.write_text(json.dumps({**known["one"], "Endpoints": {"docker": plain}}))
    (tmp_path / "config.json").write_text(json.dumps({"currentContext": "one"}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


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


def test_a_context_with_certificates_brings_them(contexts: Path) -> None:
    known = json.loads((contexts / "contexts.json").read_text())
    known["two"] |= {"TLSMaterial": {"docker": ["ca.pem"]}, "Storage": {"TLSPath": "/certificates"}}
    (contexts / "contexts.json").write_text(json.dumps(known))
    assert _endpoint("two") == {
        "DOCKER_HOST": known["two"]["Endpoints"]["docker"]["Host"],
        "DOCKER_TLS_VERIFY": "1",
        "DOCKER_CERT_PATH": "/certificates/docker",
    }


def test_no_engine_is_told() -> None:
    with pytest.raises(EngineError, match="no Docker engine answers"):
        Engine.connect({"DOCKER_HOST": "tcp://127.0.0.1:1"})
