"""The project's own registry: as a program and as a container, found again, and never mistaken for something else."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from slipway import local_registry
from slipway.errors import RegistryError
from slipway.registry import Registry

pytestmark = pytest.mark.integration


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "state"
    local_registry.stop(tmp_path / "state")


def remembered(state: Path, **change: object) -> None:
    path = state / "registry" / "running.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))


def test_it_starts_is_found_again_and_stops(state: Path) -> None:
    assert local_registry.running(state) is None and local_registry.stop(state) is None
    first, started = local_registry.ensure(state)
    assert started and first.pid and not first.container
    Registry(first.host).ping()
    assert local_registry.ensure(state) == (first, False)
    assert local_registry.stop(state) == first
    assert local_registry.running(state) is None and local_registry.stop(state) is None
    with pytest.raises(RegistryError):
        Registry(first.host).ping()
    again, _ = local_registry.ensure(state)
    assert again.host == first.host, "URIs on record stay true"


def test_it_is_in_a_session_of_its_own(state: Path) -> None:
    found, _ = local_registry.ensure(state)
    assert os.getsid(found.pid) == found.pid != os.getsid(0), "Ctrl-C at the command does not reach it"


def test_one_that_was_killed_is_started_again(state: Path) -> None:
    first, _ = local_registry.ensure(state)
    os.kill(first.pid, 9)
    second, started = local_registry.ensure(state)
    assert started and second.pid != first.pid and second.host == first.host


def test_a_pid_that_belongs_to_someone_else_is_left_alone(state: Path) -> None:
    found, _ = local_registry.ensure(state)
    with subprocess.Popen(["sleep", "60"]) as other:
        remembered(state, pid=other.pid)
        assert local_registry.running(state) is None
        assert local_registry.stop(state) is None
        assert other.poll() is None
        other.kill()
    remembered(state, pid=found.pid)


def test_a_port_that_someone_else_took_is_given_up(state: Path) -> None:
    first, _ = local_registry.ensure(state)
    local_registry.stop(state)
    from http.server import BaseHTTPRequestHandler, HTTPServer

    with HTTPServer(("127.0.0.1", int(first.host.rpartition(":")[2])), BaseHTTPRequestHandler):
        second, _ = local_registry.ensure(state)
        assert second.host != first.host


def test_two_commands_at_once_start_one(state: Path) -> None:
    found: list[tuple[local_registry.LocalRegistry, bool]] = []
    threads = [threading.Thread(target=lambda: found.append(local_registry.ensure(state))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({one for one, _ in found}) == 1
    assert [started for _, started in found].count(True) == 1


def test_one_that_cannot_start_says_why_and_is_gone(
    state: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "broken-registry"
    broken.write_text("#!/bin/sh\necho no such storage driver >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(local_registry, "PROGRAMS", (str(broken),))
    with pytest.raises(RegistryError, match="no such storage driver"):
        local_registry.ensure(state)
    assert local_registry.running(state) is None


def test_without_a_program_it_is_a_container(state: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(local_registry, "PROGRAMS", ())
    image = _registry_image(tmp_path)
    try:
        found, started = local_registry.ensure(state, image=image)
        assert started and found.container and not found.pid
        Registry(found.host).ping()
        assert local_registry.ensure(state, image=image) == (found, False)
        assert local_registry.stop(state) == found
        inspected = subprocess.run(["docker", "container", "inspect", found.container], capture_output=True)
        assert inspected.returncode != 0
    finally:
        local_registry.stop(state)
        subprocess.run(["docker", "rmi", image], check=True, capture_output=True)


def test_with_neither_program_nor_image_it_says_what_to_install(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_registry, "PROGRAMS", ())
    with pytest.raises(RegistryError, match="none can be started here") as caught:
        local_registry.ensure(state, image=f"127.0.0.1:9/slipway-test-none:{secrets.token_hex(4)}")
    assert "docker-registry" in caught.value.fix and "release.yml" in caught.value.fix


def _registry_image(folder: Path) -> str:
    """An image that works like registry:2, made of the installed program and the libraries that it links."""
    program = shutil.which("docker-registry")
    assert program is not None
    context = folder / "image"
    listed = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    for file in (program, *(word for word in listed.split() if word.startswith("/"))):
        target = context / "root" / file.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)
    (context / "config.yml").write_text(
        '{"version": 0.1, "storage": {"filesystem": {"rootdirectory": "/var/lib/registry"}}, "http": {"addr": ":5000"}}'
    )
    (context / "Dockerfile").write_text(
        f'FROM scratch\nCOPY root /\nCOPY config.yml /config.yml\nENTRYPOINT ["{program}", "serve", "/config.yml"]\n'
    )
    name = f"slipway-test-registry:{secrets.token_hex(4)}"
    argv = ["docker", "buildx", "build", "--quiet", "--provenance=false", "--tag", name, context]
    subprocess.run(argv, check=True, capture_output=True)
    return name
