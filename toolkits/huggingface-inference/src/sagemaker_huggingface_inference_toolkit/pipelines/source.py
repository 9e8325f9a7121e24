"""Where a model comes from and where it computes: what every pipeline of ours is loaded with."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Source:
    """A model folder, and how its model is loaded."""

    folder: str
    device: Any
    """A torch.device, or whatever torch takes for one."""
    device_map: str | dict[str, Any] | None = None
    trust_remote_code: bool = False

    def model(self, auto_class: Any, **more: Any) -> Any:
        """A model of one of the library's Auto classes, on its device and in evaluation mode."""
        if self.device_map is not None:
            more["device_map"] = self.device_map
        model = auto_class.from_pretrained(
            self.folder, trust_remote_code=self.trust_remote_code, dtype="auto", **more
        ).eval()
        return model if self.device_map is not None else model.to(self.device)

    def part(self, auto_class: Any, **more: Any) -> Any:
        """A tokenizer, image processor or the like, of one of the library's Auto classes."""
        return auto_class.from_pretrained(self.folder, trust_remote_code=self.trust_remote_code, **more)

    def config(self) -> dict[str, Any]:
        """config.json as it is written: newer libraries drop keys that old models rely on."""
        path = Path(self.folder) / "config.json"
        content = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        return content if isinstance(content, dict) else {}

    def task_parameters(self, task: str) -> dict[str, Any]:
        """What the model's author recorded for a task in ``task_specific_params``."""
        recorded = self.config().get("task_specific_params") or {}
        return dict(recorded.get(task) or {}) if isinstance(recorded, dict) else {}


def texts_of(inputs: Any) -> list[str]:
    """One or several texts, as a list. Raises TypeError for anything else."""
    texts = [inputs] if isinstance(inputs, str) else inputs
    if not isinstance(texts, (list, tuple)) or not all(isinstance(text, str) for text in texts):
        raise TypeError("inputs must be a text or a list of texts")
    return list(texts)
