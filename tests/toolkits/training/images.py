"""An image that has the toolkit by ``pip install`` of its wheel, and nothing else of this project."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

BASE = "slipway-dev/base:bookworm"  # tests/base_image.py makes it
PROJECT = Path(__file__).parents[3]

_DOCKERFILE = f"""\
FROM {BASE}
RUN --mount=type=bind,target=/context PYTHONPATH=/context/pip \\
    python3 -m pip install --no-index --break-system-packages --no-cache-dir /context/*.whl
"""


def build(toolkit: Path, context: Path) -> str:
    """Builds the wheel of a toolkit's folder and the image, and gives its name. The base has no pip: ours is used."""
    import pip

    # This project's own settings are not the tests'.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SLIPWAY_")}
    subprocess.run([sys.executable, "-m", "tests.base_image"], cwd=str(PROJECT), env=environment, check=True)
    context.mkdir(exist_ok=True)
    wheel = "import sys, flit_core.buildapi as b; b.build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", wheel, str(context)], cwd=str(toolkit), check=True)
    shutil.copytree(str(Path(pip.__file__).parent), str(context / "pip/pip"))
    (context / "Dockerfile").write_text(_DOCKERFILE)
    name = f"slipway-test/training-{secrets.token_hex(4)}"
    command = ["docker", "buildx", "build", "--provenance=false", "--load", "-t", name, str(context)]
    subprocess.run(command, check=True, capture_output=True)
    return name
