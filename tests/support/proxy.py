"""A proxy before a registry that counts what is sent, and refuses, cuts, changes or reports requests on cue."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_OF_A_HOP = {"connection", "transfer-encoding", "content-length", "keep-alive"}
_BLOCK = 1 << 16


@dataclass
class Request:
    """One request as it arrives. `length`: bytes that it sends; None where it does not say."""

    method: str
    path: str
    headers: dict[str, str]
    length: int | None

    @property
    def writes(self) -> bool:
        return self.method in ("PUT", "POST", "PATCH", "DELETE")

    @property
    def names_a_tag(self) -> bool:
        """Whether it stores a manifest under a tag."""
        return self.method == "PUT" and "/manifests/" in self.path and "/manifests/sha256:" not in self.path


@dataclass
class Harm:
    """What is done to a request. `status`: answered instead of the registry; `cut`: the connection is closed after so
    many bytes of the body were handed on; `spoil`: the answer's body is changed; `then`: called when the registry has
    answered, before the client hears of it."""

    status: int = 0
    code: str = ""
    message: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None
    spoil: bool = False
    then: Callable[[], None] | None = None


@dataclass
class Proxy:
    """Stands at `host` before a registry at loopback `upstream`. `harm` says of each request what is done to it."""

    upstream: int
    host: str = ""
    harm: Callable[[Request], Harm | None] = lambda request: None
    asked: list[Request] = field(default_factory=list)
    blob_bytes: int = 0  # of blobs that were handed on
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answered(self, method: str, part: str) -> list[Request]:
        return [request for request in self.asked if request.method == method and part in request.path]


@contextmanager
def proxying(upstream: int) -> Iterator[Proxy]:
    """A proxy that runs for the length of the block."""
    state = Proxy(upstream)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle(self) -> None:
            # The engine tries TLS first, and goes on without it where the answer is HTTP, as Go's servers give.
            if self.connection.recv(1, socket.MSG_PEEK) == b"\x16":
                self.connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")
                return
            super().handle()

        def handle_any(self) -> None:
            length = self.headers.get("Content-Length")
            request = Request(self.command, self.path, dict(self.headers), int(length) if length is not None else None)
            with state.lock:
                state.asked.append(request)
                harm = state.harm(request) or Harm()
            if harm.status:
                self._refuse(harm)
                return
            upstream = http.client.HTTPConnection("127.0.0.1", state.upstream, timeout=60)
            try:
                self._forward(upstream, request, harm)
            except (OSError, http.client.HTTPException):
                self.close_connection = True
            finally:
                upstream.close()

        def _refuse(self, harm: Harm) -> None:
            for _ in self._body():
                pass
            body = json.dumps({"errors": [{"code": harm.code, "message": harm.message}]}).encode()
            self.send_response(harm.status)
            for name, value in {**harm.headers, "Content-Type": "application/json"}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def _forward(self, upstream: http.client.HTTPConnection, request: Request, harm: Harm) -> None:
            upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in _OF_A_HOP:
                    upstream.putheader(name, value)
            chunked = "chunked" in self.headers.get("Transfer-Encoding", "")
            if chunked:
                upstream.putheader("Transfer-Encoding", "chunked")
            else:
                upstream.putheader("Content-Length", str(request.length or 0))
            upstream.endheaders()
            left = harm.cut
            for block in self._body():
                if left is not None:
                    block, left = block[:left], left - len(block[:left])
                if block:
                    upstream.send(b"%x\r\n%b\r\n" % (len(block), block) if chunked else block)
                    if "/blobs/uploads/" in self.path:
                        with state.lock:
                            state.blob_bytes += len(block)
                if left == 0:
                    self.close_connection = True
                    return
            if chunked:
                upstream.send(b"0\r\n\r\n")
            answer = upstream.getresponse()
            body = answer.read()
            if harm.then:
                harm.then()
            self._hand_back(answer, body, harm)

        def _hand_back(self, answer: http.client.HTTPResponse, body: bytes, harm: Harm) -> None:
            if harm.spoil and body:
                body = bytes([body[0] ^ 1]) + body[1:]
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in _OF_A_HOP:
                    self.send_header(name, value)
            length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(body))
            self.send_header("Content-Length", length or "0")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def _body(self) -> Iterator[bytes]:
            if "chunked" in self.headers.get("Transfer-Encoding", ""):
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    yield self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return
            left = int(self.headers.get("Content-Length") or 0)
            while left:
                block = self.rfile.read(min(left, _BLOCK))
                if not block:
                    return
                left -= len(block)
                yield block

        do_GET = do_HEAD = do_PUT = do_POST = do_PATCH = do_DELETE = handle_any

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.host = f"127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
