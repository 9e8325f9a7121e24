"""The containers that were started from an inference image. Each starts once, however many checks look at it."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slipway.emulator.hosting import Host, Served, host
from slipway.emulator.layout import open_to_all
from slipway.engine.docker import ContainerSpec, Engine, Mount
from slipway.errors import EndpointError
from slipway.verify.endpoints import Ended, Hosted, Tenants
from slipway.verify.wheels import write_wheel

PROBE = Path(__file__).parent / "probe"
# A container that does not start in this time will not start: the probe's models are small.
START_LIMIT = 60.0


Start = Callable[..., Hosted]


@pytest.fixture(scope="session")
def machine(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Host]]:
    """Makes one machine for each container, so that none sees another's network."""
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(host(engine, tmp_path_factory.mktemp("host")))


@pytest.fixture(scope="session")
def framework_model(engine: Engine, image: str, kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    """A model in the framework's own format, made by the image itself, where its server does not start without one."""
    maker = PROBE / "models" / f"make_{kind.partition('-')[0]}.py"
    if not maker.exists():
        return None
    folder = tmp_path_factory.mktemp("framework")
    folder.chmod(0o777)
    spec = ContainerSpec(
        image=image,
        name="maker",
        entrypoint=("python3", f"/probe/{maker.name}", "/made"),
        mounts=(Mount(maker.parent, "/probe", read_only=True), Mount(folder, "/made")),
    )
    with engine.run() as run:
        container = run.create(spec)
        output = container.attach()
        container.start()
        said = b"".join(block for _, block in output).decode("utf-8", "replace")
        assert container.wait().code == 0, f"{maker.name} failed in the image:\n{said[-2000:]}"
    open_to_all(folder)
    return folder


@pytest.fixture(scope="session")
def model(framework_model: Path | None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model's files: sub-folders, odd names, nothing at all; the framework's own among them."""
    folder = tmp_path_factory.mktemp("model")
    if framework_model is not None:
        shutil.copytree(framework_model, folder, dirs_exist_ok=True)
    for name, size in {
        "weights.bin": 1 << 20,
        "deep/er/part-0002.bin": 4099,
        ".hidden": 7,
        "blank name ü.txt": 0,
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(size))
    return folder


@pytest.fixture(scope="session")
def start(machine: Callable[[], Host], image: str, model: Path) -> Start:
    """Starts a container with a folder of the probe as its code, and waits until it is healthy."""

    def started(code: Path | None, *, healthy: bool = True, **fields: Any) -> Hosted:
        environment = {"SAGEMAKER_MODEL_SERVER_WORKERS": "1", **fields.pop("environment", {})}
        served = Served(
            image=image,
            source=code,
            environment=environment,
            start_limit=START_LIMIT,
            **{"model": str(model), **fields},
        )
        serving = machine().start(served)
        if healthy:
            serving.wait_until_healthy()
        return Hosted(serving, model)

    return started


@pytest.fixture(scope="session")
def hosted(start: Start) -> Hosted:
    """The probe's container, with all that its own functions can be asked."""
    return start(PROBE / "serving", environment={"SLIPWAY_METRICS_LOG_SECONDS": "0.5"})


@pytest.fixture(scope="session")
def plain_hosted(start: Start) -> Hosted:
    """User code that leaves content types to the toolkit; nothing but /tmp can be written."""
    return start(PROBE / "plain", read_only=True)


@pytest.fixture(scope="session")
def bare_hosted(start: Start) -> Hosted:
    """A model without user code."""
    return start(None)


@pytest.fixture(scope="session")
def user_hosted(start: Start, anybody: int) -> Hosted:
    return start(PROBE / "plain", user=f"{anybody}:{anybody}")


@pytest.fixture(scope="session")
def requiring_hosted(start: Start, tmp_path_factory: pytest.TempPathFactory) -> Hosted:
    """A model that brings a wheel along and requires it by path; the server listens on another port."""
    code = tmp_path_factory.mktemp("requiring")
    (code / "inference.py").write_text(
        "try:\n    from slipway_probe_package import ANSWER\n"
        "except ImportError:\n    ANSWER = 'it is not installed'\n"
        "def model_fn(model_dir): return ANSWER\n"
        "def input_fn(data, content_type): return data\n"
        "def predict_fn(data, model): return model\n"
        "def output_fn(prediction, accept): return prediction\n"
        "def handler(data, context): return ANSWER, 'text/plain'\n"
    )
    write_wheel(code, "slipway_probe_package", "1.0", "ANSWER = '42'\n")
    (code / "requirements.txt").write_text("--no-index\n./slipway_probe_package-1.0-py3-none-any.whl\n")
    return start(code, port=8081)


@pytest.fixture(scope="session")
def ending(start: Start) -> Callable[[Path], Ended]:
    """Starts a container that cannot become healthy."""

    def ended(code: Path) -> Ended:
        found = start(code, healthy=False)
        error = ""
        try:
            found.serving.wait_until_healthy()
        except EndpointError as raised:
            error = str(raised)
        status = found.serving.exit
        statuses = [status for _, status in found.serving.pings]
        return Ended(status.code if status else None, error, found.log(), statuses)

    return ended


@pytest.fixture(scope="session")
def unmet_ended(ending: Callable[[Path], Ended], tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """A model that requires what no index has."""
    code = tmp_path_factory.mktemp("unmet")
    shutil.copy(PROBE / "plain" / "inference.py", code)
    (code / "requirements.txt").write_text("--no-index\nslipway-probe-missing==1.0\n")
    return ending(code)


@pytest.fixture(scope="session")
def raising_ended(ending: Callable[[Path], Ended], tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """A model that cannot be loaded."""
    code = tmp_path_factory.mktemp("raising")
    (code / "inference.py").write_text(
        "def model_fn(model_dir):\n    raise RuntimeError('the weights are of another shape')\n"
        "def predict_fn(data, model):\n    return data\n"
        "def handler(data, context):\n    return data.read(), 'text/plain'\n"
        # Images for TensorFlow load models themselves, and user code with them.
        "import importlib.util\n"
        "if importlib.util.find_spec('sagemaker_tensorflow_serving_container'):\n    model_fn('')\n"
    )
    return ending(code)


@pytest.fixture(scope="session")
def tenants_hosted(machine: Callable[[], Host], image: str, framework_model: Path | None) -> Tenants:
    """A multi-model container with no model in it."""
    found = machine()
    folder = found.work / "models"
    folder.mkdir(mode=0o755)
    serving = found.start(
        Served(
            image=image,
            models=folder,
            start_limit=START_LIMIT,
            environment={"SAGEMAKER_MODEL_SERVER_WORKERS": "1"},
        )
    )
    serving.wait_until_healthy()
    return Tenants(serving, folder, framework_model)
