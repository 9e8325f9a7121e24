#!/usr/bin/python3
"""A small `serve` that keeps the hosting contract, with what a test needs to look at and nothing more.

MODE: empty, or `never` (ready), `dies` (before it is ready), `flaky` (each body fails once), `stubborn` (ignores
SIGTERM).
"""

import http.server
import json
import os
import pathlib
import signal
import sys
import threading

MODE = os.environ.get("MODE", "")
ROOM = int(os.environ.get("ROOM", "2"))  # models that fit
LOADED = {}
SEEN = set()
RELEASED = threading.Event()
MEMORY = [pathlib.Path("/sys/fs/cgroup", name) for name in ("memory.max", "memory/memory.limit_in_bytes")]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def reply(self, status, body=b"", kind="text/plain"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def do_GET(self):
        if self.path == "/ping":
            self.reply(503 if MODE == "never" else 200, b"not yet" if MODE == "never" else b"")
        elif self.path == "/release":
            RELEASED.set()
            self.reply(200)
        elif self.path == "/execution-parameters" and "OFFER" in os.environ:
            self.reply(200, os.environ["OFFER"].encode(), "application/json")
        else:
            self.reply(404, b"no such path")

    def do_DELETE(self):
        name = self.path.rsplit("/", 1)[1]
        print("unload", LOADED.pop(name, None), flush=True)
        self.reply(200)

    def do_POST(self):
        data = self.body()
        if self.path == "/models":
            self.load(json.loads(data))
        elif self.path.startswith("/models/"):
            folder = LOADED.get(self.path.split("/")[2])
            self.reply(404, b"not loaded") if folder is None else self.answer(data, folder)
        else:
            self.answer(data, pathlib.Path("/opt/ml/model"))

    def load(self, wanted):
        if len(LOADED) >= ROOM:
            self.reply(507, b"no room")
            return
        LOADED[wanted["model_name"]] = pathlib.Path(wanted["url"])
        print("load", wanted["url"], flush=True)
        self.reply(200)

    def answer(self, data, folder):
        if MODE == "flaky" and data not in SEEN:
            SEEN.add(data)
            self.reply(500, b"once")
        elif data == b"see":
            seen = {
                "headers": {name.lower(): value for name, value in self.headers.items()},
                "environment": {name: value for name, value in os.environ.items() if name.startswith(("SAGE", "AWS"))},
                "files": sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()),
                "writable": os.access(folder, os.W_OK),
                "user": os.getuid(),
                "root": os.access("/var", os.W_OK),
                "temporary": os.access("/tmp", os.W_OK),
                "memory": next(path.read_text().strip() for path in MEMORY if path.exists()),
            }
            self.reply(200, json.dumps(seen).encode(), "application/json")
        elif data == b"fail":
            self.reply(418, b"the model's own reason")
        elif data == b"hold":
            print("holding", flush=True)
            self.reply(200 if RELEASED.wait(60) else 500, b"held")
        elif data == b"die":
            os._exit(7)
        elif data in (b"stream", b"break"):
            self.stream(data)
        else:
            self.reply(200, data.upper(), self.headers.get("Accept") or "text/plain")

    def stream(self, data):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        if self.headers.get("X-Amzn-SageMaker-Custom-Attributes"):
            self.send_header("X-Amzn-SageMaker-Custom-Attributes", "told back")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for part in (b"one ", b"two ", b"three"):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.flush()
        if data == b"break":
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format, *args):
        if self.path != "/ping":
            print(self.command, self.path, flush=True)


if sys.argv[1:] != []:
    sys.exit(f"called with {sys.argv[1:]}")
if MODE == "dies":
    print("it cannot start: the weights are bad", flush=True)
    sys.exit(3)
port = int(os.environ.get("SAGEMAKER_BIND_TO_PORT", "8080"))
server = http.server.ThreadingHTTPServer(("", port), Handler)
if MODE != "stubborn":
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
else:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
server.serve_forever()
print("drained", flush=True)
