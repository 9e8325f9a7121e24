"""torchrun's command line, its ranks, its signals and its summary, without a rendezvous."""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

parser = argparse.ArgumentParser()
for name in ("nnodes", "nproc_per_node", "master_addr", "master_port", "node_rank"):
    parser.add_argument("--" + name, default="0")
parser.add_argument("--no_python", action="store_true")
parser.add_argument("script")
parser.add_argument("script_args", nargs=argparse.REMAINDER)


class SignalException(Exception):
    pass


SignalException.__module__ = "torch.distributed.elastic.multiprocessing.api"


def stop(signum, frame):
    raise SignalException(f"Process {os.getpid()} got signal: {signum}")


def global_rank(args, local_rank):
    return int(args.node_rank) * int(args.nproc_per_node) + local_rank


def start(args, local_rank):
    count = int(args.nproc_per_node)
    variables = {
        "LOCAL_RANK": local_rank,
        "RANK": global_rank(args, local_rank),
        "WORLD_SIZE": int(args.nnodes) * count,
        "MASTER_ADDR": args.master_addr,
        "MASTER_PORT": args.master_port,
    }
    env = {**os.environ, **{name: str(value) for name, value in variables.items()}}
    command = [args.script, *args.script_args] if args.no_python else [sys.executable, args.script, *args.script_args]
    return subprocess.Popen(command, env=env, start_new_session=True)


def summary(args, local_rank, code):
    line = "=" * 60
    sys.stderr.write(f"""\
E0101 10:00:00.000000 1 torch/distributed/elastic/multiprocessing/api.py:1] failed (exitcode: {code})
Traceback (most recent call last):
  File "run.py", line 1, in main
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\x20
{line}
{args.script} FAILED
{"-" * 60}
Failures:
  <NO_OTHER_FAILURES>
{"-" * 60}
Root Cause (first observed failure):
[0]:
  rank      : {global_rank(args, local_rank)} (local_rank: {local_rank})
  exitcode  : {code} (pid: 1)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
{line}
""")


def main():
    args = parser.parse_args()
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, stop)
    note = os.environ.get("TORCHRUN_NOTE")
    if note:
        Path(note).write_text(json.dumps(vars(args)))
    ranks = [start(args, local_rank) for local_rank in range(int(args.nproc_per_node))]
    try:
        while any(rank.poll() is None for rank in ranks) and not any(rank.poll() for rank in ranks):
            time.sleep(0.01)
    finally:
        failed = next((number for number, rank in enumerate(ranks) if rank.poll()), None)
        for rank in ranks:
            if rank.poll() is None:
                os.killpg(rank.pid, signal.SIGTERM)
        for rank in ranks:
            rank.wait()
    if failed is not None:
        summary(args, failed, ranks[failed].returncode)
        sys.exit(1)


main()
