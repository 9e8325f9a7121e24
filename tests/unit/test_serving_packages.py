"""What the serving toolkits bring into an image: few packages, of which each is there for the server."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from slipway.spec.load import load

ROOT = Path(__file__).parents[2]
LOCKS = ROOT / "buildspec" / "locks"
MOST = 8
"""Packages that an image gets for the server, our own included."""
FOR_MODELS = {"safetensors"}
"""In the images for users' models; no toolkit requires it."""


def locked(lock: Path) -> set[str]:
    return set(re.findall(r"^([a-z0-9.-]+)==", lock.read_text(), re.MULTILINE))


def required() -> set[str]:
    """What any serving toolkit requires."""
    found = set()
    for project in (ROOT / "toolkits").glob("*inference/pyproject.toml"):
        (block,) = re.findall(r"^dependencies = \[(.*?)\]", project.read_text(), re.MULTILINE | re.DOTALL)
        found.update(re.findall(r'"([a-z0-9-]+)', block))
    return found


@pytest.mark.parametrize("framework", ["pytorch", "mxnet"])
def test_a_serving_image_gets_few_packages(framework: str) -> None:
    toolkits = next(
        image.toolkits for image in load(ROOT).images if (image.framework, image.scope) == (framework, "inference")
    )
    locks = sorted(LOCKS.glob(f"{framework}-*/inference.txt"))
    assert locks
    assert not FOR_MODELS & required()
    for lock in locks:
        packages = locked(lock) - FOR_MODELS
        assert packages >= {"uvicorn", "httptools", "uvloop", "websockets"}, lock
        assert len(packages) + len(toolkits) <= MOST, f"{lock.parent.name}: {sorted(packages)}"
