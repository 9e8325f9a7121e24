"""Two containers of one network that play the hosts of a job, for as many rounds as wanted."""

from __future__ import annotations

import json
import secrets
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HOSTS = ("algo-1", "algo-2")

# As the platform starts a job, on folders that a round before left behind.
TRAIN = "rm -rf /opt/ml/output/*; exec train"


def docker(*arguments: str) -> None:
    subprocess.run(["docker", *arguments], check=True, stdout=subprocess.DEVNULL)


@contextmanager
def containers(image: str, script: str, hyperparameters: Mapping[str, Any]) -> Iterator[list[str]]:
    """The names of two idle containers with a job's /opt/ml; gone at the end, with their network."""
    mark = f"slipway-bench-{secrets.token_hex(4)}"
    names = [f"{mark}-{host}" for host in HOSTS]
    with tempfile.TemporaryDirectory(prefix="slipway-bench-") as folder:
        docker("network", "create", mark)
        try:
            for host, name in zip(HOSTS, names, strict=True):
                base = Path(folder, host)
                _tree(base, host, script, hyperparameters)
                place = ["--network", mark, "--network-alias", host, "--hostname", host]
                mount = ["-v", f"{base}:/opt/ml"]
                docker("run", "-d", "--init", "--name", name, *place, *mount, image, "sleep", "86400")
            yield names
            # Root's files would keep the folder from being removed.
            for name in names:
                docker("exec", name, "sh", "-c", "rm -rf /opt/ml/*")
        finally:
            subprocess.run(["docker", "rm", "-f", *names], check=False, stdout=subprocess.DEVNULL)
            docker("network", "rm", mark)


def run(names: list[str], command: str, follow: Any) -> list[Any]:
    """Run a shell command on both hosts at once; `{rank}` in it is the host's number. Gives what `follow` saw of each.

    `follow` gets the running process and reads its output to the end.
    """
    running = [
        subprocess.Popen(
            ["docker", "exec", name, "sh", "-c", command.replace("{rank}", str(rank))],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        for rank, name in enumerate(names)
    ]
    with ThreadPoolExecutor() as pool:
        seen = list(pool.map(follow, running))
    codes = [process.returncode for process in running]
    if any(codes):
        raise SystemExit(f"{command} failed with the exit codes {codes}")
    return seen


def _tree(base: Path, host: str, script: str, hyperparameters: Mapping[str, Any]) -> None:
    """A host's /opt/ml."""
    for folder in ("input/config", "code", "model", "output"):
        (base / folder).mkdir(parents=True)
    (base / "code/train.py").write_text(script)
    configs = {
        "hyperparameters": {"sagemaker_program": "train.py", **hyperparameters},
        "resourceconfig": {"current_host": host, "hosts": list(HOSTS), "network_interface_name": "eth0"},
        "inputdataconfig": {},
    }
    for name, content in configs.items():
        (base / f"input/config/{name}.json").write_text(json.dumps(content))
