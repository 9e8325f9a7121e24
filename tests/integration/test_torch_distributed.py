"""PyTorch jobs on two hosts: what the ranks are given, whose failure is told, and what becomes of lost hosts."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from slipway import process
from slipway.emulator.cluster import InstanceGroup
from slipway.emulator.job import LogLine
from slipway.engine.docker import Engine

from .conftest import members
from .training_hosts import Cluster, Host, start_hosts, training_image

pytestmark = pytest.mark.integration

TORCHRUN = {"sagemaker_torch_distributed_enabled": True}

ALL_REDUCE = """\
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
print("world", dist.get_world_size(), "rank", dist.get_rank(), "sum", int(total), "host", os.environ["SM_CURRENT_HOST"])
dist.destroy_process_group()
"""

STEPS = """\
import sys, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
for step in range(100000):
    dist.all_reduce(torch.ones(1))
    if step == 3:
        print("training", flush=True)
    time.sleep(0.05)
"""


@pytest.fixture(scope="session")
def image(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with training_image(engine, tmp_path_factory.mktemp("torch"), "pytorch") as made:
        yield made


@pytest.fixture
def cluster(engine: Engine, image: str, tmp_path: Path) -> Cluster:
    return Cluster(engine, image, tmp_path)


def test_ranks_of_two_hosts_make_one_world(cluster: Cluster) -> None:
    result = cluster.run(cluster.source(train=ALL_REDUCE), TORCHRUN)
    assert result.status == "Completed", result.failure_reason
    assert cluster.printed("world") == [
        "world 2 rank 0 sum 2 host algo-1",
        "world 2 rank 1 sum 2 host algo-2",
    ]


GROUPS = """\
import json, os
names = ("CURRENT_HOST", "CURRENT_INSTANCE_GROUP", "CURRENT_INSTANCE_TYPE", "CURRENT_INSTANCE_GROUP_HOSTS", "IS_HETERO",
         "INSTANCE_GROUPS", "DISTRIBUTION_INSTANCE_GROUPS", "HOSTS")
told = [os.environ["SM_" + name] for name in names]
groups = json.loads(os.environ["SM_INSTANCE_GROUPS_DICT"])
told.append({name: [group["instance_type"], group["hosts"]] for name, group in groups.items()})
world = 0
if "WORLD_SIZE" in os.environ:
    import torch, torch.distributed as dist
    dist.init_process_group("gloo")
    total = torch.ones(1)
    dist.all_reduce(total)
    world = int(total)
    dist.destroy_process_group()
print("told", json.dumps([*told, world]))
"""


def test_only_the_hosts_of_the_named_group_make_a_world(cluster: Cluster) -> None:
    """Not those of the first group, which the leader of a job without named groups is of."""
    job = {**TORCHRUN, "sagemaker_distribution_instance_groups": ["train"]}
    placed = (InstanceGroup("prepare", "ml.c5.xlarge", 1), InstanceGroup("train", "ml.g5.xlarge", 2))
    result = cluster.run(cluster.source(train=GROUPS), job, hosts=3, instance_groups=placed)
    assert result.status == "Completed", result.failure_reason
    train = '["algo-2","algo-3"]'
    groups = {"prepare": ["ml.c5.xlarge", ["algo-1"]], "train": ["ml.g5.xlarge", ["algo-2", "algo-3"]]}
    shared = ["true", '["prepare","train"]', '["train"]', '["algo-1","algo-2","algo-3"]', groups]
    assert [json.loads(line.partition(" ")[2]) for line in cluster.printed("told ")] == [
        ["algo-1", "prepare", "ml.c5.xlarge", '["algo-1"]', *shared, 0],
        ["algo-2", "train", "ml.g5.xlarge", train, *shared, 2],
        ["algo-3", "train", "ml.g5.xlarge", train, *shared, 2],
    ]


PACKAGE = {
    "setup": "from setuptools import setup; setup(name='pkg', version='1', packages=['pkg'])",
    "pkg____init__": "",
}


def test_module_entry(cluster: Cluster) -> None:
    source = cluster.source(
        **PACKAGE, pkg__train="import os; print('module', __name__, __package__, os.environ['RANK'])"
    )
    # The image brings setuptools; an isolated build would fetch its own.
    result = cluster.run(source, TORCHRUN, entry="pkg/train.py", environment={"PIP_NO_BUILD_ISOLATION": "0"})
    assert result.status == "Completed", result.failure_reason
    assert cluster.printed("module") == ["module __main__ pkg 0", "module __main__ pkg 1"]


def test_pytorch_ddp(cluster: Cluster) -> None:
    result = cluster.run(cluster.source(train=ALL_REDUCE), {"sagemaker_pytorch_ddp_enabled": True})
    assert result.status == "Completed", result.failure_reason
    assert len(cluster.printed("world 2")) == 2


SMDDP = """\
import os, torch, torch.distributed as dist
import smdistributed.dataparallel.torch.torch_smddp
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("smddp")
total = torch.ones(1)
dist.all_reduce(total)
torch.manual_seed(dist.get_rank())
model = DistributedDataParallel(torch.nn.Linear(2, 1))
model(torch.ones(1, 2)).sum().backward()
weights = torch.cat([p.detach().flatten() for p in model.parameters()]).tolist()
print("smddp", dist.get_backend(), int(total), [round(w, 6) for w in weights])
dist.destroy_process_group()
"""


def test_smddp_runs_over_gloo_and_says_so_once(cluster: Cluster) -> None:
    job = {"sagemaker_distributed_dataparallel_enabled": True, "sagemaker_mpi_num_of_processes_per_host": 2}
    result = cluster.run(cluster.source(train=SMDDP), job)
    assert result.status == "Completed", result.failure_reason
    printed = cluster.printed("smddp smddp 4")
    assert len(printed) == 4
    assert len(set(printed)) == 1
    assert len([line for line in cluster.lines if "runs over gloo instead" in line.text]) == 1


# Ends while gloo's thread waits for the interpreter's lock, which nothing makes the script give up before. (Should the
# thread come before the script that is not so, hence the bound, and several ranks.)
ENDS_AT_ONCE = """\
import sys, torch, torch.distributed as dist
from sagemaker_pytorch_container import ending
dist.init_process_group("gloo")
dist.barrier()
sys.setswitchinterval(600)
dist.all_reduce(torch.ones(1), async_op=True)
any(ending.threads() for _ in range(100_000))
"""


def test_a_script_that_ends_at_once_does_not_abort(cluster: Cluster) -> None:
    job = {**TORCHRUN, "sagemaker_mpi_num_of_processes_per_host": 4}
    result = cluster.run(cluster.source(train=ENDS_AT_ONCE), job, hosts=1)
    assert result.status == "Completed", result.failure_reason


LINES = """\
import os, sys, torch.distributed as dist
dist.init_process_group("gloo")
for step in range(500):
    print("metric rank", dist.get_rank(), "step", step, "loss=", 1 / (step + 1), "end")
    print("log rank", dist.get_rank(), "step", step, "end", file=sys.stderr)
"""


def test_lines_of_ranks_stay_whole(cluster: Cluster) -> None:
    job = {**TORCHRUN, "sagemaker_mpi_num_of_processes_per_host": 2}
    result = cluster.run(cluster.source(train=LINES), job)
    assert result.status == "Completed", result.failure_reason
    for kind in ("metric", "log"):
        lines = [line.text.split() for line in cluster.lines if line.text.startswith(f"{kind} rank")]
        assert all(words[-1] == "end" for words in lines)
        for rank in range(4):
            assert [words[4] for words in lines if words[2] == str(rank)] == [str(step) for step in range(500)]


SAVE = """\
import os, signal, sys, time, torch.distributed as dist
dist.init_process_group("gloo")
def save(signum, frame):
    open(os.path.join(os.environ["SM_MODEL_DIR"], "rank%d" % dist.get_rank()), "a").write("saved ")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
dist.barrier()
print("ready", flush=True)
while True:
    time.sleep(0.1)
"""


def test_stop_reaches_every_rank_once(cluster: Cluster) -> None:
    ready: set[str] = set()

    def both_ready(line: LogLine) -> bool:
        if line.text == "ready":
            ready.add(line.host)
        return len(ready) == 2

    result = cluster.run(cluster.source(train=SAVE), TORCHRUN, stop_when=both_ready)
    assert result.status == "Stopped"
    assert result.model is not None
    assert members(result.model) == {"rank0": b"saved ", "rank1": b"saved "}


REQUIREMENTS = """\
import sagemaker_training, sagemaker_pytorch_container, importlib.metadata as metadata
print("versions", sagemaker_training.__version__, sagemaker_pytorch_container.__version__)
print("reference", [d.name for d in metadata.distributions() if d.name.lower().startswith("sagemaker")])
"""


def test_requirements_that_name_the_reference_toolkits_change_nothing(cluster: Cluster) -> None:
    source = cluster.source(train=REQUIREMENTS)
    (source / "requirements.txt").write_text("sagemaker-training\nsagemaker_pytorch_training==2.8.1\n")
    result = cluster.run(source, {}, hosts=1, environment={"PIP_NO_INDEX": "1"})
    assert result.status == "Completed", result.failure_reason
    assert cluster.printed("reference") == ["reference []"]
    assert len([line for line in cluster.lines if "is left out" in line.text]) == 2


FAIL = """\
import sys, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
dist.barrier()
if dist.get_rank() == 1:
    raise ValueError("bad batch")
dist.all_reduce(torch.ones(1))
"""


class Hosts:
    """Starts two hosts that nobody but the toolkit ends."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def start(self, text: str) -> AbstractContextManager[list[Host]]:
        source = self.cluster.source(train=text)
        job = {**TORCHRUN, "sagemaker_program": "train.py"}
        return start_hosts(self.cluster.engine, self.cluster.image, self.cluster.folder, source, job)


@pytest.fixture
def hosts(cluster: Cluster) -> Hosts:
    return Hosts(cluster)


def test_failure_of_a_rank_is_the_reason_on_every_host(hosts: Hosts) -> None:
    with hosts.start(FAIL) as (first, second):
        assert second.end() == 1
        assert first.end() == 1
    assert second.failure.startswith("ValueError: bad batch\n"), second.failure
    assert "\nRank 1 failed first.\n" in second.failure
    assert first.failure.startswith("Host algo-2 failed first, with exit code 1: rank 1: ValueError: bad batch\n")


def test_exit_code_of_the_rank_is_kept(hosts: Hosts) -> None:
    with hosts.start(FAIL.replace('raise ValueError("bad batch")', "sys.exit(7)")) as (first, second):
        assert second.end() == 7, f"{second.log}\nthe other host:\n{first.log}"
        assert first.end() == 1
    assert first.failure.startswith("Host algo-2 failed first, with exit code 7")


@pytest.mark.parametrize(("dies", "name"), [(1, "algo-2"), (0, "algo-1")])
def test_lost_host_is_named_by_the_other(hosts: Hosts, dies: int, name: str) -> None:
    with hosts.start(STEPS) as pair:
        for host in pair:
            host.wait_for("training")
        pair[dies].container.signal("SIGKILL")
        killed = time.monotonic()
        stays = pair[1 - dies]
        assert stays.end(60) != 0
        assert stays.ended - killed < 60
        assert stays.failure.startswith(f"Host {name} was lost"), stays.failure


@pytest.mark.slow
def test_frozen_host_is_named_by_the_other(hosts: Hosts) -> None:
    """Its connections stay open: only its silence tells."""
    with hosts.start(STEPS) as (first, second):
        for host in (first, second):
            host.wait_for("training")
        process.run(["docker", "pause", second.container.id])
        try:
            assert first.end(60) != 0
        finally:
            process.run(["docker", "unpause", second.container.id])
        assert first.failure.startswith("Host algo-2 was lost: it gave no sign of life"), first.failure
