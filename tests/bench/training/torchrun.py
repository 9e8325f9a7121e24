"""What the toolkit adds to a torchrun job on two hosts, against the same command started by hand.

    python -m tests.bench.training.torchrun --image IMAGE [--peer-image IMAGE] [--rounds 15]

IMAGE has PyTorch and the two toolkits. Both contestants run in the same two containers, in turn: ``train``, and the
torchrun command that its log names. The peer's image has the same PyTorch with sagemaker-pytorch-training from PyPI in
place of our toolkits; it is told beside ours, without a bound. Measured are the seconds from the start on both hosts
until the last of them has ended, and from the script's last line until then.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from contextlib import ExitStack
from functools import partial

from tests.bench import figures
from tests.bench.training import pair

SCRIPT = """\
import torch, torch.distributed as dist
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
print("last", flush=True)
dist.destroy_process_group()
"""
JOB = {"sagemaker_torch_distributed_enabled": "true", "sagemaker_instance_type": "ml.m5.large"}
BY_HAND = (
    "cd /opt/ml/code; exec python -m torch.distributed.run --nnodes 2 --nproc_per_node 1"
    " --master_addr algo-1 --master_port 7777 --node_rank {rank} train.py"
)
ADDED_SECONDS = 1.0


def follow(process: subprocess.Popen[bytes]) -> tuple[float, float]:
    """The moments of the script's last line and of the end."""
    assert process.stdout is not None
    last = 0.0
    for line in process.stdout:
        if line.rstrip().endswith(b"last"):
            last = time.perf_counter()
    process.wait()
    return last, time.perf_counter()


def once(containers: list[str], command: str, tails: list[float]) -> float:
    """Seconds in all; those after the last line go to a list."""
    started = time.perf_counter()
    last, ended = (max(moments) for moments in zip(*pair.run(containers, command, follow), strict=True))
    tails.append(ended - last)
    return ended - started


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--image", required=True)
    parser.add_argument("--peer-image", default="")
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    with ExitStack() as stack:
        ours = stack.enter_context(pair.containers(given.image, SCRIPT, JOB))
        commands = {"by hand": (ours, BY_HAND), "train": (ours, pair.TRAIN)}
        if given.peer_image:
            commands["reference"] = (stack.enter_context(pair.containers(given.peer_image, SCRIPT, JOB)), pair.TRAIN)
        tails: dict[str, list[float]] = {name: [] for name in commands}
        runs = {name: partial(once, hosts, text, tails[name]) for name, (hosts, text) in commands.items()}
        seconds = figures.measure(runs, given.rounds)
    found = [figures.difference("train over torchrun by hand, s", seconds["train"], seconds["by hand"], ADDED_SECONDS)]
    told = [figures.difference("the same after the last line, s", tails["train"], tails["by hand"], ADDED_SECONDS)]
    if given.peer_image:
        name = "reference over torchrun by hand, s"
        told.append(figures.difference(name, seconds["reference"], seconds["by hand"], float("inf")))
    for figure in (*found, *told):
        print(figure)
    return 0 if all(figure.holds for figure in found) else 1


if __name__ == "__main__":
    sys.exit(main())
