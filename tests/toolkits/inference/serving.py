"""``serve`` as a process of its own on a real port, and clients that speak HTTP to it byte by byte."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[3] / "toolkits" / "inference" / "src"
BOUND = 60.0
"""Seconds until a thing that never comes is given up; no test waits so long when all is well."""

ECHO = """
    import json, os, time
    def model_fn(model_dir):
        return "model"
    def transform_fn(model, data, content_type, accept):
        return data, accept
"""


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> dict[str, Any]:
        return json.loads(self.body)["error"]


@dataclass
class Server:
    """One run of ``serve``."""

    base: Path
    port: int
    environ: dict[str, str]
    process: subprocess.Popen[bytes] | None = None
    arguments: tuple[str, ...] = ("-m", "sagemaker_inference.cli.serve")
    clients: list[Client] = field(default_factory=list)

    def start(self) -> Server:
        with (self.base / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, *self.arguments], env=self.environ, cwd=self.base, stdout=log, stderr=log
            )
        return self

    @property
    def log(self) -> str:
        return (self.base / "log").read_text()

    @property
    def pid(self) -> int:
        assert self.process
        return self.process.pid

    def workers(self) -> list[int]:
        path = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        return [int(word) for word in path.read_text().split()]

    def ping(self) -> int:
        """The status of /ping; 0: nothing listens."""
        try:
            return self.get("/ping").status
        except OSError:
            return 0

    def ready(self) -> Server:
        wait_for(lambda: self.ping() == 200 or self.ended(), self)
        assert not self.ended(), self.log
        return self

    def ended(self) -> bool:
        return self.process is not None and self.process.poll() is not None

    def get(self, path: str, method: str = "GET") -> Answer:
        return self.request(method, path)

    def post(self, body: bytes | str = b"", path: str = "/invocations", **headers: str) -> Answer:
        return self.request("POST", path, body, **headers)

    def request(self, method: str, path: str, body: bytes | str | None = None, **headers: str) -> Answer:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=BOUND)
        with contextlib.closing(connection):
            connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
            response = connection.getresponse()
            return Answer(response.status, dict(response.getheaders()), response.read())

    def client(self) -> Client:
        one = Client(socket.create_connection(("127.0.0.1", self.port), timeout=BOUND))
        self.clients.append(one)
        return one

    def terminate(self) -> None:
        assert self.process
        self.process.send_signal(signal.SIGTERM)

    def wait(self) -> int:
        assert self.process
        return self.process.wait(BOUND)

    def close(self) -> None:
        for one in self.clients:
            one.close()
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Client:
    """A connection on which a test writes and reads what it likes."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._read = b""

    def send(self, data: bytes) -> Client:
        self.connection.sendall(data)
        return self

    def post(self, body: bytes, *lines: bytes, path: bytes = b"/invocations") -> Client:
        head = [b"POST %s HTTP/1.1" % path, b"host: x", b"content-length: %d" % len(body), *lines]
        return self.send(b"\r\n".join(head) + b"\r\n\r\n" + body)

    def answer(self) -> Answer:
        """The next response. Raises ConnectionError when the server ends before it is complete."""
        head = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        status = int(head[0].split()[1])
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        if status == 100:
            return Answer(status, headers, b"")
        if headers.get("transfer-encoding") == "chunked":
            return Answer(status, headers, b"".join(self.chunks()))
        return Answer(status, headers, self.exactly(int(headers.get("content-length", "0"))))

    def chunks(self) -> Iterator[bytes]:
        while True:
            size = int(self.until(b"\r\n"), 16)
            data = self.exactly(size + 2)[:-2]
            if not data:
                return
            yield data

    def until(self, end: bytes) -> bytes:
        while end not in self._read:
            self._more()
        found, _, self._read = self._read.partition(end)
        return found + end

    def exactly(self, size: int) -> bytes:
        parts = [self._read]
        have = len(self._read)
        while have < size:
            self._read = b""
            self._more()
            parts.append(self._read)
            have += len(self._read)
        whole = b"".join(parts)
        self._read = whole[size:]
        return whole[:size]

    def _more(self) -> None:
        data = self.connection.recv(1 << 20)
        if not data:
            raise ConnectionError("the server has ended the connection")
        self._read += data

    def ended(self) -> bool:
        """Waits for the server's end of the connection; False: it sent something instead."""
        try:
            return not self._read and not self.connection.recv(1)
        except ConnectionError:
            return True

    def close(self) -> None:
        self.connection.close()


def make(base: Path, code: str = ECHO, **variables: str) -> Server:
    """A server on a free port with a user's module; not started yet."""
    folder = base / "model" / "code"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "inference.py").write_text(textwrap.dedent(code))
    port = free_port()
    environ = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(SOURCE),
        "LANG": "C.UTF-8",
        "TMPDIR": str(base),
        "SAGEMAKER_BASE_DIR": str(base),
        "SAGEMAKER_BIND_TO_PORT": str(port),
        "SAGEMAKER_MODEL_SERVER_WORKERS": "1",
        **variables,
    }
    return Server(base, port, environ)


def connections(pid: int, port: int) -> int:
    """How many TCP connections of a port a process has open."""
    lines = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    ours = {f"socket:[{line[9]}]" for line in lines if line[1].endswith(f":{port:04X}")}
    found = 0
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            found += str(path.readlink()) in ours
    return found


def unread(port: int) -> int:
    """Bytes that wait to be read on all connections of a server."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    # A listener (state 0A) counts connections there.
    ours = [line for line in lines if line[1].endswith(f":{port:04X}") and line[3] != "0A"]
    return sum(int(line[4].partition(":")[2], 16) for line in ours)


def is_alive(pid: int | str) -> bool:
    """Whether a process is there, if only as a zombie."""
    return Path(f"/proc/{pid}").exists()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


def wait_for(condition: Any, server: Server | None = None) -> Any:
    """Polls until a condition holds, and returns what it gave."""
    limit = time.monotonic() + BOUND
    while time.monotonic() < limit:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"it did not come in {BOUND:g} s\n{server.log if server else ''}")


def in_parallel(*calls: Any) -> list[Any]:
    """Runs calls at the same time; their results, or the exceptions they raised."""
    results: list[Any] = [None] * len(calls)

    def run(index: int) -> None:
        try:
            results[index] = calls[index]()
        except Exception as error:
            results[index] = error

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
