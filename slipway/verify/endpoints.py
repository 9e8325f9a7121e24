"""Containers that were started so that checks may ask them."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipway.emulator.exchange import Answer, Request
from slipway.emulator.hosting import Serving

JSON = "application/json"


@dataclass(frozen=True)
class Hosted:
    """A container that is healthy."""

    serving: Serving
    model: Path

    def post(self, body: bytes, content_type: str | None = JSON, accept: str | None = None, **headers: str) -> Answer:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if content_type is not None:
            given["Content-Type"] = content_type
        if accept is not None:
            given["Accept"] = accept
        return self.serving.call(Request("POST", "/invocations", body, given))

    def do(self, what: str, **more: Any) -> Answer:
        """Ask the probe to do something."""
        return self.post(json.dumps({"do": what, **more}).encode())

    def seen(self, what: str = "see", **more: Any) -> dict[str, Any]:
        """What the probe answers. Raises AssertionError when that is no success."""
        answer = self.do(what, **more)
        assert answer.status == 200, f"the probe answered {answer.status}: {answer.text()}"
        found: dict[str, Any] = json.loads(answer.body)
        return found

    def log(self) -> str:
        return self.serving.log.read_text(encoding="utf-8", errors="replace")


@dataclass(frozen=True)
class Ended:
    """A container that ended before it was healthy. `code` None: it did not end."""

    code: int | None
    error: str
    log: str
    statuses: list[int | None]


@dataclass(frozen=True)
class Tenants:
    """A container of many models. `folder`: what it sees as /opt/ml/models; `files`: what each model needs."""

    serving: Serving
    folder: Path
    files: Path | None = None

    def place(self, name: str, code: str) -> dict[str, str]:
        """Put a model where the platform puts it; the body of the LOAD request."""
        target = self.folder / name / "model" / "code"
        target.mkdir(parents=True)
        if self.files is not None:
            shutil.copytree(self.files, target.parent, dirs_exist_ok=True)
        (target / "inference.py").write_text(code)
        return {"model_name": name, "url": f"/opt/ml/models/{name}/model"}

    def call(self, method: str, path: str, body: Any = None) -> Answer:
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        return self.serving.call(Request(method, path, content, {"Content-Type": JSON}, timeout=120.0))


def until(holds: Callable[[], bool], otherwise: str, seconds: float = 10.0) -> None:
    """Wait for something that comes a little later than what it belongs to. Raises AssertionError."""
    limit = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < limit, otherwise
        time.sleep(0.1)
