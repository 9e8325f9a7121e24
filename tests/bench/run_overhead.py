"""What `invoke run` adds to `docker run` of the same command: a job on one host that does nothing.

python tests/bench/run_overhead.py IMAGE [--rounds N]

IMAGE is any training image of the engine. Both run its own `train` on the same script; `docker run` is given the tree
below /opt/ml ready made.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import figures

PROJECT = Path(__file__).parents[2]
BOUND = 1.5
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


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("image")
    parser.add_argument("--rounds", type=int, default=figures.ROUNDS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
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
        for run in contestants.values():
            run()
        values = figures.measure(contestants, options.rounds)
    figure = figures.difference("invoke run - docker run, s", values["invoke run"], values["docker run"], BOUND)
    print(figure)
    return 0 if figure.holds else 1


if __name__ == "__main__":
    sys.exit(main())
