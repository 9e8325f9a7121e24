"""A package index on a loopback port, and the wheels in it."""

from __future__ import annotations

import base64
import hashlib
import http.server
import threading
import zipfile
from pathlib import Path


def wheel(
    folder: Path, name: str, version: str = "1.0", requires: str = "", files: dict[str, str] | None = None
) -> Path:
    """A wheel with one module, or the given files."""
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    if requires:
        metadata += f"Requires-Dist: {requires}\n"
    content = dict(files or {f"{module}.py": f"VERSION = {version!r}\n"})
    content[f"{info}/METADATA"] = metadata
    content[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = ""
    for path, text in content.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(text.encode())}\n"
    content[f"{info}/RECORD"] = record + f"{info}/RECORD,,\n"
    path = folder / f"{module}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(str(path), "w") as archive:
        for name_, text in content.items():
            archive.writestr(name_, text)
    return path


class Index:
    """Serves wheels by the simple API, behind a password when one is given, and keeps what was asked for."""

    def __init__(self, folder: Path, password: str = "") -> None:
        self.requests: list[str] = []
        index = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                index.requests.append(self.path)
                expected = base64.b64encode(f"aws:{password}".encode()).decode()
                if password and self.headers.get("Authorization") != f"Basic {expected}":
                    self.send_response(401)
                    self.end_headers()
                    return
                name = self.path.rstrip("/").rpartition("/")[2]
                if name.endswith(".whl"):
                    body = (folder / name).read_bytes()
                else:
                    links = [path.name for path in folder.glob(f"{name.replace('-', '_')}-*.whl")]
                    body = "".join(f'<a href="/files/{link}">{link}</a>\n' for link in links).encode()
                self.send_response(200 if body else 404)
                self.send_header("Content-Type", "text/html" if not name.endswith(".whl") else "application/zip")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/simple/"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
