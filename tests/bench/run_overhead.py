"""What `invoke run` adds to `docker run` of the same command: a job on one host that does nothing.

python tests/bench/run_overhead.py IMAGE [--rounds N] [--sdk]

IMAGE is any training image of the engine. All run its own `train` on the same script; `docker run` is given the tree
below /opt/ml ready made. With --sdk the local mode of the SageMaker SDK v2, as a script of its user starts it, runs the
job in the same rounds; that its containers and network are cleared away, as `invoke run` does, counts for it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parent))
import figures

from tests.integration.clients import sdk

PROJECT = Path(__file__).parents[2]
BOUND = 1.5
SDK_BOUND = 1.0  # ours against the SDK's, as a ratio: there is no reason to be slower
CONFIGS = {
    "hyperparameters": {"sagemaker_program": '"train.py"', "sagemaker_submit_directory": '"/opt/ml/code"'},
    "resourceconfig": {"current_host": "algo-1", "hosts": ["algo-1"], "network_interface_name": "eth0"},
    "inputdataconfig": {},
}


def timed(argv: list[str]) -> Callable[[], float]:
    def run() -> float:
        started = time.perf_counter()
        done = subprocess.run(argv, cwd=PROJECT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return time.perf_counter() - started

    return run


def timed_sdk(client: sdk.Client, image: str, source: Path, scratch: Path) -> Callable[[], float]:
    output = scratch / "sdk-out"
    output.mkdir()
    job = sdk.Job(image=image, source=str(source), entry="train.py", output=output.as_uri(), local_code=True)

    def run() -> float:
        folder = Path(tempfile.mkdtemp(dir=scratch))
        started = time.perf_counter()
        done = client.run(job, folder)
        assert not done.error, done.text
        return time.perf_counter() - started

    return run


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("image")
    parser.add_argument("--rounds", type=int, default=figures.ROUNDS)
    parser.add_argument("--sdk", action="store_true")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory())
        tree = Path(scratch) / "ml"
        for name in ("input/config", "input/data", "model", "output/data", "code"):
            (tree / name).mkdir(parents=True)
        for name, document in CONFIGS.items():
            (tree / "input" / "config" / f"{name}.json").write_text(json.dumps(document))
        (tree / "code" / "train.py").write_text("print('done')\n")
        mounts = [f"--volume={tree / name}:/opt/ml/{name}" for name in ("input", "model", "output", "code")]
        docker = ["docker", "run", "--rm", "--hostname=algo-1", *mounts, options.image, "train"]
        ours = [sys.executable, "-m", "invoke", "run", "--image", options.image, "--output", f"{scratch}/out"]
        ours += ["--source", str(tree / "code"), "--entry", "train.py"]
        contestants = {"docker run": timed(docker), "invoke run": timed(ours)}
        if options.sdk:
            client = stack.enter_context(sdk.client("v2"))
            contestants["SDK v2"] = timed_sdk(client, options.image, tree / "code", Path(scratch))
        for run in contestants.values():
            run()
        values = figures.measure(contestants, options.rounds)
    found = [figures.difference("invoke run - docker run, s", values["invoke run"], values["docker run"], BOUND)]
    if options.sdk:
        found.append(figures.ratio("invoke run / SDK v2 local mode", values["invoke run"], values["SDK v2"], SDK_BOUND))
    for figure in found:
        print(figure)
    return 0 if all(figure.holds for figure in found) else 1


if __name__ == "__main__":
    sys.exit(main())
