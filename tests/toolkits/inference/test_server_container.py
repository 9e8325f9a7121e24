"""``serve`` as process 1 of containers that allow little: read-only, any user, no capabilities, few processors."""

from __future__ import annotations

import json
import secrets
import subprocess
import textwrap

import pytest

from .serving import SOURCE, Server, free_port, wait_for

pytestmark = pytest.mark.integration

CODE = """
    import os, time
    def model_fn(model_dir):
        try:
            open(model_dir + "/lock", "w")
        except OSError:
            return "read-only"
        return "writable"
    def transform_fn(model, data, content_type, accept):
        if data == "slow":
            time.sleep(2)
        return f"{model} {os.getuid()} {os.environ['OMP_NUM_THREADS']}", "text/plain"
"""


def docker(*arguments: str) -> str:
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


class Contained(Server):
    """A server in a container: the same calls, another process and log."""

    name = ""

    @property
    def log(self) -> str:
        done = subprocess.run(["docker", "logs", self.name], capture_output=True, text=True, check=True)
        return done.stdout + done.stderr

    def ended(self) -> bool:
        return not json.loads(docker("inspect", "--format", "{{json .State.Running}}", self.name))

    def code(self) -> int:
        return int(docker("inspect", "--format", "{{.State.ExitCode}}", self.name))

    def processes(self) -> list[str]:
        return docker("top", self.name, "-o", "pid,args").splitlines()[1:]


@pytest.fixture(scope="module")
def image():
    found = docker("images", "--filter", "reference=base-inference:*", "--format", "{{.Repository}}:{{.Tag}}").split()
    assert found, "the image of the base toolkit is not built"
    return found[0]


@pytest.fixture
def run(image, tmp_path):
    started = []

    def run(code: str, *options: str) -> Contained:
        tmp_path.chmod(0o755)
        folder = tmp_path / "model" / "code"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "inference.py").write_text(textwrap.dedent(code))
        one = Contained(tmp_path, free_port(), {})
        one.name = f"slipway-test-serve-{secrets.token_hex(4)}"
        started.append(one.name)
        docker(
            "run", "--detach", "--name", one.name, "--publish", f"127.0.0.1:{one.port}:8080",
            "--volume", f"{tmp_path / 'model'}:/opt/ml/model:ro", "--volume", f"{SOURCE}:/source:ro",
            "--env", "PYTHONPATH=/source", *options, image, "serve",
        )  # fmt: skip
        return one

    yield run
    for name in started:
        subprocess.run(["docker", "rm", "--force", "--volumes", name], capture_output=True)


def test_the_smallest_container(run):
    server = run(
        CODE, "--read-only", "--user", "12345:54321", "--cap-drop", "ALL", "--tmpfs", "/tmp:exec",
        "--memory", "300m", "--cpus", "1.5",
    ).ready()  # fmt: skip
    # The quota of one and a half processors is two workers with one thread each.
    wait_for(lambda: server.log.count("ready after") == 2, server)
    assert server.post("x", Content_Type="text/csv").body == b"read-only 12345 1"
    assert len(server.processes()) == 3
    slow = server.client().post(b"slow", b"content-type: text/csv")
    assert server.ping() == 200
    docker("kill", "--signal", "TERM", server.name)
    assert slow.answer().status == 200
    wait_for(server.ended)
    assert server.code() == 0, server.log


def test_a_load_that_memory_does_not_allow(run):
    code = """
        def model_fn(model_dir):
            return bytearray(4 << 30)
        def transform_fn(model, data, content_type, accept):
            return data, accept
    """
    server = run(code, "--memory", "200m", "--memory-swap", "200m", "--env", "SLIPWAY_MAX_RESTARTS=1")
    wait_for(server.ended)
    assert server.code() in (5, 6)
    # Either the kernel refused the memory, or it killed who took it.
    assert "MemoryError" in server.log or "fewer workers" in server.log


def test_the_image_starts_serve_without_a_shell(image):
    config = json.loads(docker("inspect", "--format", "{{json .Config}}", image))
    # What the platform gives as the only argument is a program on PATH, and becomes process 1.
    assert not config.get("Entrypoint")
    assert config["Cmd"] == ["serve"]
    assert config["Labels"]["com.amazonaws.sagemaker.capabilities.accept-bind-to-port"] == "true"


def test_an_image_that_serves_does_not_train(image):
    done = subprocess.run(["docker", "run", "--rm", image, "train"], capture_output=True, text=True)
    assert done.returncode == 64
    assert done.stderr.startswith("train: this image serves")
