"""Services that break off in the middle: an engine behind a socket that a test cuts, and an S3 that dies."""

from __future__ import annotations

import contextlib
import socket
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class EngineProxy:
    """The engine's socket once more, until `cut`. `url` is for DOCKER_HOST."""

    def __init__(self, engine: str, folder: Path) -> None:
        self.path = folder / "engine.sock"
        self.url = f"unix://{self.path}"
        self._engine = engine
        self._open: list[socket.socket] = []
        self._refusals = 0
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, refusals: int = 0) -> None:
        """End every connection; the next `refusals` ones too, as of an engine that is not back yet."""
        self._refusals = refusals
        for end in self._open:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def close(self) -> None:
        self.cut()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._refusals:
                self._refusals -= 1
                client.close()
                continue
            engine = socket.socket(socket.AF_UNIX)
            engine.connect(self._engine)
            self._open += [client, engine]
            for source, target in ((client, engine), (engine, client)):
                threading.Thread(target=_pass_on, args=(source, target), daemon=True).start()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def engine_proxy(engine: str) -> Iterator[EngineProxy]:
    # A socket's path is short: a test's own folder may be too deep.
    with tempfile.TemporaryDirectory(prefix="cut-") as folder:
        proxy = EngineProxy(engine, Path(folder))
        try:
            yield proxy
        finally:
            proxy.close()


class _S3Server(ThreadingHTTPServer):
    dies = True


class _DyingS3(BaseHTTPRequestHandler):
    """Lists one object of 4 MB, sends 1 MB of it, and is gone; or does the same again the next time."""

    server: _S3Server

    def do_HEAD(self) -> None:
        self._head(200, 4 << 20)

    def do_GET(self) -> None:
        if "list-type" in self.path:
            body = (
                b"<ListBucketResult><IsTruncated>false</IsTruncated><KeyCount>1</KeyCount>"
                b"<Contents><Key>set/a</Key><Size>4194304</Size></Contents></ListBucketResult>"
            )
            self._head(200, len(body))
            self.wfile.write(body)
            return
        self._head(200, 4 << 20)
        self.wfile.write(bytes(1 << 20))
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)
        if not self.server.dies:
            return
        threading.Thread(target=self.server.shutdown, daemon=True).start()
        self.server.socket.close()

    def _head(self, status: int, length: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        self.send_header("ETag", '"1"')
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the test says what happened."""


@contextlib.contextmanager
def dying_s3(*, dies: bool) -> Iterator[str]:
    server = _S3Server(("127.0.0.1", 0), _DyingS3)
    server.dies = dies
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
