"""How soon an MPI job on two hosts ends after its last rank.

    python -m tests.bench.training.mpi --image IMAGE [--peer-image IMAGE] [--rounds 15]

IMAGE has Open MPI, ssh, mpi4py and the base toolkit; the peer's has sagemaker-training from PyPI in its place, and is
told beside ours without a bound. Measured are the seconds from the last line of any rank until the last host has
ended, MPI's own finalisation included.
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
from mpi4py import MPI
MPI.COMM_WORLD.allreduce(1)
print("last", flush=True)
"""
RANKS = 4
JOB = {"sagemaker_mpi_enabled": "true", "sagemaker_mpi_num_of_processes_per_host": str(RANKS // 2)}
LIMIT_SECONDS = 2.0


def follow(process: subprocess.Popen[bytes]) -> tuple[int, float, float]:
    """Ranks that had their say, the moment of the last one's, and the moment of the end."""
    assert process.stdout is not None
    count, last = 0, 0.0
    for line in process.stdout:
        if line.rstrip().endswith(b":last"):
            count, last = count + 1, time.perf_counter()
    process.wait()
    return count, last, time.perf_counter()


def once(containers: list[str]) -> float:
    """Seconds from the last line to the end."""
    counts, lasts, ends = zip(*pair.run(containers, pair.TRAIN, follow), strict=True)
    if sum(counts) != RANKS:
        raise SystemExit(f"{sum(counts)} of {RANKS} ranks were heard")
    return max(ends) - max(lasts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--image", required=True)
    parser.add_argument("--peer-image", default="")
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    images = {"train": given.image, **({"reference": given.peer_image} if given.peer_image else {})}
    with ExitStack() as stack:
        hosts = {name: stack.enter_context(pair.containers(image, SCRIPT, JOB)) for name, image in images.items()}
        seconds = figures.measure({name: partial(once, names) for name, names in hosts.items()}, given.rounds)
    nothing = [0.0] * given.rounds
    found = figures.difference("train after the last line, s", seconds["train"], nothing, LIMIT_SECONDS)
    print(found)
    if given.peer_image:
        print(figures.difference("reference after the last line, s", seconds["reference"], nothing, float("inf")))
    return 0 if found.holds else 1


if __name__ == "__main__":
    sys.exit(main())
