"""A hosting container on this machine's engine: started, watched, called and stopped as SageMaker does.

Source of the rules: the SageMaker developer guide, "Use Your Own Inference Code with Hosting Services" and "... with
Batch Transform".
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from slipway.emulator import layout, model_data
from slipway.emulator.exchange import Answer, NoAnswer, Request, exchange, streaming
from slipway.emulator.job import LogLine
from slipway.engine.docker import Container, ContainerSpec, Engine, Exit, Mount, Run
from slipway.engine.interrupts import uninterrupted
from slipway.errors import EndpointError, Fault, InputError
from slipway.files import naming_full_disk

MB = 1 << 20  # as the service counts
PORT = 8080
PING_LIMIT = 2.0
"""Seconds in which /ping must answer."""

MODEL = f"{layout.ML}/model"
MODELS = f"{layout.ML}/models"

_PAUSE = 0.1  # between two looks at a container that starts
_TAIL = 40


@dataclass(frozen=True, kw_only=True)
class Served:
    """What is to be served. Times in seconds, memory in bytes.

    `model`: as model_data.place takes it; empty: none, which the platform allows. `source` and `entry`: user code, put
    into the model's `code` folder and named to the container as the SageMaker SDK does. `models`: the folder that a
    multi-model container sees as /opt/ml/models. `start_limit` is ContainerStartupHealthCheckTimeoutInSeconds.
    """

    image: str
    name: str = "model"
    model: str = ""
    source: Path | None = None
    entry: str = "inference.py"
    models: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    region: str = "us-east-1"
    port: int = PORT
    start_limit: float = 480.0
    stop_grace: float = 30.0
    user: str = ""
    read_only: bool = False
    memory: int = 0
    shm: int = 2 << 30


@dataclass
class Serving:
    """A container that was started. `port`: where this machine reaches it. `log`: both its streams, by arrival.

    `pings`: what /ping said until it was healthy, with the time (as time.time has it) at which it was asked.
    """

    served: Served
    port: int
    log: Path
    container: Container
    exit: Exit | None = None
    seconds_to_ready: float = 0.0
    pings: list[tuple[float, int | None]] = field(default_factory=list)
    error: BaseException | None = None
    ended: threading.Event = field(default_factory=threading.Event)
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=_TAIL))

    def ping(self) -> Answer | None:
        """What /ping says; None when nothing answers in its time."""
        try:
            return exchange(self.port, Request("GET", "/ping", timeout=PING_LIMIT))
        except NoAnswer:
            return None

    def call(self, request: Request) -> Answer:
        """One request and its whole answer. Raises EndpointError when there is none."""
        try:
            return exchange(self.port, request)
        except NoAnswer as error:
            raise self.failed(f"{request.method} {request.path}: {error}") from None

    @contextlib.contextmanager
    def stream(self, request: Request) -> Iterator[tuple[Answer, Iterator[bytes]]]:
        """One request, the head of its answer, and its parts as they come. Raises EndpointError when there is none."""
        try:
            with streaming(self.port, request) as answer:
                yield answer
        except NoAnswer as error:
            raise self.failed(f"{request.method} {request.path}: {error}") from None

    def wait_until_healthy(self) -> None:
        """Return when /ping answers 200. Raises EndpointError when the container ends or the start limit passes."""
        begun = time.monotonic()
        last = "nothing answered"
        while time.monotonic() - begun < self.served.start_limit:
            if self.ended.is_set():
                raise self.failed("ended before it was healthy")
            asked = time.time()
            answer = self.ping()
            self.pings.append((asked, answer.status if answer else None))
            if answer is not None and answer.status == 200:
                self.seconds_to_ready = time.monotonic() - begun
                return
            last = last if answer is None else f"/ping answered {answer.status} {answer.text(200)}".rstrip()
            self.ended.wait(_PAUSE)
        raise self.failed(f"was not healthy within {self.served.start_limit:g} s: {last}")

    def stop(self) -> Exit:
        """SIGTERM, SIGKILL after the grace; how it ended."""
        with uninterrupted():
            self.container.stop(max(1, round(self.served.stop_grace)))
        self.ended.wait()
        if self.error is not None:
            raise self.error
        assert self.exit is not None
        return self.exit

    def failed(self, what: str) -> EndpointError:
        """What is wrong with the container, with the end of its log."""
        # The container's end is known a little later than the break of its connections.
        self.ended.wait(1.0)
        how = ""
        if self.exit is not None:
            how = f", exit code {self.exit.code}" + (", out of memory" if self.exit.out_of_memory else "")
        faults = [Fault(line) for line in list(self.tail)[-15:] if line.strip()]
        return EndpointError(f"{self.served.name}: {what}{how}", faults=faults, fix=f"see {self.log}")

    def follow(self, output: Iterator[tuple[str, bytes]], on_line: Callable[[LogLine], None]) -> None:
        """Keep its log until it ends."""
        try:
            with self.log.open("wb") as log:
                for stream, block in output:
                    log.write(block)
                    log.flush()
                    for text in block.decode("utf-8", "replace").removesuffix("\n").split("\n"):
                        self.tail.append(text)
                        on_line(LogLine(self.served.name, stream, text))
            self.exit = self.container.wait()
        except BaseException as error:
            self.error = error
        finally:
            self.ended.set()


@dataclass(frozen=True)
class Host:
    """One machine of an endpoint: its containers share a network, and go when it does."""

    run: Run
    network: str
    work: Path
    logs: Path
    on_line: Callable[[LogLine], None]
    s3_endpoint: str | None

    def start(self, served: Served) -> Serving:
        """Start a container; it is not healthy yet. Raises InputError for a model that cannot be placed."""
        mounts, environment = self._model(served), {**_environment(served), **served.environment}
        if served.models is not None:
            mounts.append(Mount(served.models.resolve(), MODELS, read_only=True))
        container = self.run.create(
            ContainerSpec(
                image=served.image,
                name=served.name,
                command=("serve",),
                environment=environment,
                mounts=tuple(mounts),
                network=self.network,
                aliases=(served.name,),
                hostname="model.aws.local",
                user=served.user,
                read_only=served.read_only,
                tmpfs=("/tmp",) if served.read_only else (),
                shm_bytes=served.shm,
                memory_bytes=served.memory,
                ports=(served.port,),
            )
        )
        output = container.attach()
        container.start()
        self.logs.mkdir(parents=True, exist_ok=True)
        serving = Serving(served, container.published(served.port), self.logs / f"{served.name}.log", container)
        threading.Thread(target=serving.follow, args=(output, self.on_line), daemon=True).start()
        return serving

    def _model(self, served: Served) -> list[Mount]:
        if not served.model and served.source is None:
            return []
        folder = self.work / served.name
        placed = model_data.place(served.model, folder, self.s3_endpoint) if served.model else None
        if served.source is not None:
            if placed != folder:
                folder.mkdir()
                if placed is not None:
                    model_data.copy(placed, folder)
            # In place of the archive's own, as the SDK's repacking does.
            shutil.rmtree(folder / "code", ignore_errors=True)
            layout.copy_source(served.source, folder / "code", leave_out=self.work)
            placed = folder
        assert placed is not None
        return [Mount(placed, MODEL, read_only=True)]


@contextlib.contextmanager
def host(
    engine: Engine,
    output: Path,
    *,
    on_line: Callable[[LogLine], None] | None = None,
    s3_endpoint: str | None = None,
) -> Iterator[Host]:
    """A machine for containers that serve; at its end nothing is left but the logs, in `output`."""
    with naming_full_disk(output):
        output.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=".host-", dir=output.resolve()))
    try:
        work.chmod(0o755)
        with engine.run() as run:
            yield Host(run, run.network(), work, output / "logs", on_line or (lambda line: None), s3_endpoint)
    finally:
        with uninterrupted():
            shutil.rmtree(work, ignore_errors=True)


@contextlib.contextmanager
def hosted(
    served: Served,
    engine: Engine,
    output: Path,
    *,
    on_line: Callable[[LogLine], None] | None = None,
    s3_endpoint: str | None = None,
) -> Iterator[Serving]:
    """One container, healthy. Raises EndpointError when it does not become so."""
    check(served)
    engine.image(served.image)
    with host(engine, output, on_line=on_line, s3_endpoint=s3_endpoint) as machine:
        serving = machine.start(served)
        serving.wait_until_healthy()
        yield serving


def check(served: Served) -> None:
    """Raises InputError with every fault of what is to be served."""
    faults = []
    if served.source is not None and not (served.source / served.entry).is_file():
        held = sorted(path.name for path in served.source.iterdir()) if served.source.is_dir() else []
        fix = f"it holds: {', '.join(held[:10]) or 'nothing'}"
        faults.append(Fault(f"there is no {served.entry} in the source folder", fix, str(served.source)))
    if served.start_limit <= 0 or served.stop_grace <= 0:
        faults.append(Fault("a time limit of no seconds", "give 1 or more"))
    if faults:
        raise InputError("this cannot be served", faults=faults)


def _environment(served: Served) -> dict[str, str]:
    """What the platform sets, and with user code what the SageMaker SDK does."""
    found = {"AWS_REGION": served.region, "AWS_DEFAULT_REGION": served.region}
    if served.models is not None:
        found |= {"SAGEMAKER_MULTI_MODEL": "true", "SAGEMAKER_SAFE_PORT_RANGE": "9000-9999"}
    if served.port != PORT:
        found["SAGEMAKER_BIND_TO_PORT"] = str(served.port)
    if served.source is not None:
        found |= {
            "SAGEMAKER_PROGRAM": served.entry,
            "SAGEMAKER_SUBMIT_DIRECTORY": f"{MODEL}/code",
            "SAGEMAKER_CONTAINER_LOG_LEVEL": "20",
            "SAGEMAKER_REGION": served.region,
        }
    return found
