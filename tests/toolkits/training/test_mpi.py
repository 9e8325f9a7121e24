"""The MPI launcher on one host, with a stand-in for mpirun that starts ranks and passes on their ends."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from .conftest import SOURCE, Job

# Starts the command after its own options once for each rank; ends as the first rank that failed.
MPIRUN = """\
#!{python}
import json, os, subprocess, sys
argv = sys.argv[1:]
if argv == ["--version"]:
    print("mpirun (Open MPI) " + os.environ["MPI_VERSION"])
    sys.exit(0)
folder = os.path.dirname(os.path.abspath(__file__))
json.dump(argv, open(os.path.join(folder, "argv.json"), "w"))
os.environ.pop("API_SECRET", None)
exported = dict(argv[place + 1].split("=") for place, word in enumerate(argv) if word == "-x")
ranks = argv[argv.index({python!r}):]
started = [
    subprocess.Popen(ranks, env={{**os.environ, **exported, "OMPI_COMM_WORLD_RANK": str(rank)}})
    for rank in range(int(argv[argv.index("-np") + 1]))
]
codes = [process.wait() for process in started]
print("[1,1]<stdout>:words of mpirun", flush=True)
sys.exit(next((code if code > 0 else 128 - code for code in codes if code), 0))
"""

RUN = "if sys.argv[0] == '-m': del sys.argv[0]; runpy.run_module(sys.argv[0], run_name='__main__')\nelse: "
RUN += "runpy.run_path(sys.argv[0], run_name='__main__')\n"


@pytest.fixture
def mpi(job: Job) -> Job:
    """A job with two ranks on a host that has Open MPI and mpi4py."""
    folder = job.base / "programs"
    folder.mkdir()
    (folder / "mpirun").write_text(MPIRUN.format(python=sys.executable))
    (folder / "mpirun").chmod(0o755)
    (folder / "mpi4py").mkdir()
    (folder / "mpi4py" / "__init__.py").touch()
    (folder / "mpi4py" / "__main__.py").write_text("import runpy, sys\ndel sys.argv[0]\n" + RUN)
    job.env["PATH"] = f"{folder}{os.pathsep}{job.env['PATH']}"
    job.env["PYTHONPATH"] = f"{folder}{os.pathsep}{SOURCE}"
    job.env["MPI_VERSION"] = "4.1.4"
    return job


def script(job: Job, text: str, **hyperparameters: object) -> None:
    two = {"sagemaker_mpi_enabled": "true", "sagemaker_mpi_num_of_processes_per_host": "2"}
    job.script(text, **{**two, **hyperparameters})


def argv(job: Job) -> list[str]:
    given: list[str] = json.loads((job.base / "programs" / "argv.json").read_text())
    return given


def test_each_line_carries_its_rank_and_host(mpi):
    script(mpi, "import sys\nprint('out')\nprint('err', file=sys.stderr)\nprint('end', end='')")
    done = mpi.run()
    assert done.code == 0, done.err
    for rank in range(2):
        own = [line for line in done.out.splitlines() if f"mpirank:{rank}," in line and "words" not in line]
        assert own == [f"[1,mpirank:{rank},algo-1]<stdout>:out", f"[1,mpirank:{rank},algo-1]<stdout>:end"]
        assert f"[1,mpirank:{rank},algo-1]<stderr>:err" in done.err.splitlines()


def test_mpiruns_own_tags_name_rank_and_host(mpi):
    script(mpi, "pass")
    assert "[1,mpirank:1,algo-1]<stdout>:words of mpirun" in mpi.run().out.splitlines()


@pytest.mark.parametrize("version", ["4.1.4", "5.0.11"])
def test_mpi4py_starts_every_rank(mpi, version):
    mpi.env["MPI_VERSION"] = version
    script(mpi, "import sys; print(sys.argv[1:])", name="it's $(id)")
    done = mpi.run()
    assert done.out.count("""['--name', "it's $(id)"]""") == 2
    ranks = argv(mpi)[argv(mpi).index(sys.executable) :]
    assert ranks[1:3] == ["-m", "sagemaker_training.mpi_rank"]
    assert ranks[6:] == [sys.executable, "-m", "mpi4py", "train.py", "--name", "it's $(id)"]
    assert ("--prtemca" in argv(mpi) or "--output" in argv(mpi)) == (version == "5.0.11")


def test_a_shell_entry_runs_without_mpi4py(mpi):
    mpi.code("run.sh", "echo shell $OMPI_COMM_WORLD_RANK")
    mpi.hyperparameters({"sagemaker_program": "run.sh", "sagemaker_mpi_enabled": "true"})
    (mpi.base / "programs" / "mpi4py" / "__init__.py").unlink()
    (mpi.base / "programs" / "mpi4py" / "__main__.py").unlink()
    (mpi.base / "programs" / "mpi4py").rmdir()
    done = mpi.run()
    assert done.code == 0, done.err
    assert "[1,mpirank:0,algo-1]<stdout>:shell 0" in done.out


def test_ranks_have_their_hosts_environment_and_what_the_job_exports(mpi):
    """Secrets too, although mpirun was given none: they come from a file that only the owner can read."""
    mpi.env["API_SECRET"] = "hunter2-hunter2"
    text = """
        import os, stat
        print(os.environ["API_SECRET"][:7], os.environ["SM_CURRENT_HOST"], os.environ["SM_HP_BATCH-SIZE"])
        print(os.environ["EXTRA"], os.environ["NCCL_DEBUG"], os.environ["PYTHONUNBUFFERED"])
        folder = os.path.join(os.environ["SAGEMAKER_BASE_DIR"], ".mpi")
        print(*(oct(stat.S_IMODE(os.stat(folder + name).st_mode)) for name in ("", "/environment.json")))
    """
    script(mpi, text, **{"batch-size": 4, "sagemaker_mpi_custom_mpi_options": "-x EXTRA=5"})
    done = mpi.run()
    assert done.code == 0, done.err
    assert [line.partition(">:")[2] for line in done.out.splitlines() if line.startswith("[1,mpirank:0,")] == [
        "hunter2 algo-1 4",
        "5 INFO 1",
        "0o700 0o600",
    ]
    assert "hunter2" not in " ".join(argv(mpi))
    assert not (mpi.base / ".mpi").exists()


def test_the_users_nccl_settings_win(mpi):
    mpi.env["NCCL_DEBUG"] = "TRACE"
    script(mpi, "import os; print(os.environ['NCCL_DEBUG'])", sagemaker_mpi_custom_mpi_options="--NCCL_DEBUG WARN")
    assert ">:TRACE" in mpi.run().out


def test_an_efa_host_says_so(mpi):
    mpi.resources({"current_host": "algo-1", "hosts": ["algo-1"], "current_instance_type": "ml.p5en.48xlarge"})
    script(
        mpi, "import os; print(*(os.environ.get(n) for n in ('FI_PROVIDER', 'FI_EFA_USE_DEVICE_RDMA', 'NCCL_PROTO')))"
    )
    assert ">:efa 1 simple" in mpi.run().out


def test_number_of_processes(mpi):
    script(mpi, "print('here')", sagemaker_mpi_num_processes="3")
    assert mpi.run().out.count(">:here") == 3


@pytest.mark.parametrize("value", ["0", "x", "true"])
def test_a_wrong_number_of_processes_is_refused(mpi, value):
    script(mpi, "print('never')", sagemaker_mpi_num_processes=value)
    done = mpi.run()
    assert done.code == 1
    assert "sagemaker_mpi_num_processes must be a whole number from 1" in done.failure


def test_the_failing_ranks_exception_is_the_cause_and_its_code_the_jobs(mpi):
    script(mpi, "import os, sys\nif os.environ['OMPI_COMM_WORLD_RANK'] == '1': raise ValueError('bad batch')")
    done = mpi.run()
    assert done.code == 1
    assert done.failure.startswith("ValueError: bad batch\n")


@pytest.mark.parametrize(
    ("end", "code", "words"),
    [
        ("os._exit(9)", 9, "Rank 1 on host algo-1 ended with exit code 9."),
        ("os.kill(os.getpid(), 9)", 137, "Rank 1 on host algo-1 was ended by signal 9."),
    ],
)
def test_a_rank_that_ends_without_a_word_is_named(mpi, end, code, words):
    script(mpi, f"import os\nprint('working', flush=True)\nif os.environ['OMPI_COMM_WORLD_RANK'] == '1': {end}")
    done = mpi.run()
    assert done.code == code
    assert done.failure.startswith(words)


def test_lines_of_ranks_stay_whole(mpi):
    text = """
        import sys
        for number in range(3000):
            print("acc=", end=""); print(f"{number};")
            if number % 300 == 0: print("x" * 100_000, file=sys.stderr)
    """
    script(mpi, text)
    done = mpi.run()
    for rank in range(2):
        tag = f"[1,mpirank:{rank},algo-1]"
        lines = [line for line in done.out.splitlines() if line.startswith(tag) and "words" not in line]
        assert lines == [f"{tag}<stdout>:acc={number};" for number in range(3000)]
        assert done.err.splitlines().count(f"{tag}<stderr>:{'x' * 100_000}") == 10


def test_a_stop_reaches_the_ranks_and_not_mpirun(mpi):
    """mpirun would kill them a second later. Here it would die of the signal, and the ranks' work with it."""
    text = """
        import os, signal, sys, time
        def save(*_):
            print("saving", flush=True)
            time.sleep(2.5)
            open(os.path.join(os.environ["SM_MODEL_DIR"], os.environ["OMPI_COMM_WORLD_RANK"]), "w").close()
            sys.exit(0)
        signal.signal(signal.SIGTERM, save)
        print("ready", flush=True)
        while True: time.sleep(0.1)
    """
    script(mpi, text)
    process = mpi.start()
    seen = b""
    while seen.count(b">:ready") < 2:
        seen += process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    done = mpi.finish(process)
    assert done.code == 0, done.err
    assert sorted(path.name for path in (mpi.base / "model").iterdir()) == ["0", "1"]


def test_missing_mpi4py_is_said_before_anything_runs(mpi):
    for name in ("__init__.py", "__main__.py"):
        (mpi.base / "programs" / "mpi4py" / name).unlink()
    (mpi.base / "programs" / "mpi4py").rmdir()
    script(mpi, "print('never')")
    done = mpi.run()
    assert done.code == 1
    assert "mpi4py" in done.failure.splitlines()[0]
    assert not (mpi.base / "programs" / "argv.json").exists()


def test_missing_ssh_is_said_on_every_host(mpi):
    mpi.resources({"current_host": "algo-2", "hosts": ["algo-1", "algo-2"]})
    programs = mpi.base / "programs"
    for name in ("sh", "python3"):
        (programs / name).symlink_to(
            next(Path(p, name) for p in os.environ["PATH"].split(":") if Path(p, name).exists())
        )
    mpi.env["PATH"] = str(programs)
    script(mpi, "print('never')")
    done = mpi.run()
    assert done.code == 1
    assert "ssh-keygen" in done.failure and "apt-get install openssh-client openssh-server" in done.failure


def test_an_mpirun_that_hangs_over_a_failed_rank_is_ended(mpi):
    program = mpi.base / "programs" / "mpirun"
    program.write_text(program.read_text().replace('print("[1,1]', 'import time; time.sleep(600)\nprint("[1,1]'))
    path = mpi.base / "programs" / "sitecustomize.py"
    path.write_text("import sagemaker_training.mpi as mpi, sagemaker_training.mpi_ranks as ranks\n")
    with path.open("a") as file:
        file.write("mpi._HANG_SECONDS, ranks._END_SECONDS = 0.5, 0.5\n")
    script(mpi, "import os; os._exit(9)")
    done = mpi.run()
    assert done.code == 9
    assert "ended with exit code 9" in done.failure
