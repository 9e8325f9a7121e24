"""Many models in a container that is read-only and has little memory, under any user."""

from __future__ import annotations

import json
import secrets
import subprocess
import textwrap
from pathlib import Path

import pytest

from .index import wheel
from .router import ECHO, Router
from .serving import SOURCE, free_port, wait_for

pytestmark = pytest.mark.integration

MEMORY = "400m"


def docker(*arguments: str) -> str:
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


class Contained(Router):
    """A router in a container: the same calls, another log."""

    name = ""

    @property
    def log(self) -> str:
        done = subprocess.run(["docker", "logs", self.name], capture_output=True, text=True, check=True)
        return done.stdout + done.stderr

    def state(self) -> dict:
        return json.loads(docker("inspect", "--format", "{{json .State}}", self.name))

    def ended(self) -> bool:
        return not self.state()["Running"]

    def load(self, name, url=None):
        return super().load(name, url or f"/opt/ml/models/{name}/model")


@pytest.fixture(scope="module")
def image():
    found = docker("images", "--filter", "reference=base-inference:*", "--format", "{{.Repository}}:{{.Tag}}").split()
    assert found, "the image of the base toolkit is not built"
    return found[0]


@pytest.fixture
def router(image, tmp_path):
    tmp_path.chmod(0o755)
    one = Contained(tmp_path, free_port(), {})
    one.name = f"slipway-test-models-{secrets.token_hex(4)}"
    (tmp_path / "models").mkdir()
    docker(
        "run", "--detach", "--name", one.name, "--read-only", "--user", "12345:54321", "--cap-drop", "ALL",
        "--tmpfs", "/tmp:exec", "--memory", MEMORY, "--memory-swap", MEMORY, "--publish", f"127.0.0.1:{one.port}:8080",
        "--volume", f"{tmp_path / 'models'}:/opt/ml/models:ro", "--volume", f"{SOURCE}:/source:ro",
        "--env", "PYTHONPATH=/source", "--env", "SAGEMAKER_MULTI_MODEL=true", "--env", "PIP_NO_INDEX=1",
        image, "serve",
    )  # fmt: skip
    yield one.ready()
    subprocess.run(["docker", "rm", "--force", "--volumes", one.name], capture_output=True)


GREEDY = """
    def model_fn(model_dir):
        return model_dir
    def transform_fn(model, data, content_type, accept, context):
        if context.get_request_header(0, "mode") == "greedy":
            return str(len(bytearray(4 << 30)))
        return data, "application/octet-stream"
"""


def test_little_memory_a_read_only_root_and_any_user(router):
    # Packages of a model go into the temporary folder.
    uses = "import lovely_numbers\n" + textwrap.dedent(ECHO).replace('"model"', "lovely_numbers.VERSION")
    folder = router.write("small", uses, requirements__txt="./lovely_numbers-7-py3-none-any.whl\n")
    wheel(Path(folder, "code"), "lovely-numbers", "7")
    assert router.load("small").status == 200, router.log

    # A load that the kernel ends is a 507; whatever served before still does.
    router.write("greedy load", "CONTENT = bytearray(4 << 30)\n" + textwrap.dedent(ECHO))
    answer = router.load("greedy load")
    assert (answer.status, answer.error["type"]) == (507, "OutOfMemory"), (answer, router.log)
    assert "signal 9" in answer.error["message"]
    assert router.names() == ["small"]
    assert router.invoke("small", "x").body == b"x"

    # So is a request. Its model comes back, and the other does not notice.
    router.write("greedy", GREEDY)
    assert router.load("greedy").status == 200, router.log
    answer = router.invoke("greedy", "x", mode="greedy")
    assert (answer.status, answer.error["type"]) == (507, "OutOfMemory"), (answer, router.log)
    assert "was killed" in answer.error["message"]
    assert router.invoke("small", "x").body == b"x"
    wait_for(lambda: router.invoke("greedy", "y").body == b"y", router)
    assert router.unload("greedy").status == 200

    # As process 1 it leaves nothing that is dead and not collected.
    wait_for(
        lambda: "Z" not in docker("exec", router.name, "sh", "-c", "cat /proc/[0-9]*/stat | cut -d' ' -f3").split()
    )
    docker("stop", "--time", "30", router.name)
    assert router.state()["ExitCode"] == 0
