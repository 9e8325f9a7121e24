"""What every check may look at: one image, its configuration, its files and programs.

Run by `invoke verify`, or by hand:

    pytest tests/contract --image REFERENCE [--check ID …]
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slipway import settings as settings_module
from slipway.engine.docker import Engine
from slipway.verify import contract as contracts
from slipway.verify import inspection, probing
from slipway.verify.plugin import Verification

HERE = Path(__file__).parent
PROJECT = HERE.parent.parent
PROBE = HERE / "probe"
STEPS = (
    *("numerics.precision", "numerics.convolution", "training.step", "training.checkpoint"),
    *("training.loader", "serving.equal"),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("contract")
    group.addoption("--image", help="the image to check: a reference or ID of the engine")
    group.addoption("--reference", default="", help="the name that the image goes by, if --image is an ID")
    group.addoption("--kind", default="training", help="which contract it is held to")
    group.addoption("--check", action="append", default=[], help="only this check or group, with what it needs")


def pytest_configure(config: pytest.Config) -> None:
    """Without `invoke verify` the plugin that orders and blocks checks is ours to bring."""
    known = any(isinstance(plugin, Verification) for plugin in config.pluginmanager.get_plugins())
    if known or not config.getoption("--image", default=None):
        return
    contract = contracts.load(PROJECT, config.getoption("--kind"))
    ids = [check.id for kind in contracts.kinds(PROJECT) for check in contracts.load(PROJECT, kind).checks]
    config.pluginmanager.register(Verification(contract.choose(config.getoption("--check")), ids))


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """Without an image there is nothing to check."""
    return None if config.getoption("--image", default=None) else True


@pytest.fixture(scope="session")
def engine() -> Engine:
    return Engine.connect(settings_module.read(project=PROJECT).environment)


@pytest.fixture(scope="session")
def image(request: pytest.FixtureRequest) -> str:
    return str(request.config.getoption("--image"))


@pytest.fixture(scope="session")
def reference(request: pytest.FixtureRequest, image: str) -> str:
    return str(request.config.getoption("--reference") or image)


@pytest.fixture(scope="session")
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.config.getoption("--kind"))


@pytest.fixture(scope="session")
def config(engine: Engine, image: str) -> dict[str, Any]:
    """The image's configuration, as the engine describes it: Env, Cmd, Labels …"""
    return {"Env": [], "Labels": {}, **_given(engine.image(image).get("Config"))}


def _given(found: dict[str, Any] | None) -> dict[str, Any]:
    """What is not null: engines write null for what an image leaves out."""
    return {name: value for name, value in (found or {}).items() if value is not None}


@pytest.fixture(scope="session")
def looked(engine: Engine, image: str) -> inspection.Inspection:
    """What a look inside one container of the image found: no job, no toolkit."""
    return inspection.look(engine, image, PROBE)


@pytest.fixture(scope="session")
def tried(engine: Engine, image: str) -> probing.Report:
    """What the smoke steps measured on the CPU: those that every framework has and that take little time."""
    return probing.inside(engine, image, PROJECT / "tests/smoke/probe", "cpu", STEPS)


@pytest.fixture(scope="session")
def anybody() -> int:
    """The ID of a user that no image knows."""
    return 4711
