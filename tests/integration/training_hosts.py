"""The hosts of a distributed training job, of which a test may kill, freeze or stop single ones.

The emulator ends the other hosts when one fails, as the service does. Here nobody does that but the toolkit.
"""

from __future__ import annotations

import secrets
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from slipway import process
from slipway.emulator import cluster, layout
from slipway.emulator.cluster import InstanceGroup
from slipway.emulator.job import LogLine, TrainingJob, TrainingResult
from slipway.emulator.layout import HostFolders
from slipway.emulator.training import run_training
from slipway.engine.docker import Container, ContainerSpec, Engine, Exit

from .clients import sdk

TOOLKITS = Path(__file__).parents[2] / "toolkits"
TRAINING_MODULE = "sagemaker_pytorch_container.training:main"

_WHEEL = "import sys, flit_core.buildapi as api; api.build_wheel(sys.argv[1])"


def build_wheels(target: Path, *names: str) -> None:
    """Build the wheels of toolkits into a folder."""
    for name in names:
        process.run([sys.executable, "-c", _WHEEL, target], cwd=TOOLKITS / name)


def build_image(context: Path, *lines: str) -> str:
    """Build an image from Dockerfile lines and what lies in a folder. Returns its name."""
    (context / "Dockerfile").write_text("\n".join((*lines, "")))
    reference = f"slipway-test/torch-{secrets.token_hex(6)}"
    process.run(["docker", "buildx", "build", "--provenance=false", "--tag", reference, "--load", context])
    return reference


class Host:
    """One running host, its output followed."""

    def __init__(self, name: str, folders: HostFolders, container: Container) -> None:
        self.name, self.container = name, container
        self.lines: list[str] = []
        self.ended = 0.0
        self.exit: Exit | None = None
        self._folders = folders
        self._news = threading.Condition()
        output = container.attach()
        container.start()
        self._thread = threading.Thread(target=self._follow, args=(output,), daemon=True)
        self._thread.start()

    def _follow(self, output: Iterator[tuple[str, bytes]]) -> None:
        for _, block in output:
            with self._news:
                self.lines += block.decode("utf-8", "replace").splitlines()
                self._news.notify_all()
        exit = self.container.wait()
        with self._news:
            self.exit, self.ended = exit, time.monotonic()
            self._news.notify_all()

    def wait_for(self, line: str, timeout: float = 120.0) -> None:
        """Wait for a line of the log."""
        with self._news:
            self._news.wait_for(lambda: self.exit or line in self.lines, timeout)
        assert line in self.lines, f"{self.name} never printed {line!r}:\n{self.log}"

    def end(self, timeout: float = 180.0) -> int:
        """Wait for the end, and give the exit code."""
        with self._news:
            assert self._news.wait_for(lambda: self.exit, timeout), f"{self.name} did not end:\n{self.log}"
        assert self.exit is not None
        return self.exit.code

    @property
    def log(self) -> str:
        return "\n".join(self.lines)

    @property
    def failure(self) -> str:
        return layout.failure_text(self._folders.failure)


@contextmanager
def training_image(engine: Engine, context: Path, framework: str) -> Iterator[str]:
    """A framework's training image of the matrix with the toolkits of this tree; gone at the end.

    What makes it train is the image's own: its entry point, its environment.
    """
    build_wheels(context, "training", f"{framework}-training")
    install = "python -m pip install --no-index --no-deps --force-reinstall --no-cache-dir /wheels/*.whl"
    then = " && python -m sagemaker_pytorch_container.smddp" if framework == "pytorch" else ""
    reference = build_image(
        context,
        f"FROM {sdk.training_image(engine, framework)}",
        f"RUN --mount=type=bind,target=/wheels {install}{then}",
    )
    yield reference
    process.run(["docker", "image", "rm", "--force", reference], check=False)


class Cluster:
    """Runs jobs on hosts of the emulator and keeps the log lines."""

    def __init__(self, engine: Engine, image: str, folder: Path) -> None:
        self.engine, self.image, self.folder = engine, image, folder
        self.lines: list[LogLine] = []

    def source(self, **files: str) -> Path:
        folder = self.folder / "source"
        for name, text in files.items():
            path = folder / f"{name.replace('__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return folder

    def run(
        self,
        source: Path,
        hyperparameters: dict[str, Any],
        stop_when: Callable[[LogLine], bool] | None = None,
        **job: Any,
    ) -> TrainingResult:
        job = {"entry": "train.py", "hosts": 2, "image": self.image, **job}
        given = TrainingJob(source=source, hyperparameters=hyperparameters, **job)
        return run_training(given, self.engine, self.folder / "out", on_line=self.lines.append, stop_when=stop_when)

    def printed(self, start: str = "") -> list[str]:
        return sorted(line.text for line in self.lines if line.text.startswith(start))


@contextmanager
def start_hosts(
    engine: Engine,
    image: str,
    work: Path,
    source: Path,
    hyperparameters: Mapping[str, Any],
    *,
    hosts: int = 2,
    environment: Mapping[str, str] | None = None,
) -> Iterator[list[Host]]:
    """Start the hosts algo-1 ... of a job with one network; all is gone at the end."""
    names = [f"algo-{number}" for number in range(1, hosts + 1)]
    with engine.run() as run:
        network = run.network()
        yield [
            _start(run, image, network, name, names, work / name, source, hyperparameters, environment or {})
            for name in names
        ]


def _start(
    run: Any,
    image: str,
    network: str,
    name: str,
    names: list[str],
    root: Path,
    source: Path,
    hyperparameters: Mapping[str, Any],
    environment: Mapping[str, str],
) -> Host:
    folders = HostFolders(root)
    folders.make()
    shutil.copytree(source, folders.code)
    documents = {
        "hyperparameters": layout.encode_hyperparameters(hyperparameters, raw=False),
        "resourceconfig": cluster.resource_config(
            name, cluster.place([InstanceGroup(cluster.HOMOGENEOUS, "local", len(names))])
        ),
        "inputdataconfig": {},
    }
    layout.write_configs(folders.config, documents)
    spec = ContainerSpec(
        image=image,
        name=name,
        command=("train",),
        environment={"TRAINING_JOB_NAME": "test", **environment},
        mounts=tuple(folders.mounts()),
        network=network,
        aliases=(name,),
        hostname=name,
    )
    return Host(name, folders, run.create(spec))


LOST = """\
import time
print("training", flush=True)
time.sleep(300)
"""


def lose_a_host(engine: Engine, image: str, folder: Path, values: Mapping[str, Any], dies: int) -> None:
    """Kill one of two training hosts: the other ends in time, by itself, and names it."""
    source = folder / "source"
    source.mkdir()
    (source / "train.py").write_text(LOST)
    with start_hosts(engine, image, folder, source, {"sagemaker_program": "train.py", **values}) as pair:
        for host in pair:
            host.wait_for("training")
        pair[dies].container.signal("SIGKILL")
        assert pair[1 - dies].end(120) not in (0, 137)
        assert pair[1 - dies].failure.startswith(f"Host {pair[dies].name} was lost"), pair[1 - dies].failure
