"""The Docker engine behind a small typed interface: containers, networks, logs as bytes.

Everything belongs to a `Run`. A run's containers and networks carry its id as a label and are gone when its `with`
block ends, also after an exception or Ctrl-C. The id is random, so two runs never meet. A second label names the
process, so that what a killed one left behind can be told from what is in use.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slipway import process
from slipway.engine.interrupts import uninterrupted
from slipway.errors import EngineError, NoDeviceError, NotFoundError

LABEL = "slipway.run"
OWNER = "slipway.pid"

LONGEST_LINE = 1 << 20
"""Bytes after which a line without a line feed is handed on in parts, so that memory stays bounded."""

_COMES_BACK = 20
"""Times, a second apart, that an engine which went away is asked to remove what a run made."""

_LOOK_AGAIN = 0.2
"""Seconds until a container is looked at whose wait was cut off."""

_NO_ENGINE = "start Docker (`./run` does so on Debian and Ubuntu), or point DOCKER_HOST at an engine that runs"

_NO_GPU = ("could not select device driver", "nvidia-container-cli", "unresolvable CDI devices")
"""What an engine says without NVIDIA's toolkit, and what that says without a driver."""
_GPU_FIX = "run it on a host with an NVIDIA GPU, its driver and the NVIDIA Container Toolkit"


@dataclass(frozen=True)
class Mount:
    """A folder or file of this machine shown inside a container."""

    source: Path
    target: str
    read_only: bool = False


@dataclass(frozen=True)
class Ulimit:
    """A resource limit by its name in setrlimit; -1 is no limit."""

    name: str
    soft: int
    hard: int


class LimitsRefused(EngineError):
    """The engine may not raise its own resource limits, so it cannot give a container the limits asked for."""


@dataclass(frozen=True, kw_only=True)
class ContainerSpec:
    """What a container is made from. `entrypoint` and `user` empty: the image's own."""

    image: str
    name: str
    command: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    network: str = "none"
    aliases: tuple[str, ...] = ()
    hostname: str = ""
    user: str = ""
    read_only: bool = False
    tmpfs: tuple[str, ...] = ()
    shm_bytes: int = 64 << 20
    ulimits: tuple[Ulimit, ...] = ()
    ports: tuple[int, ...] = ()  # published on loopback; the engine chooses where
    memory_bytes: int = 0  # 0: no limit
    # True: all that the engine has, as `docker run --gpus all`; else how many. NoDeviceError at start where they lack.
    gpus: bool | int = False


@dataclass(frozen=True)
class Exit:
    """How a container ended. `code` is 128 + N after signal N."""

    code: int
    out_of_memory: bool


@dataclass(frozen=True)
class Container:
    """A container of a run."""

    id: str
    name: str
    _api: Any

    def attach(self) -> Iterator[tuple[str, bytes]]:
        """Follow the output from here on: (`stdout` or `stderr`, a block of whole lines), in order of arrival.

        Attach before `start`, so that nothing is missed. Lines of the two streams never mix within a block. Only the
        last block of a stream may lack its line feed.
        """
        with _speaking(f"attach to {self.name}"):
            frames = self._api.attach(self.id, stdout=True, stderr=True, stream=True, logs=False, demux=True)
        return whole_lines(frames)

    def start(self) -> None:
        with uninterrupted(), _speaking(f"start {self.name}"):
            self._api.start(self.id)

    def signal(self, name: str) -> None:
        """Send a signal to its first process; a container that has ended is left alone."""
        from docker.errors import APIError

        with _speaking(f"send {name} to {self.name}"):
            try:
                self._api.kill(self.id, name)
            except APIError as error:
                # 409: not running, 404: gone.
                if error.status_code not in (404, 409):
                    raise

    def stop(self, grace: int) -> None:
        """SIGTERM, then SIGKILL after `grace` seconds; returns when it has ended."""
        with _speaking(f"stop {self.name}"):
            self._api.stop(self.id, timeout=grace)

    def running(self) -> bool:
        return bool(self.inspect()["State"]["Running"])

    def remove(self) -> None:
        """Remove it now, running or not; the end of its run does so anyway."""
        with _speaking(f"remove {self.name}"):
            self._api.remove_container(self.id, force=True, v=True)

    def wait(self) -> Exit:
        """Wait until it has ended, however long that takes, and whatever ends a connection that is silent for long."""
        import requests

        with _speaking(f"wait for {self.name}"):
            while True:
                try:
                    self._api.wait(self.id, timeout=None)
                except requests.ConnectionError:
                    time.sleep(_LOOK_AGAIN)
                state = self._api.inspect_container(self.id)["State"]
                if state["Status"] not in ("running", "paused", "restarting"):
                    return Exit(int(state["ExitCode"]), bool(state.get("OOMKilled")))

    def published(self, port: int) -> int:
        """The loopback port of this machine behind which a published port of the container is, once it has started."""
        return int(self.inspect()["NetworkSettings"]["Ports"][f"{port}/tcp"][0]["HostPort"])

    def address(self, network: str) -> str:
        """Its address on a network; empty when it runs no more."""
        return str(self.inspect()["NetworkSettings"]["Networks"][network]["IPAddress"])

    def inspect(self) -> dict[str, Any]:
        """The engine's own description."""
        with _speaking(f"inspect {self.name}"):
            found: dict[str, Any] = self._api.inspect_container(self.id)
            return found


@dataclass(frozen=True)
class Run:
    """The containers and networks of one piece of work; made by `Engine.run`."""

    id: str
    _api: Any

    def _labels(self) -> dict[str, str]:
        return {LABEL: self.id, OWNER: str(os.getpid())}

    def network(self) -> str:
        """Make a bridge network on which containers find each other by alias. Returns its name."""
        name = f"slipway-{self.id}"
        with uninterrupted(), _speaking("make a network"):
            self._api.create_network(name, driver="bridge", labels=self._labels(), check_duplicate=True)
        return name

    def create(self, spec: ContainerSpec) -> Container:
        """Make a container, not started. Its log is kept by nobody but who attaches."""
        from docker.types import LogConfig

        api = self._api
        host = api.create_host_config(
            mounts=[_mount(mount) for mount in spec.mounts],
            ulimits=[{"Name": limit.name, "Soft": limit.soft, "Hard": limit.hard} for limit in spec.ulimits],
            shm_size=spec.shm_bytes,
            read_only=spec.read_only,
            tmpfs=dict.fromkeys(spec.tmpfs, "") or None,
            log_config=LogConfig(type=LogConfig.types.NONE),
            network_mode=spec.network,
            port_bindings=dict.fromkeys(spec.ports, ("127.0.0.1", None)),
            mem_limit=spec.memory_bytes or None,
            memswap_limit=spec.memory_bytes or None,  # as much as memory: no swap
            device_requests=[_gpus(spec.gpus)] if spec.gpus else None,
        )
        network = {spec.network: api.create_endpoint_config(aliases=list(spec.aliases))} if spec.aliases else None
        name = f"slipway-{self.id}-{spec.name}"
        with uninterrupted(), _speaking(f"make the container {spec.name} of {spec.image}", spec.image):
            made = api.create_container(
                spec.image,
                command=list(spec.command) or None,
                entrypoint=list(spec.entrypoint) or None,
                environment=dict(spec.environment),
                hostname=spec.hostname or None,
                user=spec.user or None,
                labels=self._labels(),
                name=name,
                ports=list(spec.ports),
                host_config=host,
                networking_config=api.create_networking_config(network) if network else None,
            )
        return Container(made["Id"], spec.name, api)


@dataclass(frozen=True)
class Engine:
    """A Docker engine that answered."""

    _api: Any

    @classmethod
    def connect(cls, environment: Mapping[str, str], *, context: str = "") -> Engine:
        """The engine of a docker context; else of DOCKER_HOST, DOCKER_CONTEXT or the current context, as docker has it.

        Raises EngineError when there is no such context, or no engine answers.
        """
        import docker
        from docker.errors import DockerException

        host = environment.get("DOCKER_HOST")
        name = context or ("" if host else environment.get("DOCKER_CONTEXT", ""))
        try:
            if name:
                return cls(docker.DockerClient.from_env(environment=_endpoint(name), use_ssh_client=True).api)
            current = None if host else docker.ContextAPI.get_current_context()
            if current is not None and current.name != "default":
                return cls(docker.APIClient(base_url=current.Host, tls=current.TLSConfig, use_ssh_client=True))
            return cls(docker.DockerClient.from_env(environment=dict(environment)).api)
        except DockerException as error:
            raise EngineError(f"no Docker engine answers: {error}", fix=_NO_ENGINE) from None

    @contextlib.contextmanager
    def run(self) -> Iterator[Run]:
        """A run; what it made is removed at the end, come what may."""
        run = Run(secrets.token_hex(6), self._api)
        try:
            yield run
        except BaseException as error:
            # An engine that went away is reported by what met it first. One that was started anew comes back soon.
            attempts = _COMES_BACK if isinstance(error, EngineError) else 1
            for attempt in range(attempts):
                try:
                    self.remove_run(run.id)
                    break
                except EngineError:
                    if attempt + 1 < attempts:
                        time.sleep(1)
            raise
        self.remove_run(run.id)

    def remove_run(self, run: str) -> None:
        """Remove all containers, then all networks of a run. Ctrl-C waits until this is done."""
        from docker.errors import NotFound

        only = {"label": f"{LABEL}={run}"}
        with uninterrupted(), _speaking(f"remove what run {run} made"):
            for container in self._api.containers(all=True, filters=only):
                with contextlib.suppress(NotFound):
                    self._api.remove_container(container["Id"], force=True, v=True)
            for network in self._api.networks(filters=only):
                with contextlib.suppress(NotFound):
                    self._api.remove_network(network["Id"])

    def runs(self) -> dict[str, int]:
        """The runs that have something in the engine: their ids, and the ids of the processes that made them."""
        with _speaking("list what runs made"):
            made = [*self._api.containers(all=True, filters={"label": LABEL})]
            made += self._api.networks(filters={"label": LABEL})
        return {item["Labels"][LABEL]: int(item["Labels"].get(OWNER, 0)) for item in made}

    def image(self, reference: str) -> dict[str, Any]:
        """The engine's description of an image. Raises NotFoundError when it does not have it."""
        with _speaking(f"inspect {reference}", reference):
            found: dict[str, Any] = self._api.inspect_image(reference)
            return found

    def layer_sizes(self, reference: str) -> list[int]:
        """Bytes that each layer of an image takes when unpacked, newest first; instructions without files count 0."""
        with _speaking(f"look at {reference}", reference):
            return [int(entry["Size"]) for entry in self._api.history(reference)]

    def info(self) -> dict[str, Any]:
        """What the engine says of itself."""
        with _speaking("describe itself"):
            found: dict[str, Any] = self._api.info()
            return found


def _endpoint(context: str) -> dict[str, str]:
    """Where a docker context leads, as the variables that say so. docker is asked: docker-py finds contexts only beside
    a config.json."""
    asked = process.run(["docker", "context", "inspect", context], check=False)
    if asked.code != 0:
        raise EngineError(f"there is no docker context {context!r}", fix="`docker context ls` shows them")
    (found,) = json.loads(asked.stdout)
    variables = {"DOCKER_HOST": found["Endpoints"]["docker"]["Host"]}
    if (found.get("TLSMaterial") or {}).get("docker"):
        variables |= {"DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(Path(found["Storage"]["TLSPath"]) / "docker")}
    return variables


def whole_lines(frames: Iterable[tuple[bytes | None, bytes | None]]) -> Iterator[tuple[str, bytes]]:
    """Join the frames of two streams, which break anywhere, into blocks of whole lines."""
    rests = {"stdout": bytearray(), "stderr": bytearray()}
    for stdout, stderr in frames:
        for stream, data in (("stdout", stdout), ("stderr", stderr)):
            if not data:
                continue
            rest = rests[stream]
            cut = data.rfind(b"\n") + 1
            if cut:
                yield stream, bytes(rest) + data[:cut]
                rest[:] = data[cut:]
            else:
                rest += data
            if len(rest) > LONGEST_LINE:
                yield stream, bytes(rest)
                rest.clear()
    for stream, rest in rests.items():
        if rest:
            yield stream, bytes(rest)


def _gpus(asked: bool | int) -> Any:
    from docker.types import DeviceRequest

    return DeviceRequest(count=-1 if asked is True else asked, capabilities=[["gpu"]])


def _mount(mount: Mount) -> Any:
    from docker.types import Mount as EngineMount

    return EngineMount(mount.target, str(mount.source), type="bind", read_only=mount.read_only)


@contextlib.contextmanager
def _speaking(action: str, image: str = "") -> Iterator[None]:
    """Translate what docker-py raises. `image`: what a 404 is about."""
    import requests
    from docker.errors import APIError, DockerException

    try:
        yield
    except APIError as error:
        if image and error.status_code == 404:
            raise NotFoundError(
                f"the engine has no image {image}", fix=f"build it, or run `docker pull {image}`"
            ) from None
        said = error.explanation or str(error)
        if "setting rlimit" in said:
            raise LimitsRefused(f"the engine could not {action}: {said}", fix="run it with CAP_SYS_RESOURCE") from None
        if any(sign in said for sign in _NO_GPU):
            raise NoDeviceError(f"the engine could not {action} with GPUs: {said.strip()}", fix=_GPU_FIX) from None
        if "bind source path does not exist" in said:
            fix = "a job's folders must be on the engine's machine: run Slipway there"
            raise EngineError(f"the engine does not see this machine's folders: {said}", fix=fix) from None
        raise EngineError(f"the engine could not {action}: {said}", fix="see the engine's log") from None
    except (DockerException, requests.RequestException) as error:
        raise EngineError(f"the engine stopped answering ({action}): {error}", fix=_NO_ENGINE) from None
