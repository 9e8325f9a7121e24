"""The toolkit and the base toolkit that it stands on, from this tree. PyTorch is not here: tests/integration has it."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCES = [ROOT / "toolkits" / name / "src" for name in ("pytorch-inference", "inference")]

sys.path[:0] = [str(source) for source in SOURCES]


@pytest.fixture
def torch(monkeypatch):
    """A stand-in with what choosing a device needs. `torch.cuda.count` is the number of GPUs, `current` the one set."""
    made = types.ModuleType("torch")
    made.__version__ = "2.13.0+cpu"
    made.version = types.SimpleNamespace(cuda=None)
    made.device = lambda *parts: ":".join(map(str, parts))
    made.cuda = types.SimpleNamespace(count=0, current=None)
    made.cuda.is_available = lambda: made.cuda.count > 0
    made.cuda.device_count = lambda: made.cuda.count
    made.cuda.set_device = lambda device: setattr(made.cuda, "current", device)
    monkeypatch.setitem(sys.modules, "torch", made)
    return made
