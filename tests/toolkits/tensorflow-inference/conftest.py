"""The toolkit and the base toolkit that it stands on, from this tree. tests/integration has TensorFlow."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
SOURCES = [ROOT / "toolkits" / name / "src" for name in ("tensorflow-inference", "inference")]

sys.path[:0] = [*map(str, SOURCES), str(ROOT), str(HERE)]

import standins  # noqa: E402

from tests.toolkits.inference.conftest import Base, base  # noqa: E402

__all__ = ["base"]

HANDLER = "sagemaker_tensorflow_serving_container.handler_service"


@pytest.fixture(autouse=True)
def no_model_server(monkeypatch):
    """Whatever this machine has on its PATH, no model server is found unless a test brings one."""
    from sagemaker_tensorflow_serving_container import model_server

    monkeypatch.setattr(model_server, "PROGRAM", "tensorflow_model_server_of_no_test")


@pytest.fixture
def sessions(monkeypatch):
    """Stand-ins for TensorFlow's sessions; the list of those that were made."""
    from sagemaker_tensorflow_serving_container import native

    standins.Session.made = []
    monkeypatch.setattr(native, "Session", standins.Session)
    return standins.Session.made


@pytest.fixture
def served(base: Base, sessions, monkeypatch):
    """A base folder with the model ``half`` in two versions, to be loaded in this process."""
    for version in ("1", "00002"):
        base.write(f"model/half/{version}/saved_model.pb")

    def load(**variables: str):
        for name, value in variables.items():
            base.variables[name] = value
            monkeypatch.setenv(name, value)
        return base.load(HANDLER)

    base.serve = load
    yield base
    backend = getattr(base.service, "_backend", None)
    if backend:
        backend.close()
