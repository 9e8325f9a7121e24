"""The real SageMaker SDKs as clients of an image: each in a virtual environment of its own, with no AWS behind it.

A client is one of the programs beside this file (v2.py, v3.py). It runs one job in local mode, which starts the image
with docker compose as its SDK sees fit. AWS itself, as far as an SDK insists on it, is a stand-in on this machine.
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from slipway import lock, process, settings
from slipway.engine.docker import Engine
from slipway.errors import NotFoundError
from slipway.files import locked, sha256_file
from slipway.records import Records
from slipway.spec import load
from slipway.spec.select import Selector, select

HERE = Path(__file__).parent
PROJECT = HERE.parents[2]
SOURCE = HERE / "source"

# Before each line of a container: its name, or that of its service, and what a terminal is told.
_PREFIX = re.compile(r"^(?:\x1b\[[0-9;]*[A-Za-z])*\S*?(algo-\d+)\S*\s+(?:\x1b\[[0-9;]*m)*\| ?(?:\x1b\[0m)?(.*)$")
_LONGEST_JOB = 180.0  # seconds
_NO_TELEMETRY = "SchemaVersion: '1.0'\nSageMaker: {PythonSDK: {Modules: {TelemetryOptOut: true}}}\n"


@dataclass(frozen=True, kw_only=True)
class Job:
    """What a client is asked to run. Paths are of this machine."""

    image: str
    source: str
    entry: str = "report.py"  # v3: empty, for a job without source code
    requirements: str = ""  # v3 only; v2 leaves it to the image
    command: str = ""  # v3 only
    hosts: int = 1
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    distribution: Mapping[str, Any] = field(default_factory=dict)  # v2: as the SDK takes it; v3: {"torchrun": {…}}
    channels: Mapping[str, str] = field(default_factory=dict)
    output: str = ""  # v2 only: URI of where the artifacts go
    local_code: bool = False  # v2 only: the source is mounted; otherwise it goes through the output's bucket


@dataclass(frozen=True)
class Finished:
    """How a client's job ended. `error` is what the SDK raised, if it did; `lines` what each host printed."""

    error: str
    lines: Mapping[str, tuple[str, ...]]
    root: Path
    text: str

    @property
    def report(self) -> dict[str, Any]:
        """What report.py said on the only host."""
        (found,) = [line for lines in self.lines.values() for line in lines if line.startswith("report ")]
        return dict(json.loads(found.removeprefix("report ")))

    @property
    def printed(self) -> list[str]:
        return [line for lines in self.lines.values() for line in lines]


@dataclass(frozen=True)
class Client:
    """One SDK, ready to run jobs."""

    version: str
    python: Path
    environment: Mapping[str, str]

    def run(self, job: Job, folder: Path) -> Finished:
        """Run a job to its end, whatever that is, and clear away its containers and network."""
        root = folder / f"slipway-{secrets.token_hex(6)}"  # compose calls the containers by this name
        root.mkdir()
        request = folder / "job.json"
        request.write_text(json.dumps({**asdict(job), "root": str(root)}))
        done = self.program([HERE / f"{self.version}.py", request], folder)
        error = f"\n{done.stderr}".rpartition("\nraised ")[2].strip() if done.code else ""
        return Finished(error, _by_host(done.stdout), root, done.stdout + done.stderr)

    def program(self, words: Sequence[str | Path], folder: Path) -> process.Completed:
        """Run a Python program that starts jobs, and clear away their containers and network."""
        config = folder / "sdk.yaml"
        config.write_text(_NO_TELEMETRY)
        environment = {
            **self.environment,
            "SAGEMAKER_USER_CONFIG_OVERRIDE": str(config),
            "SAGEMAKER_ADMIN_CONFIG_OVERRIDE": str(config),
            "TMPDIR": str(folder),
        }
        # Every SDK calls the jobs' network, and v3 the hosts on it, by the same names whoever runs a job.
        with locked(_state() / "clients" / "jobs.lock"):
            try:
                return process.run(
                    ["env", "-u", "AWS_PROFILE", "-u", "AWS_SESSION_TOKEN", self.python, *words],
                    cwd=folder,
                    env=environment,
                    timeout=_LONGEST_JOB,
                    check=False,
                )
            finally:
                for file in folder.rglob("docker-compose.yaml"):
                    process.run(["docker", "compose", "--file", file, "down", "--timeout", "0"], check=False)
                _remove_containers(folder)


def _remove_containers(folder: Path) -> None:
    """Those of compose files below a folder that are gone: of endpoints the SDK keeps the containers, not the file."""
    label = "com.docker.compose.project.config_files"
    listed = process.run(["docker", "ps", "--all", "--format", f'{{{{.ID}}}} {{{{.Label "{label}"}}}}'], check=False)
    for line in listed.stdout.splitlines():
        identity, _, file = line.partition(" ")
        if file.startswith(f"{folder}/"):
            process.run(["docker", "rm", "--force", identity], check=False)


@contextlib.contextmanager
def client(version: str) -> Iterator[Client]:
    """An SDK with the stand-in of AWS that its jobs see, containers included."""
    python = environment(version)
    with _aws() as endpoint:
        known = {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
            "AWS_EC2_METADATA_DISABLED": "true",
            "no_proxy": "*",
        }
        yield Client(version, python, known)


def environment(version: str) -> Path:
    """The Python of an SDK's virtual environment, made once for each content of its lock."""
    listed = HERE / f"sdk-{version}.lock"
    folder = _state() / "clients" / sha256_file(listed)[:16]
    python, ready = folder / "bin" / "python", folder / ".ready"
    with locked(folder.with_suffix(".lock")):
        if not ready.exists():
            shutil.rmtree(folder, ignore_errors=True)
            pip = settings.read(project=PROJECT).pip()
            # The CPU build of PyTorch is on its own index, unless a folder of this host has it.
            cpu = "+cpu" in listed.read_text() and not pip.find_links
            index = lock.index_environment(pip, "https://download.pytorch.org/whl/cpu" if cpu else "")
            process.run([lock.uv(), "venv", "--quiet", "--no-config", "--python", "3.11", folder])
            install = [lock.uv(), "pip", "install", "--quiet", "--no-config", "--require-hashes"]
            process.run([*install, "--python", python, "--requirement", listed], env=index, timeout=900)
            ready.touch()
    return python


def training_image(engine: Engine, framework: str = "pytorch") -> str:
    """The newest build of a framework's default training image, which is built where the engine does not have it."""
    (cell, *_) = select(load.load(PROJECT), Selector(framework=framework, scope="training"))
    try:
        reference = Records(_state()).build_of(cell.id).reference
        engine.image(reference)
    except NotFoundError:
        process.run([sys.executable, "-m", "invoke", "build", "--only", cell.id], cwd=PROJECT)
        reference = Records(_state()).build_of(cell.id).reference
    return reference


@contextlib.contextmanager
def _aws() -> Iterator[str]:
    """S3 and STS on this host, at the address by which containers reach it."""
    from moto.server import ThreadedMotoServer

    gateway = "{{(index .IPAM.Config 0).Gateway}}"
    address = process.run(["docker", "network", "inspect", "bridge", "--format", gateway]).stdout.strip()
    server = ThreadedMotoServer(ip_address=address, port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


def _by_host(log: str) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = defaultdict(list)
    for line in log.splitlines():
        if match := _PREFIX.match(line):
            found[match[1]].append(match[2])
    return {host: tuple(lines) for host, lines in found.items()}


def _state() -> Path:
    return settings.read(project=PROJECT).state
