"""A registry of the project's own on loopback, for when none is configured.

It runs as a program (`docker-registry`, `registry`) where one is installed, else as a container. Its address, data and
log live in the state folder; it outlives the command that started it, and the next command finds it again.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from slipway import process
from slipway.errors import ProgramError, RegistryError, SlipwayError
from slipway.files import canonical_json, locked, write_whole
from slipway.registry import Registry

PROGRAMS = ("docker-registry", "registry")
IMAGE = "registry:2"
PORTS = range(5050, 5150)  # below what systems hand out for outgoing connections, so that a port stays ours
STOP_COMMAND = "invoke registry --stop"

_START_LIMIT = 20.0  # seconds until it answers
_STOP_LIMIT = 10.0
_INSTALL = "install Debian's docker-registry, pull the image registry:2, or name a registry in release.yml"


@dataclass(frozen=True)
class LocalRegistry:
    """A registry that was started here. Either `pid` or `container` says what it runs as."""

    host: str
    pid: int = 0
    container: str = ""

    @property
    def kind(self) -> str:
        return f"container {self.container[:12]}" if self.container else f"process {self.pid}"


def running(state: Path) -> LocalRegistry | None:
    """The project's registry, if it runs and answers. Something else at its pid or address does not pass for it."""
    found = _remembered(state)
    if found is None or not _is_alive(found, state):
        return None
    return found if _answers(found.host) else None


def ensure(state: Path, *, image: str = IMAGE) -> tuple[LocalRegistry, bool]:
    """The project's registry, started if need be, and whether it was. Raises RegistryError when it cannot be.

    `image` is what it runs as where no program is installed.
    """
    with locked(_folder(state) / "start.lock"):
        found = running(state)
        if found is not None:
            return found, False
        stop(state)
        return _start(state, image), True


def stop(state: Path) -> LocalRegistry | None:
    """End the project's registry, whose data stay. Returns what was ended; None when it did not run."""
    found = _remembered(state)
    if found is None or not _is_alive(found, state):
        return None
    if found.container:
        process.run(["docker", "rm", "--force", found.container])
        return found
    with contextlib.suppress(ProcessLookupError):
        os.kill(found.pid, signal.SIGTERM)
        if not _ended(found, state):
            os.kill(found.pid, signal.SIGKILL)
            _ended(found, state)
    _happens(lambda: _is_free(_address(found.host)[1]), within=1.0)
    return found


def _start(state: Path, image: str) -> LocalRegistry:
    folder = _folder(state)
    (folder / "data").mkdir(parents=True, exist_ok=True)
    host = f"127.0.0.1:{_free_port(_remembered(state))}"
    program = next((path for path in map(process.find, PROGRAMS) if path), None)
    started = _start_program(program, host, folder) if program else _start_container(host, folder, image)
    write_whole(folder / "running.json", canonical_json(asdict(started)))
    try:
        _await_answer(started, state)
    except BaseException:
        stop(state)
        raise
    return started


def _folder(state: Path) -> Path:
    return state.absolute() / "registry"


def _remembered(state: Path) -> LocalRegistry | None:
    import json

    try:
        return LocalRegistry(**json.loads((_folder(state) / "running.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _is_alive(found: LocalRegistry, state: Path) -> bool:
    """Whether what was remembered is really ours: a pid may long belong to someone else."""
    if found.container:
        with contextlib.suppress(ProgramError):
            form = "{{.State.Running}}"
            done = process.run(["docker", "container", "inspect", "--format", form, found.container], check=False)
            return done.stdout.strip() == "true"
        return False
    config = str(_folder(state) / "config.yml")
    try:
        return config in Path(f"/proc/{found.pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        pass
    if Path("/proc/self").exists() or process.find("ps") is None:
        return False
    return config in process.run(["ps", "-o", "args=", "-p", str(found.pid)], check=False).stdout


def _answers(host: str) -> bool:
    try:
        Registry(host, sleep=lambda _: None).ping()
    except SlipwayError:
        return False
    return True


def _free_port(before: LocalRegistry | None) -> int:
    """The port it had before, so that URIs on record stay true, else the first free one."""
    if before is not None:
        port = _address(before.host)[1]
        # The system may still be closing the socket of one that has just died.
        if _happens(lambda: _is_free(port), within=1.0):
            return port
    free = next((port for port in PORTS if _is_free(port)), None)
    if free is None:
        raise RegistryError(f"no port from {PORTS.start} to {PORTS.stop - 1} is free for a local registry")
    return free


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _start_program(program: str, host: str, folder: Path) -> LocalRegistry:
    config = folder / "config.yml"
    settings = {
        "version": 0.1,
        "log": {"level": "warn"},
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}, "delete": {"enabled": True}},
        "http": {"addr": host},
    }
    write_whole(config, canonical_json(settings))  # JSON is YAML
    return LocalRegistry(host, pid=process.detach([program, "serve", config], cwd=folder, log=folder / "registry.log"))


def _start_container(host: str, folder: Path, image: str) -> LocalRegistry:
    if process.find("docker") is None or process.run(["docker", "image", "inspect", image], check=False).code != 0:
        pulled = process.find("docker") and process.run(["docker", "pull", "--quiet", image], check=False).code == 0
        if not pulled:
            raise RegistryError("no registry is configured, and none can be started here", fix=_INSTALL)
    volume = f"{folder / 'data'}:/var/lib/registry"
    argv = ["docker", "run", "--detach", "--publish", f"{host}:5000", "--volume", volume, image]
    return LocalRegistry(host, container=process.run(argv).stdout.strip())


def _await_answer(started: LocalRegistry, state: Path) -> None:
    _happens(lambda: _answers(started.host) or not _is_alive(started, state), within=_START_LIMIT)
    if not _answers(started.host):
        raise RegistryError(
            f"the local registry ({started.kind}) does not answer at {started.host}{_last_words(state)}",
            fix=f"see {_folder(state) / 'registry.log'}",
        )


def _ended(found: LocalRegistry, state: Path) -> bool:
    return _happens(lambda: not _is_alive(found, state), within=_STOP_LIMIT)


def _happens(condition: Callable[[], bool], *, within: float) -> bool:
    """Whether a condition becomes true within so many seconds; for what tells nobody when it does."""
    until = time.monotonic() + within
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def _address(host: str) -> tuple[str, int]:
    name, _, port = host.rpartition(":")
    return name, int(port)


def _last_words(state: Path) -> str:
    try:
        lines = (_folder(state) / "registry.log").read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return "".join(f"\n    {line}" for line in lines[-5:])
