"""`invoke build` from outside, with an engine and a docker that are stand-ins: what they are given, what is left."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from slipway.records import Records

from .conftest import ROOT, lock_all

IMAGE = "small-training-1.2.0-cpu-py311"
TARGET = "small-training-1_2_0-cpu-py311"
BASE = "debian@sha256:" + "0" * 64
SECRET = "hidden-word"

# Writes down how it was called, what the files held that it was given, and then does what `orders` says.
DOCKER = """\
#!{python}
import json, os, pathlib, stat, sys, time
here = pathlib.Path(__file__).parent
if sys.argv[1] == "image":
    sys.exit(0)
given = {{name: pathlib.Path(value) for name, value in os.environ.items() if name.startswith(("HOST_", "WHEELS"))}}
private = [path for name, path in given.items() if name.startswith("HOST_ENV")]
(here / "call.json").write_text(json.dumps({{
    "argv": sys.argv[1:],
    "cwd": os.getcwd(),
    "files": {{name: [str(path), path.read_text()] for name, path in given.items() if path.is_file()}},
    "folders": {{name: sorted(p.name for p in path.iterdir()) for name, path in given.items() if path.is_dir()}},
    "modes": sorted({{oct(stat.S_IMODE(path.stat().st_mode)) for path in private}}),
    "private": sorted({{oct(stat.S_IMODE(path.parent.stat().st_mode)) for path in private}}),
}}))
orders = (here / "orders").read_text() if (here / "orders").exists() else ""
name = "[{target} {image} 2/3] RUN do it"
step = {{"digest": "sha256:1", "name": name, "started": "2026-01-01T00:00:00Z"}}
print(json.dumps({{"vertexes": [step]}}), flush=True)
if orders == "wait":
    time.sleep(600)
if orders == "fail":
    print(json.dumps({{"vertexes": [{{**step, "completed": "2026-01-01T00:00:01Z", "error": "exit code: 3"}}],
                       "logs": [{{"vertex": "sha256:1", "data": "aXQgYnJva2UK"}}]}}))
    sys.exit(1)
print(json.dumps({{"vertexes": [{{**step, "completed": "2026-01-01T00:00:01Z", "cached": True}}]}}))
facts = {{"containerimage.config.digest": "sha256:" + "c" * 64, "containerimage.digest": "sha256:" + "d" * 64}}
pathlib.Path(sys.argv[sys.argv.index("--metadata-file") + 1]).write_text(json.dumps({{"{target}": facts}}))
"""


class Engine(http.server.BaseHTTPRequestHandler):
    """As much of an engine as a build asks for."""

    # Below /containers and /networks nothing is there: what looks into an image is refused, and has nothing to clear.
    answers: ClassVar[dict[str, Any]] = {
        "version": {"ApiVersion": "1.45"},
        "info": {"DockerRootDir": "/nowhere"},
        "json": {"Id": "sha256:" + "e" * 64, "RootFS": {"Layers": ["sha256:f"]}},
        "history": [{"Size": 40}, {"Size": 2}],
    }

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        body = json.dumps([] if query else self.answers[path.rsplit("/", 1)[1]]).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class Bench:
    """The project, the stand-ins, and the environment that `invoke` runs in."""

    def __init__(self, project: Path, port: int) -> None:
        self.project = project
        self.folder = project.parent
        self.programs = self.folder / "programs"
        self.temporary = self.folder / "tmp"
        self.programs.mkdir()
        self.temporary.mkdir()
        docker = self.programs / "docker"
        docker.write_text(DOCKER.format(python=sys.executable, target=TARGET, image=IMAGE))
        docker.chmod(0o755)
        (self.folder / "ca.pem").write_text("certificates")
        (self.folder / "pip.conf").write_text(
            f"[global]\nindex-url = https://me:{SECRET}@index.example/simple\n"
            f"extra-index-url = https://me:{SECRET}@extra.example/simple\ncert = {self.folder}/ca.pem\n"
        )
        self.environment = {
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "TMPDIR": str(self.temporary),
            "DOCKER_HOST": f"tcp://127.0.0.1:{port}",
            "PIP_CONFIG_FILE": str(self.folder / "pip.conf"),
            "https_proxy": f"http://me:{SECRET}@proxy.example:3128",
            "no_proxy": "127.0.0.1",
            "SLIPWAY_WHEEL_INDEX": f"https://me:{SECRET}@wheels.example/simple",
            "SLIPWAY_BASE": BASE,
        }

    def start(self, *words: str, stderr: int = subprocess.PIPE) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "invoke", "--search-root", str(ROOT), "build", *(words or ("--only", IMAGE))]
        return subprocess.Popen(
            command,
            cwd=self.project,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )

    def build(self, *words: str) -> tuple[int, str, str]:
        child = self.start(*words)
        out, err = child.communicate(timeout=60)
        return child.returncode, out, err

    def order(self, text: str) -> None:
        (self.programs / "orders").write_text(text)

    @property
    def call(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.programs / "call.json").read_text())
        return found

    def left(self) -> list[str]:
        """What is left in the temporary folder."""
        return sorted(path.name for path in self.temporary.iterdir())

    def kept(self) -> str:
        """All that is kept below the project, as one text."""
        files = [path for path in self.project.rglob("*") if path.is_file()]
        return "\n".join(f"{path}\n{path.read_bytes().decode(errors='replace')}" for path in files)


@pytest.fixture
def bench(project: Path) -> Iterator[Bench]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Engine) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Bench(project, server.server_port)
        server.shutdown()


def test_a_build_is_recorded_by_its_config_digest(bench: Bench) -> None:
    code, out, err = bench.build("--only", IMAGE, "--json")
    assert code == 0, err
    (record,) = Records(bench.project / ".slipway").builds()
    assert record.image == IMAGE
    assert record.config_digest == "sha256:" + "c" * 64
    assert record.engine_id == "sha256:" + "e" * 64
    assert (record.size, record.layers) == (42, ("sha256:f",))
    (shown,) = json.loads(out)
    assert shown["config_digest"] == record.config_digest
    assert (shown["cached_steps"], shown["steps"]) == (1, 1)
    log = bench.project / ".slipway" / "logs" / f"{IMAGE}.log"
    assert log.read_text() == f"== {IMAGE}: RUN do it (cached)\n"


def test_the_table_for_people_ends_with_the_next_step(bench: Bench) -> None:
    code, out, err = bench.build("--framework", "small")
    assert code == 0, err
    assert re.search(r"small-training:1\.2\.0-cpu-py311-debian12-dev +c{12} +0 +\d+\.\d +1 of 1", out)
    assert "next: invoke verify --framework small" in out
    assert f"{IMAGE}: RUN (cached)" in err


def test_a_terminal_is_redrawn_and_ends_with_every_step(bench: Bench) -> None:
    ours, theirs = os.openpty()
    child = bench.start(stderr=theirs)
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # the other end is closed
        while block := os.read(ours, 4096):
            shown += block
    os.close(ours)
    child.communicate(timeout=60)
    assert child.returncode == 0
    assert f"{IMAGE}: RUN (cached)".encode() in shown
    assert b"Traceback" not in shown


def test_the_host_enters_by_private_files_and_nothing_of_it_stays(bench: Bench) -> None:
    spec = bench.project / "buildspec" / "small.yml"
    spec.write_text(spec.read_text().replace("small==1.2.0", "small==1.2.0+cpu"))
    lock_all(bench.project)
    code, out, err = bench.build()
    assert code == 0, err
    call = bench.call
    assert SECRET not in " ".join(call["argv"]) + out + err
    assert SECRET not in bench.kept()
    stack = call["files"]["HOST_ENV_SMALL_1_2_0_CPU_PY311"]
    assert f"UV_DEFAULT_INDEX=https://me:{SECRET}@index.example/simple" in stack[1]
    assert f"https_proxy=http://me:{SECRET}@proxy.example:3128" in stack[1]
    assert f"me:{SECRET}@wheels.example" in stack[1], "the setting takes the place of the framework's own index"
    assert "wheels.example/cpu" not in stack[1]
    assert call["files"]["HOST_CA"] == [f"{bench.folder}/ca.pem", "certificates"]
    assert (call["modes"], call["private"]) == (["0o600"], ["0o700"])
    assert not Path(stack[0]).exists()
    assert bench.left() == []


def test_the_builder_works_in_the_rendered_folder(bench: Bench) -> None:
    assert bench.build()[0] == 0
    folder = Path(bench.call["cwd"])
    assert folder.is_relative_to(bench.project / ".slipway" / "build")
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert f"{IMAGE}/wheels/small_toolkit-1.0-py3-none-any.whl" in files
    (folder / "stale").write_text("x")
    assert bench.build()[0] == 0
    assert {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} == files


def test_wheels_that_the_host_has_are_handed_over_by_hash(bench: Bench) -> None:
    wheels = bench.folder / "wheels"
    wheels.mkdir()
    (wheels / "small-1.2.0-py3-none-any.whl").write_text("right")
    (wheels / "numpy-1.0-py3-none-any.whl").write_text("wrong")
    bench.environment["PIP_FIND_LINKS"] = str(wheels)
    path = bench.project / "buildspec/locks/small-1.2.0-cpu-py311/common.txt"
    old = hashlib.sha256(b"small 1.2.0").hexdigest()
    path.write_text(path.read_text().replace(old, hashlib.sha256(b"right").hexdigest()))
    assert bench.build()[0] == 0
    assert bench.call["folders"]["WHEELS_SMALL_1_2_0_CPU_PY311"] == ["small-1.2.0-py3-none-any.whl"]


def test_a_failed_step_is_named_with_its_log_and_nothing_is_recorded(bench: Bench) -> None:
    bench.order("fail")
    code, _, err = bench.build()
    log = bench.project / ".slipway" / "logs" / f"{IMAGE}.log"
    assert code == 6
    assert f"error: the stage {IMAGE} failed at RUN do it; its last lines:\n    it broke" in err
    assert f"next: the whole log: {log}" in err
    assert log.read_text().splitlines()[-1] == "it broke"
    assert "Traceback" not in err
    assert Records(bench.project / ".slipway").builds() == []
    assert bench.left() == []


def test_ci_gets_folded_logs_and_machines_one_document(bench: Bench) -> None:
    bench.order("fail")
    bench.environment |= {"CI": "true", "GITHUB_ACTIONS": "true"}
    code, out, err = bench.build("--only", IMAGE, "--json")
    assert code == 6
    assert f"::group::{IMAGE}: RUN (failed)\nit broke\n::endgroup::\n" in err
    error = json.loads(out)["error"]
    assert (error["code"], error["kind"]) == (6, "BuildError")
    assert f"logs/{IMAGE}.log" in error["next"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_build_that_is_stopped_leaves_nothing(bench: Bench, number: signal.Signals) -> None:
    bench.order("wait")
    watched = bench.programs / "call.json"
    child = bench.start()
    while not watched.exists():  # written by the stand-in once it has been given everything
        assert child.poll() is None
        child.poll()
        threading.Event().wait(0.02)
    child.send_signal(number)
    _, err = child.communicate(timeout=30)
    assert child.returncode == 130
    assert "error: stopped" in err
    assert "Traceback" not in err
    assert Records(bench.project / ".slipway").builds() == []
    assert bench.left() == []
    assert SECRET not in bench.kept()


def test_what_cannot_be_built_is_told_before_anything_is_done(bench: Bench) -> None:
    (bench.project / "buildspec/locks/tools.txt").unlink()
    code, _, err = bench.build()
    assert code == 13
    assert "buildspec/locks/tools.txt does not exist" in err
    lock_all(bench.project)
    (bench.folder / "ca.pem").unlink()
    code, _, err = bench.build()
    assert code == 3
    assert f"the certificates that pip is to trust are not a file: {bench.folder}/ca.pem" in err
    assert not (bench.programs / "call.json").exists()
    assert bench.left() == []


def test_a_dry_run_asks_nobody(bench: Bench) -> None:
    bench.environment["DOCKER_HOST"] = "tcp://127.0.0.1:1"
    code, out, _ = bench.build("--only", IMAGE, "--dry-run")
    assert code == 0
    assert "small-training:1.2.0-cpu-py311-debian12-dev" in out
    assert not (bench.project / ".slipway").exists()


def test_no_engine_is_told(bench: Bench) -> None:
    bench.environment["DOCKER_HOST"] = "tcp://127.0.0.1:1"
    code, _, err = bench.build()
    assert code == 5
    assert "no Docker engine answers" in err


def test_a_disk_that_is_nearly_full_is_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(Engine.answers, "info", {"DockerRootDir": str(bench.folder)})
    bench.environment["SLIPWAY_MIN_FREE_MB"] = "999999999"
    code, _, err = bench.build()
    assert code == 7
    assert re.search(r"\d+ MB .*999999999 MB", err)
    assert "invoke clean" in err
