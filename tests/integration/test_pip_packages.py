"""The toolkits by pip in somebody's own image, which knows nothing else of this project."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pip
import pytest

from slipway import process
from slipway.engine.docker import ContainerSpec, Engine

from .training_hosts import TRAINING_MODULE, Cluster, build_image, build_wheels

pytestmark = pytest.mark.integration

INSTALL = (
    "RUN --mount=type=bind,target=/context python -m pip install --no-index --no-cache-dir"
    # Debian's pip asks for this word; in a job the toolkit says it.
    " --break-system-packages --find-links /context/wheels slipway-pytorch-training"
)

PACKAGES = "/usr/local/lib/python3.11/dist-packages/"

# What is the toolkit's part of the contract. The rest is the image's own: its programs, labels and files.
GROUPS = ("job", "channels", "hyperparameters", "metrics", "output", "requirements", "ending", "users")


@pytest.fixture(scope="module")
def before(base_image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Somebody's image: a Debian with Python and pip."""
    context = tmp_path_factory.mktemp("before")
    shutil.copytree(Path(pip.__file__).parent, context / "pip", ignore=shutil.ignore_patterns("__pycache__"))
    made = build_image(
        context,
        f"FROM {base_image}",
        "COPY pip /usr/local/lib/python3.11/dist-packages/pip",
        "RUN ln -s python3 /usr/bin/python",
    )
    yield made
    process.run(["docker", "image", "rm", "--force", made], check=False)


@pytest.fixture(scope="module")
def foreign(before: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The same after one pip command; no ENTRYPOINT."""
    context = tmp_path_factory.mktemp("foreign")
    (context / "wheels").mkdir()
    build_wheels(context / "wheels", "training", "pytorch-training")
    made = build_image(context, f"FROM {before}", INSTALL)
    yield made
    process.run(["docker", "image", "rm", "--force", made], check=False)


def files(engine: Engine, image: str) -> dict[str, int]:
    with engine.run() as run:
        find = ("find", "/", "-xdev", "-type", "f", "-not", "-path", "/proc/*", "-not", "-path", "/sys/*")
        find = (*find, "-printf", "%s %p\\n")
        finder = run.create(ContainerSpec(image=image, name="find", command=find))
        output = finder.attach()
        finder.start()
        lines = "".join(block.decode() for _, block in output).splitlines()
        return {path: int(size) for size, _, path in (line.partition(" ") for line in lines)}


def test_pip_brings_the_base_toolkit_and_nothing_else(engine: Engine, before: str, foreign: str) -> None:
    after, found = files(engine, foreign), files(engine, before)
    added = {path: size for path, size in after.items() if path not in found and f"{PACKAGES}pip/" not in path}
    assert sum(added.values()) < 1_000_000
    assert {path.removeprefix(PACKAGES).partition("/")[0] for path in added if path.startswith(PACKAGES)} == {
        "sagemaker_training",
        "sagemaker_pytorch_container",
        "slipway_training-0.1.0.dist-info",
        "slipway_pytorch_training-0.1.0.dist-info",
    }
    programs = {"/usr/local/bin/train", "/usr/local/bin/serve"}
    assert {path for path in added if not path.startswith(PACKAGES)} == programs
    config = engine.image(foreign)["Config"]
    assert not config.get("Entrypoint")


def test_it_passes_the_training_contract(foreign: str) -> None:
    checks = [word for group in GROUPS for word in ("--check", group)]
    done = process.run(
        [sys.executable, "-m", "pytest", "tests/contract", "-q", "--image", foreign, *checks],
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert done.code == 0, done.stdout
    assert "skipped" not in done.stdout, done.stdout


@pytest.mark.parametrize("module", ["", TRAINING_MODULE])
def test_jobs_run_in_it(engine: Engine, foreign: str, tmp_path: Path, module: str) -> None:
    cluster = Cluster(engine, foreign, tmp_path)
    source = cluster.source(
        train="import os, sys\nprint('arguments', sys.argv[1:], os.environ['SM_FRAMEWORK_MODULE'])\n"
        "open(os.path.join(os.environ['SM_MODEL_DIR'], 'model'), 'w').close()"
    )
    environment = {"SAGEMAKER_TRAINING_MODULE": module} if module else {}
    result = cluster.run(source, {"lr": 0.1, "name": "a b"}, hosts=1, environment=environment)
    assert result.status == "Completed", result.failure_reason
    assert cluster.printed("arguments") == [f"arguments ['--lr', '0.1', '--name', 'a b'] {module}"]
    assert result.model is not None


@pytest.mark.parametrize("ending", ["sys.exit(3)", "raise ValueError('bad batch')"])
def test_failures_are_told(engine: Engine, foreign: str, tmp_path: Path, ending: str) -> None:
    cluster = Cluster(engine, foreign, tmp_path)
    source = cluster.source(train=f"import sys\n{ending}")
    result = cluster.run(source, {}, hosts=1, environment={"SAGEMAKER_TRAINING_MODULE": TRAINING_MODULE})
    assert result.status == "Failed"
    assert result.exit_code == (3 if "exit" in ending else 1)
    assert ("exit" in ending) or result.failure_reason.startswith("AlgorithmError: ValueError: bad batch")


def test_torchrun_without_torch_says_what_is_missing(engine: Engine, foreign: str, tmp_path: Path) -> None:
    cluster = Cluster(engine, foreign, tmp_path)
    job: dict[str, Any] = {"hosts": 1, "environment": {"SAGEMAKER_TRAINING_MODULE": TRAINING_MODULE}}
    result = cluster.run(cluster.source(train=""), {"sagemaker_torch_distributed_enabled": True}, **job)
    assert result.status == "Failed"
    assert "No module named 'torch'" in result.failure_reason
