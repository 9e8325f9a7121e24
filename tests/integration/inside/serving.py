"""What checks inside an inference image share: model folders, a service as a worker has it, requests to it."""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import os
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sagemaker_inference import handler_services
from sagemaker_inference.service import Headers, Place, Request
from sagemaker_inference.settings import Settings

# Requests that are meant to fail would fill the output with tracebacks.
logging.getLogger("sagemaker_inference.function_service").setLevel(logging.CRITICAL)


@dataclass(frozen=True)
class Answer:
    """What a client gets."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def message(self) -> str:
        return self.json["error"]["message"]

    @property
    def type(self) -> str:
        return self.headers["content-type"]


class Folder:
    """A model's folder: /opt/ml/model of a container of its own."""

    def __init__(self, code: str = "", **files: str) -> None:
        """code: of code/inference.py. files: more modules in code/, by name."""
        self.base = Path(tempfile.mkdtemp())
        self.model = self.base / "model"
        (self.model / "code").mkdir(parents=True)
        for name, text in {"inference": code, **files}.items():
            if text:
                (self.model / "code" / f"{name}.py").write_text(textwrap.dedent(text))

    def load(self, handler_service: str, gpu_id: int | None = None, **environment: str) -> Served:
        """The service of a worker. Raises what the load raises."""
        with environ(SAGEMAKER_BASE_DIR=str(self.base), **environment):
            place = Place(model_dir=str(self.model), gpu_id=gpu_id)
            return Served(handler_services.load(Settings.read(), place, handler_service))


class Served:
    def __init__(self, service: Any) -> None:
        self.service = service

    def ask(self, body: str | bytes, content_type: str | None = "application/json", accept: str = "") -> Answer:
        return self.ask_all([request(body, content_type, accept)])[0]

    def ask_all(self, requests: list[Request]) -> list[Answer]:
        replies = self.service.handle_many(requests) if len(requests) > 1 else [self.service.handle(requests[0])]
        return [
            Answer(reply.status, {name.decode(): value.decode() for name, value in reply.headers}, reply.body)
            for reply in replies
        ]


def request(body: str | bytes, content_type: str | None = "application/json", accept: str = "") -> Request:
    headers = {"content-type": content_type, "accept": accept}
    given = Headers.of({name: value for name, value in headers.items() if value})
    return Request(body if isinstance(body, bytes) else body.encode(), given, "id")


@contextlib.contextmanager
def environ(**changes: str) -> Iterator[None]:
    """Sets variables, and puts back what there was."""
    before = dict(os.environ)
    os.environ.update(changes)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def failing(kind: type[BaseException], *said: str) -> Iterator[None]:
    """The block raises an error of a kind whose text has all of `said`."""
    try:
        yield
    except kind as error:
        missing = [text for text in said if text not in str(error)]
        assert not missing, f"{missing} not in: {error}"
        return
    raise AssertionError(f"no {kind.__name__} was raised")


@contextlib.contextmanager
def logged(name: str) -> Iterator[list[str]]:
    """The messages of a logger while the block runs."""
    found: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record.getMessage())

    handler, logger = Collect(), logging.getLogger(name)
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.INFO)
    try:
        yield found
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


class Server:
    """``serve`` as the platform starts it, on a port of its own. Its whole output is in `output` once it has ended."""

    def __init__(self, base: Path, serving_module: str, **environment: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        variables = {
            **os.environ,
            "SAGEMAKER_BASE_DIR": str(base),
            "SAGEMAKER_SERVING_MODULE": serving_module,
            "SAGEMAKER_BIND_TO_PORT": str(self.port),
            **environment,
        }
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - as long as the server
        command = [sys.executable, "-m", "sagemaker_inference.cli.serve"]
        self.process = subprocess.Popen(command, env=variables, stdout=self._log, stderr=subprocess.STDOUT)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(60)

    @property
    def output(self) -> str:
        self._log.seek(0)
        return self._log.read()

    def wait_ready(self) -> None:
        """Until /ping is 200. Raises AssertionError when the server ends or takes more than two minutes."""
        limit = time.monotonic() + 120
        while time.monotonic() < limit:
            assert self.process.poll() is None, self.output
            with contextlib.suppress(OSError):
                if self.send("GET", "/ping").status == 200:
                    return
            time.sleep(0.05)
        raise AssertionError(f"not ready: {self.output}")

    def send(self, method: str, path: str, body: str | bytes = b"", **headers: str) -> Answer:
        """headers: `_` in a name stands for a hyphen."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
            reply = connection.getresponse()
            return Answer(reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read())
