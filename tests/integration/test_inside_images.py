"""Runs the tests of `inside/` in the images that have the frameworks they need: one container for each file.

The container has no network, a read-only root and no name for its user, as a hardened host would have it. The toolkits
are those of this tree, in front of the image's own.
"""

from __future__ import annotations

import ast
import json
from functools import cache
from pathlib import Path

import pytest

from slipway.engine.docker import ContainerSpec, Engine, Mount

from .inside.run import MARK

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
INSIDE = Path(__file__).with_name("inside")
HUGGINGFACE = "huggingface-pytorch-inference:2.13.0-transformers5.24.0-cpu-py311-debian12-dev"
HUGGINGFACE_TENSORFLOW = "huggingface-tensorflow-inference:2.15.1-transformers4.57.6-cpu-py311-debian12-dev"
HUGGINGFACE_TOOLKITS = ("huggingface-inference", "pytorch-inference", "inference")
# File -> image, and the toolkits that it has; what the tests of the first one share is there too.
IMAGES = {
    "test_pytorch.py": ("pytorch-inference:2.13.0-cpu-py311-debian12-dev", ("pytorch-inference", "inference")),
    "test_mxnet.py": ("mxnet-inference:1.9.1-cpu-py311-debian12-dev", ("mxnet-inference", "inference")),
    "test_tensorflow.py": (
        "tensorflow-inference:2.21.0-cpu-py311-debian12-dev",
        ("tensorflow-inference", "inference"),
    ),
    "test_huggingface.py": (HUGGINGFACE, HUGGINGFACE_TOOLKITS),
    "test_huggingface_hub.py": (HUGGINGFACE, HUGGINGFACE_TOOLKITS),
    "test_huggingface_tensorflow.py": (HUGGINGFACE_TENSORFLOW, HUGGINGFACE_TOOLKITS),
}
SLOW = ("test_huggingface_hub.py",)


def checks(file: str) -> list[str]:
    tree = ast.parse((INSIDE / file).read_text())
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]


@cache
def outcomes(engine: Engine, file: str) -> tuple[dict[str, str], str]:
    """(what failed each check, empty where nothing did; the container's whole output)."""
    image, toolkits = IMAGES[file]
    shared = ROOT / "tests/toolkits" / toolkits[0]
    mounts = [Mount(INSIDE, "/inside", read_only=True), Mount(shared, "/shared", read_only=True)]
    mounts += [Mount(ROOT / "toolkits" / name / "src", f"/toolkits/{name}", read_only=True) for name in toolkits]
    with engine.run() as run:
        container = run.create(
            ContainerSpec(
                image=image,
                name=f"slipway-{run.id}-inside",
                command=("python", "/inside/run.py", f"/inside/{file}"),
                environment={"PYTHONPATH": ":".join([*(f"/toolkits/{name}" for name in toolkits), "/shared"])},
                mounts=tuple(mounts),
                user="4711:4711",
                read_only=True,
                tmpfs=("/tmp",),
            )
        )
        output = container.attach()
        container.start()
        text = b"".join(lines for _, lines in output).decode(errors="replace")
    marked = [json.loads(line.removeprefix(MARK)) for line in text.splitlines() if line.startswith(MARK)]
    return dict(marked), text


@pytest.mark.parametrize(
    ("file", "check"),
    [
        pytest.param(file, check, marks=[pytest.mark.slow] if file in SLOW else [])
        for file in IMAGES
        for check in checks(file)
    ],
)
def test_inside(engine: Engine, file: str, check: str) -> None:
    found, output = outcomes(engine, file)
    assert check in found, output
    assert not found[check], found[check]
