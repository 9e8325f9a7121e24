"""A multi-model endpoint: models loaded when they are first asked for, and unloaded when memory gets short.

Source of the rules: the SageMaker developer guide, "Build Your Own Container for SageMaker AI Multi-Model Endpoints".
"""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from slipway.emulator import model_data
from slipway.emulator.exchange import Answer, Request
from slipway.emulator.hosting import MODELS, Serving
from slipway.errors import EndpointError, InputError

LOAD_LIMIT = 360.0
"""Seconds that a container may take to load a model."""

_NO_MEMORY, _LOADED_ALREADY, _UNKNOWN = 507, 409, 404


@dataclass
class MultiModel:
    """The platform's side of one multi-model container.

    `source`: the folder or s3:// prefix below which clients name archives. `models`: the folder that the container sees
    as /opt/ml/models. `on_event` hears of loads and unloads.
    """

    serving: Serving
    source: str
    models: Path
    s3_endpoint: str | None = None
    on_event: Callable[[str], None] = lambda text: None
    _loaded: OrderedDict[str, str] = field(default_factory=OrderedDict)  # by use, the longest unused first
    _changing: threading.RLock = field(default_factory=threading.RLock)

    def invoke(self, target: str, request: Request) -> Answer:
        """A model's answer; the model is loaded if need be. `request.path` is not looked at.

        Raises InputError for a target that does not exist, EndpointError when it cannot be loaded.
        """
        answer = self._invoke(target, request)
        if answer.status == _UNKNOWN:  # the container has forgotten it, as one that was restarted does
            with self._changing:
                self._loaded.pop(target, None)
            answer = self._invoke(target, request)
        while answer.status == _NO_MEMORY and self._make_room(target):
            answer = self._invoke(target, request)
        return answer

    def loaded(self) -> list[str]:
        """The targets that are loaded, the longest unused first."""
        with self._changing:
            return list(self._loaded)

    def load(self, target: str) -> str:
        """Have a model loaded; its name in the container."""
        with self._changing:
            if target in self._loaded:
                self._loaded.move_to_end(target)
                return self._loaded[target]
            name = hashlib.sha256(target.encode()).hexdigest()[:32]
            self._place(target, name)
            body = json.dumps({"model_name": name, "url": f"{MODELS}/{name}/model"}).encode()
            request = Request("POST", "/models", body, {"Content-Type": "application/json"}, LOAD_LIMIT)
            answer = self.serving.call(request)
            while answer.status == _NO_MEMORY and self._make_room(target):
                answer = self.serving.call(request)
            if answer.status not in (200, _LOADED_ALREADY):
                shutil.rmtree(self.models / name, ignore_errors=True)
                raise EndpointError(f"{target} was not loaded: {answer.status} {answer.text()}", fix="see its log")
            self._loaded[target] = name
            self.on_event(f"loaded {target}")
            return name

    def unload(self, target: str) -> None:
        """Have a model unloaded, and its files removed."""
        with self._changing:
            name = self._loaded.pop(target)
            answer = self.serving.call(Request("DELETE", f"/models/{name}", timeout=LOAD_LIMIT))
            if answer.status not in (200, _UNKNOWN):
                raise EndpointError(f"{target} was not unloaded: {answer.status} {answer.text()}")
            shutil.rmtree(self.models / name, ignore_errors=True)
            self.on_event(f"unloaded {target}")

    def _invoke(self, target: str, request: Request) -> Answer:
        path = f"/models/{self.load(target)}/invoke"
        headers = {**(request.headers or {}), "X-Amzn-SageMaker-Target-Model": target}
        return self.serving.call(replace(request, path=path, headers=headers))

    def _make_room(self, target: str) -> bool:
        """Unload the model that was not used for longest; False when there is none but `target`."""
        with self._changing:
            others = [name for name in self._loaded if name != target]
            if others:
                self.unload(others[0])
            return bool(others)

    def _place(self, target: str, name: str) -> None:
        if target.startswith("/") or ".." in target.split("/") or not target:
            raise InputError(
                f"the target model {target!r} is no path below {self.source}", fix="name it as it is there"
            )
        folder = self.models / name / "model"
        if folder.exists():
            return
        location = f"{self.source.rstrip('/')}/{target}"
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.parent.chmod(0o755)
        try:
            placed = model_data.place(location, folder, self.s3_endpoint)
            if placed != folder:
                model_data.copy(placed, folder)
        except BaseException:
            shutil.rmtree(folder.parent, ignore_errors=True)
            raise
