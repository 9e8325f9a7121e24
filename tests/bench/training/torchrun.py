"""What the toolkit adds to a torchrun job on two hosts, against the same command started by hand.

    python tests/bench/training/torchrun.py --image IMAGE [--rounds 5]

IMAGE has PyTorch and the two toolkits. Both contestants run in the same two containers, in turn: ``train``, and the
torchrun command that its log names. Told is the time from the start on both hosts until the last of them has ended,
and from the script's last line until then.
"""

from __future__ import annotations

import argparse
import json
import secrets
import statistics
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SCRIPT = """\
import torch, torch.distributed as dist
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
print("last", flush=True)
dist.destroy_process_group()
"""

TRAIN = "rm -rf /opt/ml/output/*; exec train"
BY_HAND = (
    "cd /opt/ml/code; exec python -m torch.distributed.run --nnodes 2 --nproc_per_node 1"
    " --master_addr algo-1 --master_port 7777 --node_rank {rank} train.py"
)


def docker(*arguments: str) -> None:
    subprocess.run(["docker", *arguments], check=True, stdout=subprocess.DEVNULL)


def tree(base: Path, host: str) -> None:
    """A host's /opt/ml."""
    for folder in ("input/config", "code", "model", "output"):
        (base / folder).mkdir(parents=True)
    (base / "code/train.py").write_text(SCRIPT)
    configs = {
        "hyperparameters": {"sagemaker_program": "train.py", "sagemaker_torch_distributed_enabled": "true"},
        "resourceconfig": {"current_host": host, "hosts": ["algo-1", "algo-2"], "network_interface_name": "eth0"},
        "inputdataconfig": {},
    }
    for name, content in configs.items():
        (base / f"input/config/{name}.json").write_text(json.dumps(content))


def follow(process: subprocess.Popen[bytes]) -> tuple[float, float]:
    """The moments of the script's last line and of the end."""
    assert process.stdout is not None
    last = 0.0
    for line in process.stdout:
        if line == b"last\n":
            last = time.perf_counter()
    process.wait()
    return last, time.perf_counter()


def once(containers: list[str], command: str) -> dict[str, float]:
    started = time.perf_counter()
    running = [
        subprocess.Popen(
            ["docker", "exec", name, "sh", "-c", command.format(rank=rank)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        for rank, name in enumerate(containers)
    ]
    with ThreadPoolExecutor() as pool:
        ends = list(pool.map(follow, running))
    for process in running:
        if process.returncode:
            raise SystemExit(f"{command} failed with exit code {process.returncode}")
    last, ended = (max(moments) for moments in zip(*ends, strict=True))
    return {"total, s": ended - started, "after last line, s": ended - last}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--image", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    contestants = {"by hand": BY_HAND, "train": TRAIN}
    results: dict[str, list[dict[str, float]]] = {name: [] for name in contestants}
    mark = f"slipway-bench-{secrets.token_hex(4)}"
    containers = [f"{mark}-{number}" for number in (1, 2)]
    with tempfile.TemporaryDirectory(prefix="slipway-bench-") as folder:
        docker("network", "create", mark)
        try:
            for number, name in enumerate(containers, 1):
                host = f"algo-{number}"
                tree(Path(folder, host), host)
                place = ["--network", mark, "--network-alias", host, "--hostname", host]
                mount = ["-v", f"{Path(folder, host)}:/opt/ml"]
                docker("run", "-d", "--init", "--name", name, *place, *mount, options.image, "sleep", "3600")
            for _ in range(options.rounds):
                for name, command in contestants.items():
                    results[name].append(once(containers, command))
        finally:
            docker("rm", "-f", *containers)
            docker("network", "rm", mark)
    medians = {
        name: {key: round(statistics.median(run[key] for run in runs), 3) for key in runs[0]}
        for name, runs in results.items()
    }
    added = {key: round(medians["train"][key] - medians["by hand"][key], 3) for key in medians["train"]}
    print(json.dumps({**medians, "added": added}, indent=2))


if __name__ == "__main__":
    main()
