"""How the server is started, and what that imports."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from sagemaker_inference import model_server
from sagemaker_pytorch_serving_container import serving, torchserve

from .conftest import ROOT


@pytest.fixture
def started(monkeypatch):
    found = []
    monkeypatch.setattr(model_server, "start_model_server", lambda **given: found.append(given))
    return found


def test_main_serves_with_the_handler_of_pytorch(started):
    serving.main()
    assert started == [{"handler_service": "sagemaker_pytorch_serving_container.handler_service"}]


def test_start_torchserve_serves_with_any_handler(started):
    torchserve.start_torchserve()
    torchserve.start_torchserve("/opt/ml/handler.py")
    torchserve.start_torchserve(handler_service="own")
    assert [given["handler_service"] for given in started] == [serving.HANDLER_SERVICE, "/opt/ml/handler.py", "own"]


def test_the_supervisor_imports_no_framework():
    code = (
        "import sys, sagemaker_pytorch_serving_container.serving, sagemaker_pytorch_serving_container.torchserve;"
        "print([name for name in ('torch', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=_environment())
    assert done.stdout.strip() == "[]"


def test_the_toolkit_needs_the_base_toolkit_only():
    project = (ROOT / "toolkits/pytorch-inference/pyproject.toml").read_text()
    assert re.search(r"^dependencies = (.*)$", project, re.MULTILINE)[1] == '["slipway-inference"]'


def _environment():
    return {"PYTHONPATH": ":".join(path for path in sys.path if path.startswith(str(ROOT)) or "site-packages" in path)}
