"""TensorFlow Serving's REST interface of the models in this process, for user code that posts to ``context.rest_uri``.

Rule tf-context-2. Threads of the worker serve it on loopback only, so that a handler can wait for its own worker's
model.
"""

from __future__ import annotations

import http.server
import logging
import os
import socket
import threading
from http import HTTPStatus
from http.client import responses

from sagemaker_tensorflow_serving_container.backend import Answer, OutOfMemory
from sagemaker_tensorflow_serving_container.bodies import BodyError
from sagemaker_tensorflow_serving_container.engine import Engine

logger = logging.getLogger(__name__)

_HOST = "127.0.0.1"
# A client that stops sending in mid-request must not hold its thread for ever.
_READ_SECONDS = 60.0


class Loopback:
    """A listening server. Raises OSError when the port is taken."""

    def __init__(self, engine: Engine, port: int) -> None:
        self._server = _Server((_HOST, port), _handler(engine))
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name="rest", daemon=True)
        self._thread.start()
        _keep_off_proxies()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def server_bind(self) -> None:
        # More workers than the safe range has ports share them.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        # The base class would look this machine's name up.
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = "localhost", self.server_address[1]


def _handler(engine: Engine) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        timeout = _READ_SECONDS

        def do_GET(self) -> None:
            self._answer(b"")

        def do_POST(self) -> None:
            try:
                body = self._body()
            except (BodyError, ValueError) as error:
                self.close_connection = True
                self._send(Answer.error(HTTPStatus.BAD_REQUEST, str(error)))
                return
            self._answer(body)

        def _answer(self, body: bytes) -> None:
            try:
                answer = engine.rest(self.command, self.path, body)
            except OutOfMemory as error:
                answer = Answer.error(HTTPStatus.INSUFFICIENT_STORAGE, str(error))
            except Exception as error:
                logger.exception("%s %s failed", self.command, self.path)
                answer = Answer.error(HTTPStatus.INTERNAL_SERVER_ERROR, str(error) or type(error).__name__)
            self._send(answer)

        def _send(self, answer: Answer) -> None:
            data = answer.document.data
            head = (
                f"HTTP/1.1 {answer.status} {responses.get(answer.status, 'Other')}\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n"
                + ("Connection: close\r\n" if self.close_connection else "")
            )
            self.wfile.write(head.encode() + b"\r\n" + data)

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
                return b"".join(iter(self._chunk, b""))
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length) if length > 0 else b""
            if len(body) != length:
                raise BodyError("The body ends early.")
            return body

        def _chunk(self) -> bytes:
            size = int(self.rfile.readline(66).partition(b";")[0], 16)
            data = self.rfile.read(size)
            self.rfile.readline(66)
            return data

        def log_message(self, *_: object) -> None:
            """The server has logged the request that this one belongs to."""

    return Handler


def _keep_off_proxies() -> None:
    """A proxy for the outer world, as the container may have one, cannot reach this process."""
    names = ("NO_PROXY", "no_proxy")
    listed = [entry for name in names for entry in os.environ.get(name, "").split(",") if entry]
    for name in names:
        os.environ[name] = ",".join(dict.fromkeys([*listed, "localhost", _HOST]))
