"""The smoke steps: a probe measures inside an image or on this host, the test functions judge.

    pytest tests/smoke --bare [--device cpu|cuda] [--lock FILE …]    with the framework beside this pytest
    pytest tests/smoke --inside REFERENCE [--device cpu|cuda]        in an image of the engine

`invoke smoke` does the second and files what comes of it. Needs no package but pytest where it runs bare.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slipway.errors import NoDeviceError
from slipway.verify import probing

PROBE = Path(__file__).parent / "probe"
PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)", re.MULTILINE)
Numbers = dict[str, Any]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("smoke")
    group.addoption("--bare", action="store_true", help="run the steps with the framework beside this pytest")
    group.addoption("--inside", metavar="REFERENCE", help="run the steps inside this image")
    group.addoption("--device", choices=("cpu", "cuda"), help="default: cuda where there is an NVIDIA GPU, else cpu")
    group.addoption("--lock", action="append", default=[], help="a lock that the installed packages must follow")


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """Without a place to run in there is nothing to collect."""
    return None if config.getoption("--bare", default=False) or config.getoption("--inside", default=None) else True


def pytest_report_header(config: pytest.Config) -> str:
    return f"smoke: device {device_of(config)}"


def device_of(config: pytest.Config) -> str:
    """The device asked for; else cuda where this machine has a driver for it."""
    there = any(Path(node).exists() for node in ("/dev/nvidiactl", "/dev/dxg"))
    return str(config.getoption("--device", default=None) or ("cuda" if there else "cpu"))


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> str:
    return device_of(request.config)


@pytest.fixture(scope="session")
def report(request: pytest.FixtureRequest, device: str) -> probing.Report:
    """What the probe reported of the steps that were chosen, from one start."""
    steps = [step_of(item) for item in request.session.items]
    if not request.config.getoption("--bare"):
        from slipway import settings
        from slipway.engine.docker import Engine

        engine = Engine.connect(settings.read().environment)
        return probing.inside(engine, request.config.getoption("--inside"), PROBE, device, steps)
    try:
        return probing.bare(PROBE, device, steps)
    except NoDeviceError as error:
        pytest.exit(f"not run: {error.message}", returncode=error.exit_code)


def step_of(item: pytest.Item) -> str:
    """`test_device_memory` judges the step device.memory."""
    return item.name.removeprefix("test_").replace("_", ".", 1)


@pytest.fixture
def numbers(
    request: pytest.FixtureRequest, report: probing.Report, record_property: Callable[[str, object], None]
) -> Numbers:
    """What the step measured. A step for which there is nothing here is skipped, with the reason."""
    if not report.start.get("framework"):
        pytest.skip(f"no framework is installed: {report.said[-300:]}" if report.code else "no framework is installed")
    observed = report.observed(step_of(request.node))
    if observed.absent:
        pytest.skip(observed.absent)
    assert not observed.error, observed.error
    shown = {name: value for name, value in observed.numbers.items() if name != "packages"}
    record_property("numbers", {**shown, "seconds": observed.seconds})
    return dict(observed.numbers)


@pytest.fixture(scope="session")
def pins(request: pytest.FixtureRequest) -> dict[str, str]:
    """Version by package of the locks that were named."""
    texts = [Path(name).read_text(encoding="utf-8") for name in request.config.getoption("--lock")]
    return {re.sub(r"[-_.]+", "-", name).lower(): version for text in texts for name, version in PIN.findall(text)}


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """What every step measured: a run by hand is read by people."""
    for outcome in ("passed", "failed"):
        for done in terminalreporter.getreports(outcome):
            for name, value in done.user_properties:
                if name == "numbers" and done.when == "call":
                    terminalreporter.write_line(f"{done.nodeid.partition('::')[2]}: {probing.in_words(value)}")
