"""How soon an MPI job on two hosts ends after its last rank.

    python tests/bench/training/mpi.py --image IMAGE [--rounds 5]

IMAGE has Open MPI, ssh, mpi4py and the base toolkit. Told are medians: the time from the start on both hosts until the
last of them has ended, and from the last line of any rank until then, MPI's own finalisation included.
The promise is at most 2 s after the last line.
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
from mpi4py import MPI
MPI.COMM_WORLD.allreduce(1)
print("last", flush=True)
"""

RANKS = 4
LIMIT_SECONDS = 2.0


def docker(*arguments: str) -> None:
    subprocess.run(["docker", *arguments], check=True, stdout=subprocess.DEVNULL)


def tree(base: Path, host: str) -> None:
    """A host's /opt/ml."""
    for folder in ("input/config", "code", "model", "output"):
        (base / folder).mkdir(parents=True)
    (base / "code/train.py").write_text(SCRIPT)
    configs = {
        "hyperparameters": {
            "sagemaker_program": "train.py",
            "sagemaker_mpi_enabled": "true",
            "sagemaker_mpi_num_of_processes_per_host": str(RANKS // 2),
        },
        "resourceconfig": {"current_host": host, "hosts": ["algo-1", "algo-2"], "network_interface_name": "eth0"},
        "inputdataconfig": {},
    }
    for name, content in configs.items():
        (base / f"input/config/{name}.json").write_text(json.dumps(content))


def follow(process: subprocess.Popen[bytes]) -> tuple[int, float, float]:
    """Ranks that had their say, the moment of the last one's, and the moment of the end."""
    assert process.stdout is not None
    count, last = 0, 0.0
    for line in process.stdout:
        if line.endswith(b">:last\n"):
            count, last = count + 1, time.perf_counter()
    process.wait()
    return count, last, time.perf_counter()


def once(containers: list[str]) -> dict[str, float]:
    started = time.perf_counter()
    command = ["sh", "-c", "rm -rf /opt/ml/output/*; exec train"]
    running = [
        subprocess.Popen(["docker", "exec", name, *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for name in containers
    ]
    with ThreadPoolExecutor() as pool:
        counts, lasts, ends = zip(*pool.map(follow, running), strict=True)
    codes = [process.returncode for process in running]
    if any(codes) or sum(counts) != RANKS:
        raise SystemExit(f"the job failed: exit codes {codes}, {sum(counts)} of {RANKS} ranks")
    return {"total, s": max(ends) - started, "after the last line, s": max(ends) - max(lasts)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--image", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
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
            runs = [once(containers) for _ in range(options.rounds)]
        finally:
            docker("rm", "-f", *containers)
            docker("network", "rm", mark)
    medians = {key: round(statistics.median(run[key] for run in runs), 3) for key in runs[0]}
    print(json.dumps({**medians, "limit, s": LIMIT_SECONDS}, indent=2))
    if medians["after the last line, s"] > LIMIT_SECONDS:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
