"""The toolkit and the base toolkit that it stands on, from this tree. MXNet is not here: tests/integration has it."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

sys.path[:0] = [str(ROOT / "toolkits" / name / "src") for name in ("mxnet-inference", "inference")]


@pytest.fixture
def mxnet(monkeypatch):
    """A stand-in with what choosing a device needs. `mxnet.count` is the number of GPUs."""
    made = types.ModuleType("mxnet")
    made.count = 0
    made.context = types.SimpleNamespace(num_gpus=lambda: made.count)
    made.cpu = lambda: "cpu"
    made.gpu = lambda number: f"gpu({number})"
    monkeypatch.setitem(sys.modules, "mxnet", made)
    return made
