"""`invoke build` on the real engine, with a small project of its own: one stack of one package, one toolkit."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import certifi
import pytest

from slipway import base, local_registry, lock, process, settings
from slipway.base import Recipe
from slipway.console import Console
from slipway.engine import rootfs
from slipway.engine.docker import Engine
from slipway.errors import NotFoundError
from slipway.records import Records
from slipway.spec import load

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]

SPEC = """\
framework: {framework}
toolkits:
  training: [training]
stacks:
  "1.17":
    version: 1.17.0
    os: debian12
    python: ["3.11"]
    processors:
      cpu: {{}}
    scopes: [training]
    packages:
      common: [six==1.17.0]
"""

PYPROJECT = """\
[build-system]
requires = ["flit_core==3.12.0"]
build-backend = "flit_core.buildapi"

[project]
name = "small-toolkit"
version = "1.0"
description = "Says that it trains."
requires-python = ">=3.9"

[project.scripts]
train = "small_toolkit:train"
"""

TOOLKIT = (
    '"""Says that it trains."""\n\n\ndef train():\n    import six\n\n    print("training with six", six.__version__)\n'
)


@dataclass
class Workshop:
    """A project whose images have a name of their own in the engine."""

    root: Path
    framework: str

    @property
    def image(self) -> str:
        return f"{self.framework}-training-1.17.0-cpu-py311"

    @property
    def reference(self) -> str:
        return f"{self.framework}-training:1.17.0-cpu-py311-debian12-dev"

    @property
    def records(self) -> Records:
        return Records(self.root / ".slipway")

    def start(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        temporary = self.root.parent / "tmp"
        temporary.mkdir(exist_ok=True)
        return subprocess.Popen(
            [sys.executable, "-m", "invoke", "--search-root", str(ROOT), *words],
            cwd=self.root,
            env={**os.environ, "TMPDIR": str(temporary), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def build(self, *words: str) -> dict[str, Any]:
        """Build it and return what `--json` says."""
        (found,) = self.answer("build", "--framework", self.framework, *words)
        assert isinstance(found, dict)
        return found

    def answer(self, *words: str) -> Any:
        """What a command that succeeds says to machines."""
        child = self.start(*words, "--json")
        out, err = child.communicate(timeout=580)
        assert child.returncode == 0, err
        return json.loads(out)

    def leftovers(self) -> list[str]:
        return [path.name for path in (self.root.parent / "tmp").iterdir()]


@pytest.fixture(scope="module")
def bootstrapped() -> rootfs.Rootfs:
    recipe = base.of("debian12")
    assert isinstance(recipe, Recipe)
    return rootfs.ensure(recipe, settings.read(project=ROOT, environment={}), Console(), drift=False)


@pytest.fixture
def workshop(tmp_path: Path, bootstrapped: rootfs.Rootfs) -> Iterator[Workshop]:
    made = Workshop(tmp_path / "project", f"slipway-test-{secrets.token_hex(4)}")
    shutil.copytree(ROOT / "buildspec" / "defaults", made.root / "buildspec" / "defaults")
    (made.root / "buildspec" / "small.yml").write_text(SPEC.format(framework=made.framework))
    toolkit = made.root / "toolkits" / "training"
    toolkit.mkdir(parents=True)
    (toolkit / "pyproject.toml").write_text(PYPROJECT)
    (toolkit / "small_toolkit.py").write_text(TOOLKIT)
    shutil.copytree(ROOT / "dockerfiles", made.root / "dockerfiles")
    write_locks(made.root)
    (made.root / ".slipway").mkdir()
    (made.root / ".slipway" / "rootfs").symlink_to(bootstrapped.tar.parents[1])
    yield made
    process.run(["docker", "image", "rm", "--force", made.reference], check=False)


def write_locks(root: Path) -> None:
    """Locks of the real project's pins: the installer's whole, of the others what this stack names."""
    folder = root / "buildspec" / "locks"
    folder.mkdir()
    shutil.copy(ROOT / "buildspec" / "locks" / "tools.txt", folder)
    known = "".join(path.read_text() for path in sorted((ROOT / "buildspec" / "locks").glob("pytorch-*/*.txt")))
    entries = {entry.split("==")[0]: entry for entry in re.split(r"\n(?=[a-z0-9])", known)}
    (part,) = lock.parts(load.load(root).images[0])
    (folder / part.name).parent.mkdir()
    text = f"# inputs: {part.inputs({})}\n{entries['pip'].rstrip()}\n{entries['six'].rstrip()}\n"
    (folder / f"{part.name}.txt").write_text(text)


def test_a_build_runs_repeats_without_a_step_and_changes_only_its_last_layer(
    workshop: Workshop, engine: Engine, tmp_path: Path
) -> None:
    toolkit = workshop.root / "toolkits" / "training" / "small_toolkit.py"
    once = f"{TOOLKIT}# {secrets.token_hex(8)}\n"  # or the builder knows it from an earlier run of this test
    toolkit.write_text(once)
    first = workshop.build()
    ran = process.run(["docker", "run", "--rm", "--network", "none", workshop.reference, "train"])
    assert ran.stdout == "training with six 1.17.0\n"
    (record,) = workshop.records.builds()
    assert record.config_digest == first["config_digest"]
    # The second word of each file's head (PEP 552): by hash, and not looked at again. A time is void once clamped.
    look = "{open(path, 'rb').read(8)[4:].hex() for path in glob.glob('/opt/venv/**/*.pyc', recursive=True)}"
    ran = process.run(
        [
            "docker",
            "run",
            "--rm",
            "--network",
            "none",
            workshop.reference,
            "python3",
            "-c",
            f"import glob; print({look})",
        ]
    )
    assert ran.stdout == "{'01000000'}\n"

    again = workshop.build()
    assert again["config_digest"] == first["config_digest"]
    assert again["cached_steps"] == again["steps"] >= 4

    toolkit.write_text(once.replace("training with", "really training with"))
    changed = workshop.build()
    assert changed["config_digest"] != first["config_digest"]
    assert changed["layers"][:-1] == first["layers"][:-1]
    assert changed["layers"][-1] != first["layers"][-1]
    assert changed["steps"] - changed["cached_steps"] == 1
    sizes = [size for size in engine.layer_sizes(workshop.reference) if size]
    assert sizes[0] < 1_000_000
    # Both the record's account and that of the image alone, which knows no stages.
    by_record, by_image = workshop.answer("size", workshop.image), workshop.answer("size", workshop.reference)
    assert by_record["unpacked"] == by_image["unpacked"] == sum(sizes)
    assert list(by_record["layers"])[-1] == workshop.image and next(iter(by_image["layers"])) == "layer 1"
    assert by_record["packages"] == by_image["packages"] and 30_000 < by_image["packages"]["six"] < 100_000
    shared = workshop.answer("plan", "--framework", workshop.framework, "--layers")
    assert shared["unique"] == shared["total"] == sum(sizes)
    assert shared["layers"][workshop.image] == [sizes[0], 1]
    child = workshop.start("size", f"{workshop.reference}-not")
    assert "Traceback" not in child.communicate(timeout=60)[1] and child.returncode == 16
    assert workshop.leftovers() == []


def test_what_render_writes_builds_the_same_image_without_slipway(
    workshop: Workshop, tmp_path: Path, bootstrapped: rootfs.Rootfs
) -> None:
    built = workshop.build()
    folder = tmp_path / "elsewhere" / "a rendering"
    child = workshop.start("render", "--framework", workshop.framework, "--output", str(folder))
    _, err = child.communicate(timeout=60)
    assert child.returncode == 0, err
    (target,) = re.findall(r"ADD (\S+) /", (folder / "base-debian12" / "Dockerfile").read_text())
    os.link(bootstrapped.tar, folder / "base-debian12" / target)
    process.run(["docker", "image", "rm", "--force", workshop.reference])
    staged = workshop.root / ".slipway" / "wheels" / f"{workshop.framework}-1.17.0-cpu-py311"
    environment = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME")
    }
    done = subprocess.run(
        [folder / "build.sh", "--metadata-file", tmp_path / "metadata.json"],
        cwd="/",
        env={**environment, "PATH": "/usr/local/bin:/usr/bin:/bin", "WHEELS": str(staged)},
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (facts,) = [facts for facts in json.loads((tmp_path / "metadata.json").read_text()).values() if len(facts) > 1]
    assert facts["containerimage.config.digest"] == built["config_digest"]
    assert process.run(["docker", "image", "inspect", workshop.reference]).code == 0


def test_a_failing_step_is_named_with_stage_and_log(workshop: Workshop, engine: Engine) -> None:
    template = workshop.root / "dockerfiles" / "training.Dockerfile.j2"
    template.write_text(template.read_text() + "RUN echo before the fall && exit 3\n")
    child = workshop.start("build", "--framework", workshop.framework)
    _, err = child.communicate(timeout=580)
    log = workshop.root / ".slipway" / "logs" / f"{workshop.image}.log"
    assert child.returncode == 6
    assert f"error: the stage {workshop.image} failed at RUN echo before the fall && exit 3" in err
    assert "    before the fall" in err
    assert str(log) in err
    assert "before the fall" in log.read_text().splitlines()
    assert "Traceback" not in err
    assert_nothing_made(workshop, engine)


def test_what_is_over_its_ceilings_or_hidden_by_an_upper_layer_is_an_error(workshop: Workshop, engine: Engine) -> None:
    if not any("containerd" in str(pair) for pair in engine.info().get("DriverStatus") or ()):
        pytest.skip("only the containerd store counts blocks")
    template = workshop.root / "dockerfiles" / "training.Dockerfile.j2"
    template.write_text(
        template.read_text() + "RUN head -c 20000000 /dev/urandom > /big\nRUN head -c 10 /dev/urandom > /big\n"
    )
    spec = workshop.root / "buildspec" / "small.yml"
    spec.write_text(f"{spec.read_text()}    compressed-ceiling-mb:\n      training: 50\n")
    child = workshop.start("build", "--framework", workshop.framework)
    _, err = child.communicate(timeout=580)
    assert child.returncode == 19, err
    assert re.search(r"takes 2\d MB in files that upper layers replace or delete, over its ceiling of 16 MB", err), err
    assert re.search(r"takes \d\d+ MB compressed, over its ceiling of 50 MB; the largest:\n +layers: ", err), err
    (record,) = workshop.records.builds()
    assert record.compressed > 50_000_000 and record.compressed_ceiling_mb == 50


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_build_that_is_stopped_makes_nothing(workshop: Workshop, engine: Engine, number: signal.Signals) -> None:
    template = workshop.root / "dockerfiles" / "training.Dockerfile.j2"
    template.write_text(template.read_text() + "RUN : first\nRUN sleep 86399\n")
    child = workshop.start("build", "--framework", workshop.framework)
    assert child.stderr is not None
    runs = 0
    while runs < 2:  # the toolkit's and the one before the long one
        line = child.stderr.readline()
        assert line, "the build ended by itself"
        runs += line.startswith(f"{workshop.image}: RUN")
    child.send_signal(number)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "error: stopped" in err
    assert "Traceback" not in err
    assert_nothing_made(workshop, engine)


def assert_nothing_made(workshop: Workshop, engine: Engine) -> None:
    assert workshop.records.builds() == []
    assert workshop.leftovers() == []
    with pytest.raises(NotFoundError):
        engine.image(workshop.reference)


def test_two_builds_at_once_take_turns(workshop: Workshop) -> None:
    words = ("build", "--framework", workshop.framework, "--json")
    children = [workshop.start(*words) for _ in range(2)]
    said = [child.communicate(timeout=580) for child in children]
    assert [child.returncode for child in children] == [0, 0], said
    assert len({json.loads(out)[0]["config_digest"] for out, _ in said}) == 1
    assert len(workshop.records.builds()) == 1


def test_another_builder_gets_the_same_graph(workshop: Workshop, tmp_path: Path) -> None:
    """A docker context is a builder too; this one leads to the same engine by another name."""
    endpoint = process.run(["docker", "context", "inspect", "--format", "{{.Endpoints.docker.Host}}"]).stdout.strip()
    name = f"slipway-test-{secrets.token_hex(4)}"
    process.run(["docker", "context", "create", name, "--docker", f"host={endpoint}"])
    try:
        built = workshop.build("--builder", name)
        assert process.run(["docker", "image", "inspect", workshop.reference]).code == 0
        assert built["config_digest"] == workshop.build()["config_digest"]
    finally:
        process.run(["docker", "context", "rm", "--force", name])


@contextlib.contextmanager
def remote_buildkit(socket_path: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The engine's own BuildKit as one that only a socket leads to. Yields the connections that were handed on."""
    children: list[subprocess.Popen[bytes]] = []
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(socket_path))
        listening.listen()

        def hand_on() -> None:
            with contextlib.suppress(OSError):  # closed below
                while True:
                    connection, _ = listening.accept()
                    with connection:
                        words = ["docker", "buildx", "--builder", "default", "dial-stdio", "--progress", "quiet"]
                        children.append(subprocess.Popen(words, stdin=connection.fileno(), stdout=connection.fileno()))

        thread = threading.Thread(target=hand_on)
        thread.start()
        try:
            yield children
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()
            for child in children:
                child.kill()
                child.wait()


@pytest.mark.slow
def test_a_remote_buildkit_gets_the_same_graph_and_its_image_comes_back(workshop: Workshop, engine: Engine) -> None:
    toolkit = workshop.root / "toolkits" / "training" / "small_toolkit.py"
    toolkit.write_text(f"{TOOLKIT}# {secrets.token_hex(8)}\n")  # or the engine has the image's last layer already
    name = f"slipway-test-{secrets.token_hex(4)}"
    with tempfile.TemporaryDirectory() as scratch, remote_buildkit(Path(scratch) / "buildkit") as taken:
        process.run(["docker", "buildx", "create", "--name", name, "--driver", "remote", f"unix://{scratch}/buildkit"])
        try:
            built = workshop.build("--builder", name)
        finally:
            process.run(["docker", "buildx", "rm", "--force", name])
    assert taken, "it was built elsewhere"
    ran = process.run(["docker", "run", "--rm", "--network", "none", workshop.reference, "train"])
    assert ran.stdout == "training with six 1.17.0\n"
    (record,) = workshop.records.builds()
    assert engine.image(workshop.reference)["Id"] == engine.image(record.engine_id)["Id"]
    assert workshop.build()["config_digest"] == built["config_digest"]


def test_a_builder_that_does_not_exist_is_told(workshop: Workshop) -> None:
    child = workshop.start("build", "--framework", workshop.framework, "--builder", "no-such-builder")
    _, err = child.communicate(timeout=60)
    assert child.returncode == 5
    assert 'no builder "no-such-builder" found' in err


@pytest.mark.slow
def test_two_builds_without_any_cache_are_equal(workshop: Workshop) -> None:
    digests = {workshop.build("--no-cache")["config_digest"] for _ in range(2)}
    assert len(digests) == 1


@pytest.mark.slow
def test_a_base_that_is_pulled_carries_the_same_image(
    workshop: Workshop, bootstrapped: rootfs.Rootfs, tmp_path: Path
) -> None:
    registry, _ = local_registry.ensure(tmp_path / "state")
    name = f"{registry.host}/slipway-test-{secrets.token_hex(4)}:1"
    process.run(["docker", "import", bootstrapped.tar, name])
    try:
        process.run(["docker", "push", "--quiet", name])
        process.run(["docker", "image", "rm", name])  # so that it has to be pulled
        told = process.run(["docker", "buildx", "imagetools", "inspect", "--format", "{{json .Manifest}}", name])
        digest = json.loads(told.stdout)["digest"]
        child = workshop.start("build", "--framework", workshop.framework, "--json", SLIPWAY_BASE=f"{name}@{digest}")
        _, err = child.communicate(timeout=580)
        assert child.returncode == 0, err
        labels = process.run(["docker", "inspect", "--format", "{{json .Config.Labels}}", workshop.reference])
        assert json.loads(labels.stdout)["org.opencontainers.image.base.digest"] == digest
        ran = process.run(["docker", "run", "--rm", "--network", "none", workshop.reference, "train"])
        assert ran.stdout == "training with six 1.17.0\n"
    finally:
        local_registry.stop(tmp_path / "state")


@pytest.mark.slow
def test_what_the_host_lends_a_build_is_in_no_layer(workshop: Workshop, engine: Engine, tmp_path: Path) -> None:
    """Its CA bundle, the password of its index and its proxy: packages come by them, and no file or record has them."""
    pip = settings.read(project=ROOT).pip()
    mark = f"slipway-{secrets.token_hex(8)}"
    bundle = tmp_path / "ca.pem"
    bundle.write_text(Path(pip.cert or certifi.where()).read_text() + f"# {mark}\n")
    index = pip.index_url or "https://pypi.org/simple"
    environment = {
        "PIP_CERT": str(bundle),
        "PIP_INDEX_URL": index.replace("://", f"://me:{mark}@", 1) if index.startswith("http") else index,
        "PIP_EXTRA_INDEX_URL": " ".join(url for url in pip.extra_index_urls if url != index),
        "https_proxy": f"http://me:{mark}@127.0.0.1:9",
        "no_proxy": "*",
    }
    child = workshop.start("build", "--framework", workshop.framework, "--no-cache", "--json", **environment)
    out, err = child.communicate(timeout=580)
    assert child.returncode == 0, err
    assert mark not in out + err
    archive = tmp_path / "image.tar"
    process.run(["docker", "save", "--output", archive, workshop.reference])
    with tarfile.open(archive) as saved:
        blobs = [member.name for member in saved if member.isfile()]
        held = [name for name in blobs if mark.encode() in unpacked(saved, name)]
    assert len(blobs) > 3 and held == []
    kept = [path for path in (workshop.root / ".slipway").rglob("*") if path.is_file() and "rootfs" not in path.parts]
    assert [path.name for path in kept if mark.encode() in path.read_bytes()] == []


def unpacked(saved: tarfile.TarFile, name: str) -> bytes:
    """A blob of an image as it is in a container: layers are compressed."""
    file = saved.extractfile(name)
    assert file is not None
    data = file.read()
    return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
