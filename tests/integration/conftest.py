"""What the tests with a real engine share: the engine, a base image, and an image with a small `train`."""

from __future__ import annotations

import io
import secrets
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slipway import process, settings
from slipway.engine.docker import Engine
from tests.base_image import ensure

# Runs /opt/ml/code/ENTRY as a toolkit would, with what a test needs to look at and nothing more.
TRAIN = """\
#!/usr/bin/python3
import json, os, runpy
with open("/opt/ml/input/config/hyperparameters.json") as config:
    values = {key: json.loads(value) for key, value in json.load(config).items()}
os.chdir("/opt/ml/code")
runpy.run_path(values["sagemaker_program"], run_name="__main__")
"""


@pytest.fixture(scope="session")
def engine() -> Engine:
    return Engine.connect(settings.read().environment)


@pytest.fixture(scope="session")
def base_image(engine: Engine) -> str:
    """A Debian with Python, made from the bootstrapped root filesystem where the engine does not have it yet."""
    return ensure(engine)


@pytest.fixture(scope="session")
def build(engine: Engine, base_image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """Builds an image on the base from Dockerfile lines and files by name; the images go at the end of the session."""
    made: list[str] = []

    def build(*lines: str, **files: str) -> str:
        context = tmp_path_factory.mktemp("context")
        (context / "Dockerfile").write_text("\n".join((f"FROM {base_image}", *lines, "")))
        for name, text in files.items():
            (context / name).write_text(text)
        reference = f"slipway-test/{secrets.token_hex(6)}"
        process.run(["docker", "buildx", "build", "--provenance=false", "--tag", reference, "--load", context])
        made.append(reference)
        return reference

    yield build
    for reference in made:
        process.run(["docker", "image", "rm", "--force", reference], check=False)


@pytest.fixture(scope="session")
def train_image(build: Callable[..., str]) -> str:
    """An image whose `train` runs the submitted script."""
    return build("COPY --chmod=755 train /usr/local/bin/train", train=TRAIN)


@pytest.fixture(scope="session")
def serving_image(build: Callable[..., str]) -> str:
    """An image with a small `serve`."""
    text = (Path(__file__).parent / "serving_stand_in.py").read_text()
    return build("COPY --chmod=755 serve /usr/local/bin/serve", 'ENTRYPOINT ["/usr/bin/env"]', serve=text)


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], Path]:
    """Writes a source folder with one train.py."""

    def write(text: str) -> Path:
        folder = tmp_path / "source"
        folder.mkdir(exist_ok=True)
        (folder / "train.py").write_text(text)
        return folder

    return write


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """An S3 service on a free port of loopback."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def aws_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials that any stand-in for AWS takes."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")


def members(archive: Path) -> dict[str, bytes]:
    """The files of a tar.gz."""
    with tarfile.open(fileobj=io.BytesIO(archive.read_bytes()), mode="r:gz") as opened:
        found = {entry.name: opened.extractfile(entry) for entry in opened if entry.isfile()}
        return {name: stream.read() for name, stream in found.items() if stream is not None}
