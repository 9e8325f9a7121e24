"""The torchrun launcher, with a stand-in for torchrun: no PyTorch is needed."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from sagemaker_training import errors, fabric, runner

from .conftest import SOURCE, Job

STAND_INS = Path(__file__).parent / "stand_ins"

# Any image may come with a launcher's framework toolkit; this one knows nothing but torchrun.
FRAMEWORK = """\
from sagemaker_training import entry_point, peers, runner
from sagemaker_training.environment import Environment

def main():
    env = Environment()
    entry_point.run(env.module_dir, env.user_entry_point, env.to_cmd_args(), env.to_env_vars(),
                    runner_type=runner.TorchDistributedRunnerType)
"""


def prepare(job: Job, linger: float = 0) -> Job:
    """Makes torchrun the launcher of a job. linger: seconds in which a failed host waits for those that start late."""
    folder = job.base / "framework"
    folder.mkdir()
    (folder / "framework.py").write_text(FRAMEWORK + f"\npeers._LINGER_SECONDS = {linger}\n")
    job.env["PYTHONPATH"] = os.pathsep.join(map(str, (STAND_INS, folder, SOURCE)))
    job.env["SAGEMAKER_TRAINING_MODULE"] = "framework:main"
    job.env["TORCHRUN_NOTE"] = str(job.base / "note.json")
    return job


@pytest.fixture
def torch_job(job: Job) -> Job:
    return prepare(job)


def note(job: Job):
    """What torchrun was told."""
    return json.loads((job.base / "note.json").read_text())


def script(job: Job, text: str, **hyperparameters) -> None:
    job.script(text, sagemaker_torch_distributed_enabled="true", **hyperparameters)


def free_port() -> int:
    """The first of two neighbouring free ports, below those that the kernel gives to outgoing connections meanwhile."""
    while True:
        port = random.randrange(10_000, 32_000)
        with suppress(OSError), socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", port))
            other.bind(("127.0.0.1", port + 1))
            return port


# The command


def test_ranks_have_variables_that_no_shell_can_name(torch_job):
    script(torch_job, "import os; print(os.environ['SM_HP_BATCH-SIZE'])", **{"batch-size": "64"})
    done = torch_job.run()
    assert (done.code, done.out) == (0, "64\n"), done.err


def test_one_host_runs_as_many_ranks_as_asked(torch_job):
    text = "import os, sys; print('rank', os.environ['RANK'], os.environ['WORLD_SIZE'], sys.argv[1:])"
    script(torch_job, text, sagemaker_mpi_num_of_processes_per_host="2", lr="0.1")
    done = torch_job.run()
    assert done.code == 0, done.err
    assert sorted(done.out.splitlines()) == ["rank 0 2 ['--lr', '0.1']", "rank 1 2 ['--lr', '0.1']"]


def test_one_host_uses_a_free_port(torch_job):
    script(torch_job, "pass")
    assert torch_job.run().code == 0
    first = note(torch_job)["master_port"]
    with socket.create_server(("127.0.0.1", int(first))):
        assert torch_job.run().code == 0
    second = note(torch_job)["master_port"]
    assert note(torch_job)["master_addr"] == "127.0.0.1"
    assert len({first, second, "29500"}) == 3


def test_ranks_of_many_hosts(torch_job):
    torch_job.resources({"current_host": "127.0.0.1", "hosts": ["localhost", "127.0.0.1"]})
    port = str(free_port())
    torch_job.env["MASTER_PORT"] = port
    script(torch_job, "pass")
    assert torch_job.run().code == 0
    told = note(torch_job)
    assert (told["nnodes"], told["node_rank"], told["master_addr"], told["master_port"]) == (
        "2",
        "1",
        "localhost",
        port,
    )


def test_the_node_rank_counts_the_hosts_of_the_distribution(torch_job):
    torch_job.resources(
        {
            "current_host": "127.0.0.1",
            "current_group_name": "gpu",
            "hosts": ["cpu-host", "127.0.0.1"],
            "instance_groups": [
                {"instance_group_name": "cpu", "instance_type": "ml.c5.xlarge", "hosts": ["cpu-host"]},
                {"instance_group_name": "gpu", "instance_type": "ml.g5.xlarge", "hosts": ["127.0.0.1"]},
            ],
        }
    )
    script(torch_job, "pass")
    torch_job.env["SM_STUDIO_LOCAL_MODE"] = "true"  # cpu-host has no address.
    assert torch_job.run().code == 0
    assert note(torch_job)["nnodes"] == "1"


def test_a_package_runs_as_module(torch_job):
    torch_job.code("setup.py", "from setuptools import setup; setup(name='pkg', packages=['pkg'])")
    torch_job.code("pkg/__init__.py", "")
    torch_job.code("pkg/train.py", "print(__name__, __package__)")
    torch_job.hyperparameters({"sagemaker_program": "pkg/train.py", "sagemaker_torch_distributed_enabled": "true"})
    # Without pip: the package is found in the code folder, and whether pip works is another test's matter.
    torch_job.env["PYTHONPATH"] = os.pathsep.join([no_pip(torch_job), torch_job.env["PYTHONPATH"]])
    done = torch_job.run()
    assert done.code == 0, done.err
    assert done.out == "__main__ pkg\n"


def no_pip(job: Job) -> str:
    (job.base / "no_pip" / "pip").mkdir(parents=True)
    for name in ("__init__.py", "__main__.py"):
        (job.base / "no_pip" / "pip" / name).write_text("")
    return str(job.base / "no_pip")


def test_an_argument_that_begins_like_options_of_torchrun_is_the_scripts_own(torch_job):
    torch_job.code("train.py", "import json, sys; print(json.dumps(sys.argv[1:]))")
    argv = ["--master", "1", "2", "--", "--n"]
    torch_job.hyperparameters(
        {
            "sagemaker_program": "train.py",
            "sagemaker_torch_distributed_enabled": "true",
            "sagemaker_slipway_argv": json.dumps(argv),
        }
    )
    done = torch_job.run()
    assert done.code == 0, done.err
    assert json.loads(done.out) == argv


def test_a_shell_script_is_refused(torch_job):
    torch_job.code("train.sh", "echo no")
    torch_job.hyperparameters({"sagemaker_program": "train.sh", "sagemaker_torch_distributed_enabled": "true"})
    done = torch_job.run()
    assert done.code == 1
    assert "torchrun cannot start train.sh" in done.failure


def test_a_port_that_is_none_is_refused(torch_job):
    torch_job.resources({"current_host": "localhost", "hosts": ["localhost", "127.0.0.1"]})
    torch_job.env["MASTER_PORT"] = "many"
    script(torch_job, "pass")
    done = torch_job.run()
    assert done.code == 1
    assert "MASTER_PORT='many'" in done.failure


@pytest.mark.parametrize("value", ["1", "0"])
def test_neuron_compile_goes_before_torchrun(torch_job, value):
    tool = torch_job.base / "bin" / "neuron_parallel_compile"
    tool.parent.mkdir()
    tool.write_text('#!/bin/sh\necho compiling\nexec "$@"\n')
    tool.chmod(0o755)
    torch_job.env["PATH"] = f"{tool.parent}{os.pathsep}{torch_job.env['PATH']}"
    torch_job.env["RUN_NEURON_PARALLEL_COMPILE"] = value
    script(torch_job, "print('trained')")
    done = torch_job.run()
    assert done.code == 0, done.err
    assert done.out.splitlines() == (["compiling"] if value == "1" else []) + ["trained"]


def test_neuron_compile_without_the_tool_is_refused(torch_job):
    torch_job.env["RUN_NEURON_PARALLEL_COMPILE"] = "1"
    script(torch_job, "pass")
    done = torch_job.run()
    assert done.code == 1
    assert "not on PATH" in done.failure


# The environment


SHOW = "import json, os; print(json.dumps(dict(os.environ)))"


def variables(job: Job):
    script(job, SHOW)
    done = job.run()
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_network_variables(torch_job):
    torch_job.resources(
        {
            "current_host": "algo-1",
            "hosts": ["algo-1"],
            "network_interface_name": "lo",
            "current_instance_type": "ml.p4d.24xlarge",
        }
    )
    found = variables(torch_job)
    assert found["NCCL_SOCKET_IFNAME"] == found["GLOO_SOCKET_IFNAME"] == "lo"
    assert found["NCCL_PROTO"] == "simple"
    assert found["FI_PROVIDER"] == "efa"
    assert found["FI_EFA_USE_DEVICE_RDMA"] == found["RDMAV_FORK_SAFE"] == "1"


def test_what_the_user_set_holds(torch_job):
    torch_job.resources({"current_host": "algo-1", "hosts": ["algo-1"], "network_interface_name": "lo"})
    chosen = {"NCCL_SOCKET_IFNAME": "ib0", "NCCL_PROTO": "LL", "MASTER_PORT": str(free_port())}
    torch_job.env.update(chosen)
    found = variables(torch_job)
    assert {name: found[name] for name in chosen} == chosen


def test_an_interface_that_is_not_there_is_not_named(torch_job):
    torch_job.resources({"current_host": "algo-1", "hosts": ["algo-1"], "network_interface_name": "ethwe"})
    found = variables(torch_job)
    assert "NCCL_SOCKET_IFNAME" not in found
    assert "GLOO_SOCKET_IFNAME" not in found


@pytest.mark.parametrize(
    ("instance_type", "efa", "rdma"),
    [
        ("ml.g4dn.12xlarge", True, False),
        ("ml.g5.48xlarge", True, False),
        ("ml.g5.xlarge", False, False),
        ("ml.g6e.48xlarge", True, False),
        ("ml.p3dn.24xlarge", True, False),
        ("ml.p5en.48xlarge", True, True),
        ("ml.p6-b200.48xlarge", True, True),
        ("ml.trn1.32xlarge", True, True),
        ("ml.trn1.2xlarge", False, False),
        ("ml.trn2.48xlarge", True, True),
        ("local_gpu", False, False),
        ("", False, False),
    ],
)
def test_efa_by_family(instance_type, efa, rdma):
    found = fabric.efa_variables(instance_type)
    assert (found.get("FI_PROVIDER") == "efa") is efa
    assert ("FI_EFA_USE_DEVICE_RDMA" in found) is rdma


# Lines


def test_lines_of_ranks_are_never_torn(torch_job):
    text = """\
    import os, sys
    rank = os.environ["RANK"]
    for i in range(2000):
        print("out", rank, i, "of", 2000, "x" * (70000 if i % 500 == 0 else 20))
        print("err", rank, i, "of", 2000, file=sys.stderr)
    """
    script(torch_job, text, sagemaker_mpi_num_of_processes_per_host="4")
    done = torch_job.run()
    assert done.code == 0
    for name, lines in (("out", done.out.splitlines()), ("err", done.err.splitlines())):
        for rank in range(4):
            own = [line.split() for line in lines if line.startswith(f"{name} {rank} ")]
            assert [words[2:5] for words in own] == [[str(i), "of", "2000"] for i in range(2000)]
    assert len(done.out.splitlines()) == 8000


def test_both_streams_of_a_rank_keep_their_order_in_one_log(torch_job):
    text = "import sys\nfor i in range(50):\n    print('out', i); print('err', i, file=sys.stderr)"
    script(torch_job, text)
    done = torch_job.run(stderr=subprocess.STDOUT)
    lines = [line for line in done.out.splitlines() if line[:4] in ("out ", "err ")]
    assert lines == [f"{name} {i}" for i in range(50) for name in ("out", "err")]


# Failures


def test_the_cause_comes_from_the_rank_that_failed_first(torch_job):
    text = """\
    import os, signal, sys, time
    if os.environ["RANK"] == "0":
        raise ValueError("bad batch")
    try:
        time.sleep(60)
    finally:
        raise RuntimeError("[pair.cc:534] Connection closed by peer [10.0.0.1]:5000")
    """.replace("try:\n", "signal.signal(signal.SIGTERM, lambda *a: sys.exit(1))\n    try:\n")
    script(torch_job, text, sagemaker_mpi_num_of_processes_per_host="2")
    done = torch_job.run()
    assert done.failure.startswith("ValueError: bad batch\nExecuteUserScriptError: ExitCode 1\nRank 0 failed first.\n")
    assert "ChildFailedError" not in done.failure


@pytest.mark.parametrize(
    ("ending", "code"), [("sys.exit(7)", 7), ("os.kill(os.getpid(), 9)", 137), ("os.kill(os.getpid(), 11)", 139)]
)
def test_the_exit_code_is_the_failed_rank_s(torch_job, ending, code):
    script(torch_job, f"import os, sys\nprint('last words')\n{ending}")
    done = torch_job.run()
    assert done.code == code
    assert done.failure.startswith("last words\n")


def test_without_torch_the_reason_is_told(torch_job):
    torch_job.env["PYTHONPATH"] = torch_job.env["PYTHONPATH"].partition(os.pathsep)[2]
    torch_job.env["PYTHONPATH"] += os.pathsep + hide_torch(torch_job)
    script(torch_job, "pass")
    done = torch_job.run()
    assert done.code == 1
    assert "No module named 'torch" in done.failure


def hide_torch(job: Job) -> str:
    """A folder whose torch is no package, for a machine that has the real one."""
    folder = job.base / "hidden"
    folder.mkdir()
    (folder / "torch.py").write_text("")
    job.env["PYTHONPATH"] = str(folder) + os.pathsep + job.env["PYTHONPATH"]
    return str(folder)


def test_a_stop_reaches_every_rank_once_and_they_may_save(torch_job):
    text = """\
    import os, signal, sys, time
    def save(signum, frame):
        with open(os.path.join(os.environ["SM_MODEL_DIR"], "rank" + os.environ["RANK"]), "a") as file:
            file.write("saved ")
        sys.exit(0)
    signal.signal(signal.SIGTERM, save)
    print("ready")
    while True:
        time.sleep(0.1)
    """
    script(torch_job, text, sagemaker_mpi_num_of_processes_per_host="2")
    process = torch_job.start()
    for _ in range(2):
        assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGTERM)
    done = torch_job.finish(process)
    assert done.code != 0
    assert "asked the job to stop" in done.failure
    for rank in range(2):
        assert (torch_job.base / "model" / f"rank{rank}").read_text() == "saved "


# Other hosts


class Pair:
    """Two hosts of one job on this machine, by two names of it."""

    def __init__(self, folder: Path, text: str, linger: float = 0) -> None:
        hosts = ["localhost", "127.0.0.1"]
        port = str(free_port())
        meeting = folder / "meeting"
        meeting.mkdir()
        self.jobs = [prepare(Job(folder / name), linger) for name in hosts]
        for host, job in zip(hosts, self.jobs):
            job.resources({"current_host": host, "hosts": hosts})
            job.env.update(MASTER_PORT=port, MEETING=str(meeting))
            script(job, text)

    def start(self):
        """Both ``train`` processes, once they know of each other and their ranks run."""
        running = [job.start() for job in self.jobs]
        while b"have reported" not in running[0].stderr.readline():
            assert running[0].poll() is None
        for process in running:
            assert process.stdout.readline() == b"ready\n"
        return running


# As after a rendezvous, the hosts wait for each other first.
WAIT = """\
import os, time
open(os.path.join(os.environ["MEETING"], os.environ["RANK"]), "w").close()
while len(os.listdir(os.environ["MEETING"])) < int(os.environ["WORLD_SIZE"]):
    time.sleep(0.05)
print("ready")
if os.environ["RANK"] == os.environ.get("FAILS"):
    raise ValueError("bad batch")
time.sleep(600)
"""


@pytest.mark.parametrize(("fails", "stays", "name"), [(1, 0, "127.0.0.1"), (0, 1, "localhost")])
def test_the_failure_of_another_host_ends_this_one_with_its_cause(tmp_path, fails, stays, name):
    pair = Pair(tmp_path, WAIT, linger=60)
    for job in pair.jobs:
        job.env["FAILS"] = str(fails)
    running = [job.start() for job in pair.jobs]
    done = [job.finish(process) for job, process in zip(pair.jobs, running)]
    assert done[fails].failure.startswith("ValueError: bad batch\n")
    assert done[stays].code == 1
    cause = f"Host {name} failed first, with exit code 1: rank {fails}: ValueError: bad batch\n"
    assert done[stays].failure.startswith(cause)
    assert "Rank" not in done[stays].failure


@pytest.mark.parametrize(("dies", "stays", "name"), [(1, 0, "127.0.0.1"), (0, 1, "localhost")])
def test_the_death_of_another_host_ends_this_one(tmp_path, dies, stays, name):
    pair = Pair(tmp_path, WAIT)
    running = pair.start()
    running[dies].kill()
    done = pair.jobs[stays].finish(running[stays])
    for pid in children_of_session(pair.jobs[dies]):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert done.code == 1
    assert done.failure.startswith(f"Host {name} was lost: it went without a word")


def children_of_session(job: Job):
    """Processes of a killed ``train``: outside a container nobody ends them."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and str(job.base).encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return found


def test_a_host_that_never_comes_is_named(tmp_path):
    pair = Pair(tmp_path, "raise RuntimeError('DistStoreError: Timed out after 1 seconds waiting for clients')")
    done = pair.jobs[0].run()
    assert done.code == 1
    assert done.failure.startswith("Host 127.0.0.1 never reported")


def test_a_host_that_never_comes_ends_the_others_in_time(tmp_path):
    """Long before torchrun would give up."""
    pair = Pair(tmp_path, "import time; time.sleep(600)")
    pair.jobs[0].env["SLIPWAY_HOST_TIMEOUT"] = "1"
    done = pair.jobs[0].run()
    assert done.code == 1
    assert done.failure.startswith("Host 127.0.0.1 never reported in 1 s")


def test_a_host_that_fails_early_tells_the_one_that_starts_late(tmp_path):
    text = "import os, time; assert os.environ['RANK'] == '1', 'too early'; time.sleep(600)"
    pair = Pair(tmp_path, text, linger=60)
    first = pair.jobs[0].start()
    while b"too early" not in first.stderr.readline():
        assert first.poll() is None
    done = pair.jobs[1].run()
    pair.jobs[0].finish(first)
    cause = "Host localhost failed first, with exit code 1: rank 0: AssertionError: too early\n"
    assert done.failure.startswith(cause)


def test_hosts_that_end_well_end_alone(tmp_path):
    pair = Pair(tmp_path, "import os, time; time.sleep(int(os.environ['RANK']))")
    running = [job.start() for job in pair.jobs]
    assert [job.finish(process).code for job, process in zip(pair.jobs, running)] == [0, 0]


def test_a_host_outside_the_run_is_refused(tree):
    tree.resources(
        {
            "current_host": "b",
            "current_group_name": "two",
            "hosts": ["a", "b"],
            "instance_groups": [
                {"instance_group_name": "one", "instance_type": "x", "hosts": ["a"]},
                {"instance_group_name": "two", "instance_type": "x", "hosts": ["b"]},
            ],
        }
    )
    tree.hyperparameters({"sagemaker_distribution_instance_groups": '["one"]'})
    tree.code("train.py", "")
    with pytest.raises(errors.ClientError, match="takes no part"):
        runner.get(runner.TorchDistributedRunnerType, "train.py", [], {}).check()


def test_interpreter_is_the_toolkit_s(torch_job):
    script(torch_job, "import sys; print(sys.executable)")
    assert torch_job.run().out == sys.executable + "\n"
