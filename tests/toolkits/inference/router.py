"""``serve`` with many models: the calls of the platform, and models to load."""

from __future__ import annotations

import json
import textwrap
import urllib.parse
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import serving
from .serving import Answer, Server

ECHO = """
    def model_fn(model_dir):
        return "model"
    def transform_fn(model, data, content_type, accept):
        return data, "application/octet-stream"
"""


@dataclass
class Router(Server):
    """One run of ``serve`` that begins without a model."""

    def write(self, name: str, code: str = ECHO, **files: str) -> str:
        """A model's folder, as the platform unpacks it. files: further ones in code/, ``__`` for the dot."""
        folder = self.base / "models" / name / "model"
        (folder / "code").mkdir(parents=True, exist_ok=True)
        (folder / "code" / "inference.py").write_text(textwrap.dedent(code))
        for file, text in files.items():
            (folder / "code" / file.replace("__", ".")).write_text(textwrap.dedent(text))
        return str(folder)

    def load(self, name: str, url: str | None = None) -> Answer:
        url = url or str(self.base / "models" / name / "model")
        return self.post(json.dumps({"model_name": name, "url": url}), "/models")

    def loaded(self, name: str, code: str = ECHO, **files: str) -> Router:
        """Writes and loads a model that must load."""
        answer = self.load(name, self.write(name, code, **files))
        assert answer.status == 200, (answer.body, self.log)
        return self

    def unload(self, name: str) -> Answer:
        return self.get(path_of(name), "DELETE")

    def invoke(self, name: str, body: bytes | str = b"", **headers: str) -> Answer:
        return self.post(body, path_of(name) + "/invoke", **headers)

    def names(self) -> list[str]:
        return [model["modelName"] for model in json.loads(self.get("/models").body)["models"]]

    def family(self) -> set[int]:
        """The processes below the router."""
        found: set[int] = set()
        waiting = [self.pid]
        while waiting:
            with suppress(OSError):
                children = Path(f"/proc/{waiting.pop()}/task").glob("*/children")
                below = [int(word) for file in children for word in file.read_text().split()]
                found.update(below)
                waiting += below
        return found

    def folders(self) -> list[str]:
        """What the router keeps in its temporary folder, a folder for each model."""
        return sorted(path.name for path in self.base.glob("serve-*/*"))

    @property
    def unit(self) -> int:
        """The process of the only unit."""
        (pid,) = self.workers()
        return pid


def running(pids: set[int]) -> list[int]:
    """Those that still run. One that only waits to be asked for its exit code has given everything back."""
    found = []
    for pid in pids:
        with suppress(OSError):
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                found.append(pid)
    return found


def path_of(name: str) -> str:
    return "/models/" + urllib.parse.quote(name, safe="")


def make(base: Path, **variables: str) -> Router:
    """A router on a free port; not started yet."""
    port = serving.free_port()
    made = serving.make(base, **{"SAGEMAKER_BIND_TO_PORT": str(port), "SAGEMAKER_MULTI_MODEL": "true", **variables})
    del made.environ["SAGEMAKER_MODEL_SERVER_WORKERS"]
    return Router(base, port, made.environ)


def started(base: Path, **variables: str) -> Router:
    one = make(base, **variables)
    one.start()
    one.ready()
    return one


def bodies(answers: list[Any]) -> list[bytes]:
    return [answer.body for answer in answers]
