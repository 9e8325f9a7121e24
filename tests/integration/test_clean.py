"""Clean with a real engine: what is on record goes, what someone made of it stays."""

from __future__ import annotations

import io
import json
import secrets
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slipway import clean, process, settings
from slipway.engine.docker import ContainerSpec, Engine
from slipway.records import Build, Records

pytestmark = pytest.mark.integration


@pytest.fixture
def project(tmp_path: Path) -> settings.Settings:
    return settings.read(project=tmp_path, environment={})


@pytest.fixture
def image(tmp_path: Path) -> Iterator[Callable[[], str]]:
    """Makes small images that no other test has; what is left of them goes at the end."""
    made = []

    def make() -> str:
        layer = tmp_path / "layer.tar"
        with tarfile.open(layer, "w") as tar:
            content = secrets.token_bytes(8)
            member = tarfile.TarInfo("file")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        name = f"slipway-test/clean-{secrets.token_hex(4)}:1-dev"
        process.run(["docker", "import", "--change", 'CMD ["/file"]', layer, name])
        made.append(name)
        return name

    yield make
    for name in made:
        process.run(["docker", "image", "rm", "--force", name, f"{name}-mine"], check=False)


def record(project: settings.Settings, engine: Engine, name: str) -> None:
    id = engine.image(name)["Id"]
    fields = {key: "" for key, field in Build.__dataclass_fields__.items() if field.type == "str"}
    fields |= {"engine_id": id, "reference": name, "config_digest": id}
    Records(project.state).add_build(Build(**fields, size=1, seconds=1.0))  # type: ignore[arg-type]


def names() -> list[str]:
    done = process.run(["docker", "images", "--format", "{{.Repository}}:{{.Tag}}"])
    return done.stdout.split()


def test_only_what_is_on_record_goes(engine: Engine, project: settings.Settings, image: Callable[[], str]) -> None:
    ours, other, shared = image(), image(), image()
    process.run(["docker", "tag", shared, f"{shared}-mine"])
    record(project, engine, ours)
    record(project, engine, shared)
    for leftover in clean.of_engine(engine, project, cache=False):
        if leftover.kind == "image":
            assert leftover.remove() == ""
    left = names()
    assert ours not in left and shared not in left
    assert other in left and f"{shared}-mine" in left


def test_an_image_that_a_container_uses_stays_and_says_why(
    engine: Engine, project: settings.Settings, image: Callable[[], str]
) -> None:
    name = image()
    record(project, engine, name)
    with engine.run() as run:
        run.create(ContainerSpec(image=name, name="holder"))
        (leftover,) = (found for found in clean.of_engine(engine, project, cache=False) if found.kind == "image")
        assert "container" in leftover.remove()
        assert name in names()


def test_what_a_killed_command_left_goes_and_a_living_ones_stays(
    engine: Engine, project: settings.Settings, image: Callable[[], str]
) -> None:
    name = image()
    code = (
        "import os, signal, sys\n"
        "from slipway.engine.docker import ContainerSpec, Engine\n"
        "with Engine.connect(os.environ).run() as run:\n"
        f"    run.create(ContainerSpec(image={name!r}, name='left'))\n"
        "    print(run.id, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    root = Path(clean.__file__).parents[1]
    killed = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    gone = killed.stdout.strip()
    with engine.run() as living:
        living.create(ContainerSpec(image=name, name="living"))
        found = {left.name: left for left in clean.of_engine(engine, project, cache=False) if left.kind == "run"}
        assert gone in found and living.id not in found
        assert found[gone].remove() == ""
        runs = engine.runs()
        assert gone not in runs and living.id in runs


def test_a_dry_run_takes_nothing(
    engine: Engine, project: settings.Settings, image: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = image()
    (project.project / "buildspec").mkdir()
    record(project, engine, name)
    root = Path(clean.__file__).parents[1]
    monkeypatch.chdir(project.project)
    command = [sys.executable, "-m", "invoke", "--search-root", root, "clean", "--dry-run", "--json"]
    answer = json.loads(process.run(command).stdout)
    assert {"kind": "image", "name": name} in [{key: row[key] for key in ("kind", "name")} for row in answer["cleared"]]
    assert name in names()
