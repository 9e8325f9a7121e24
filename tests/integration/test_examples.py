"""The folders of examples/, really built on images of the matrix: as its documentation says to use them."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slipway import process, settings
from slipway.records import Records
from slipway.spec import load
from slipway.spec.select import Selector, select

pytestmark = [pytest.mark.integration, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"

Derive = Callable[[str, str], str]


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder of its own, so that no record of these images stays; the root filesystem is the project's."""
    folder = tmp_path_factory.mktemp("state")
    (folder / "rootfs").symlink_to(settings.read(project=ROOT).state / "rootfs")
    return folder


def invoke(state: Path, *words: str) -> Any:
    """Run a command in the project and return what `--json` says."""
    command = [sys.executable, "-m", "invoke", *words, "--json"]
    environment = {**os.environ, "SLIPWAY_STATE": str(state)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def derive() -> Iterator[Derive]:
    """Builds an example's Dockerfile on an image; what it makes goes at the end."""
    made: list[str] = []

    def build(example: str, image: str) -> str:
        reference = f"slipway-example/{example}:{secrets.token_hex(4)}"
        options = ["--provenance=false", "--build-arg", f"IMAGE={image}", "--tag", reference, "--load"]
        process.run(["docker", "buildx", "build", *options, *host(), EXAMPLES / example])
        made.append(reference)
        return reference

    yield build
    for reference in made:
        process.run(["docker", "image", "rm", "--force", reference], check=False)


def host() -> list[str]:
    """This host's way to packages, as a person gives it to a build."""
    found = settings.read(project=ROOT)
    proxies = [word for name, value in found.proxies().items() for word in ("--build-arg", f"{name}={value}")]
    return [*proxies, *(["--secret", f"id=ca,src={found.pip().cert}"] if found.pip().cert else [])]


def run(image: str, *words: str, mounts: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    volumes = [word for mount in mounts for word in ("--volume", mount)]
    command = ["docker", "run", "--rm", "--network", "none", "--name", f"slipway-example-{secrets.token_hex(4)}"]
    return subprocess.run([*command, *volumes, image, *words], capture_output=True, text=True, check=False)


def test_an_image_is_derived_from_one_of_ours(derive: Derive) -> None:
    (cell, *_) = select(load.load(ROOT), Selector(framework="base", scope="training"))
    image = derive("derived", Records(settings.read(project=ROOT).state).build_of(cell.id).reference)
    done = run(image, "python", "-c", "import einops, shared; print(shared.greeting())")
    assert done.stdout == "from the image\n", done.stderr
    assert run(image, "sh", "-c", "jq --version && pip check").returncode == 0
    kept = invoke(settings.read(project=ROOT).state, "verify", "--image", image, "--check", "programs")
    assert kept[0]["passed"], kept


def test_a_teams_own_file_is_locked_built_and_verified(state: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(EXAMPLES / "own", tmp_path / "own"))
    own = ("--buildspec", str(folder / "team.yml"), "--framework", "team")
    locked = invoke(state, "lock", *own)
    assert [change["lock"].partition("/")[2] for change in locked] == ["common", "training"]
    (built,) = invoke(state, "build", *own)
    try:
        assert (
            "from the team's toolkit"
            in run(
                built["reference"], "python", "-c", "import einops, torch, team_tools; print(team_tools.greeting())"
            ).stdout
        )
        assert run(built["reference"], "jq", "--version").returncode == 0
        (verdict,) = invoke(state, "verify", *own, "--check", "programs", "--check", "labels", "--check", "files")
        assert verdict["passed"], verdict["checks"]
    finally:
        process.run(["docker", "image", "rm", "--force", built["reference"]])


def test_a_toolkit_s_work_is_done_by_hand(state: Path, derive: Derive, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(EXAMPLES / "by-hand", tmp_path / "by-hand"))
    own = ("--buildspec", str(folder / "bare.yml"), "--framework", "bare")
    invoke(state, "lock", *own)
    (built,) = invoke(state, "build", *own)
    try:
        assert run(built["reference"], "sh", "-c", "command -v train serve").stdout == "", "no toolkit is in it"
        image = derive("by-hand", built["reference"])
        config, data, model = tmp_path / "config", tmp_path / "data", tmp_path / "model"
        for place in (config, data, model):
            place.mkdir()
        (config / "hyperparameters.json").write_text('{"factor": "2.5"}')
        (data / "rows.csv").write_text("1\n2\n3\n4\n")
        below = "/opt/ml/input"
        mounts = (f"{config}:{below}/config:ro", f"{data}:{below}/data/train:ro", f"{model}:/opt/ml/model")
        done = run(image, "train", mounts=mounts)
        assert (done.returncode, done.stdout) == (0, "weight: 10.0\n"), done.stderr
        assert json.loads((model / "model.json").read_text()) == {"weight": 10.0}
        (config / "hyperparameters.json").write_text('{"factor": "much"}')
        assert run(image, "train", mounts=mounts).returncode == 1
    finally:
        process.run(["docker", "image", "rm", "--force", built["reference"]])
