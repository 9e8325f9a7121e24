"""Launchers: what exists, what is refused, and what the base class promises to those that are added."""

from __future__ import annotations

import os
import sys

import pytest
from sagemaker_training import errors, process, runner

TYPES = [
    runner.MPIRunnerType,
    runner.SMDataParallelRunnerType,
    runner.PyTorchXLARunnerType,
    runner.TorchDistributedRunnerType,
]


@pytest.fixture
def script(tree, monkeypatch):
    monkeypatch.setattr(process, "_state", process._State())
    return tree


def test_plain_process(script):
    script.code("train.py", "")
    made = runner.get(runner.ProcessRunnerType, "train.py", ["-a", "1"], {})
    assert made.command() == [sys.executable, "--", "train.py", "-a", "1"]
    assert runner.get(made) is made


def test_arguments_come_from_the_job_when_left_out(script):
    script.script("", lr="1")
    made = runner.get(runner.ProcessRunnerType)
    assert (made.entry_point, made.args) == ("train.py", ["--lr", "1"])
    assert made.env_vars["SM_HP_LR"] == "1"


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_launcher_that_is_not_built_is_refused_by_name(kind, monkeypatch):
    module, name = runner._LAUNCHERS[kind]
    monkeypatch.setitem(runner._LAUNCHERS, kind, (module + "_missing", name))
    with pytest.raises(errors.ClientError, match=f"asks for the {kind} launcher.*{module}_missing is missing"):
        runner.get(kind, "train.py", [], {})


def test_launcher_with_a_broken_import_is_not_called_missing(monkeypatch, tmp_path):
    (tmp_path / "broken_launcher.py").write_text("import no_such_thing_at_all")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(runner._LAUNCHERS, runner.MPIRunnerType, ("broken_launcher", "X"))
    with pytest.raises(ModuleNotFoundError, match="no_such_thing_at_all"):
        runner.get(runner.MPIRunnerType, "train.py", [], {})


def test_what_is_no_type():
    with pytest.raises(ValueError, match="is no runner type"):
        runner.get("MPI", "train.py", [], {})


def test_defaults_hold_only_where_the_user_set_nothing(script, monkeypatch):
    class Launcher(runner.Runner):
        def defaults(self):
            return {"NCCL_DEBUG": "WARN", "NCCL_PROTO": "simple"}

    monkeypatch.setenv("NCCL_DEBUG", "TRACE")
    monkeypatch.delenv("NCCL_PROTO", raising=False)
    environ = Launcher("train.py", [], {}).environ()
    assert (environ["NCCL_DEBUG"], environ["NCCL_PROTO"]) == ("TRACE", "simple")


def test_transform_sees_whole_lines(script, capfdbinary):
    seen = []

    class Launcher(runner.Runner):
        @staticmethod
        def transform(lines):
            seen.append(lines)
            return lines.replace(b"[1,0]<stdout>", b"[1,mpirank:0,algo-1]<stdout>")

    script.code(
        "train.py",
        "import os\nfor part in (b'[1,0]<std', b'out>loss=1\\n[1,0]<stdout>', b'x\\n'):\n    os.write(1, part)\n",
    )
    Launcher("train.py", [], {}).run()
    assert capfdbinary.readouterr().out == b"[1,mpirank:0,algo-1]<stdout>loss=1\n[1,mpirank:0,algo-1]<stdout>x\n"
    assert all(lines.endswith(b"\n") for lines in seen)


def test_further_sources_are_relayed_by_whole_lines(script, capfdbinary, tmp_path):
    """One named pipe a rank: their lines are never mixed, and their open ends do not keep the job alive."""
    paths = [str(tmp_path / f"rank{rank}") for rank in range(4)]
    for path in paths:
        os.mkfifo(path)
    sources = [(os.open(path, os.O_RDWR | os.O_NONBLOCK), "stdout") for path in paths]
    code = (
        "import os, sys, threading\n"
        "def rank(path):\n"
        "    fd = os.open(path, os.O_WRONLY)\n"
        "    for i in range(2000):\n"
        "        for part in (path[-1], ' loss=', str(i), '\\n'):\n"
        "            os.write(fd, part.encode())\n"
        "threads = [threading.Thread(target=rank, args=(p,)) for p in sys.argv[1:]]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n"
    )
    outcome = process.run([sys.executable, "-c", code, *paths], sources=sources)
    assert outcome.returncode == 0
    lines = capfdbinary.readouterr().out.decode().splitlines()
    for rank in range(4):
        own = [line for line in lines if line.startswith(f"{rank} ")]
        assert own == [f"{rank} loss={i}" for i in range(2000)]
    assert len(lines) == 8000


def test_run_raises_with_the_tail_of_stderr(script):
    script.code("train.py", "import sys; print('reason', file=sys.stderr); sys.exit(6)")
    with pytest.raises(errors.ExecuteUserScriptError) as caught:
        runner.get(runner.ProcessRunnerType, "train.py", [], {}).run(capture_error=True)
    assert (caught.value.return_code, caught.value.output) == (6, "reason\n")


def test_without_waiting(script):
    script.code("train.py", "import time; time.sleep(60)")
    running = runner.get(runner.ProcessRunnerType, "train.py", [], {}).run(wait=False)
    assert running.poll() is None
    running.kill()
    running.wait()


def test_command_that_cannot_be_started(script):
    class Launcher(runner.Runner):
        def command(self):
            return ["/no/such/launcher"]

    with pytest.raises(errors.ExecuteUserScriptError) as caught:
        Launcher("train.py", [], {}).run()
    assert caught.value.return_code == 126
    assert "/no/such/launcher" in str(caught.value)


def test_check_comes_before_anything_is_installed(script, monkeypatch):
    from sagemaker_training import entry_point

    class Launcher(runner.Runner):
        def check(self):
            raise errors.ClientError("no mpirun here")

    script.script("")
    script.code("requirements.txt", "not-there")
    monkeypatch.setattr(runner, "_runner_class", lambda identifier: Launcher)
    with pytest.raises(errors.ClientError, match="no mpirun here"):
        entry_point.run(None, "train.py", [], {})


def test_mpi_job_uses_the_mpi_launcher_on_every_host_of_its_group(job):
    """Without one it is refused there; it never runs as a plain process instead."""
    job.code("nothing/sagemaker_training_hidden.py", "")
    job.env["PYTHONPATH"] += os.pathsep + str(job.base / "code")
    job.env["SAGEMAKER_TRAINING_MODULE"] = "hide:main"
    job.code(
        "hide.py",
        """
        def main():
            from sagemaker_training import environment, runner, trainer
            runner._LAUNCHERS[runner.MPIRunnerType] = ("sagemaker_training.gone", "X")
            trainer._run_script(environment.Environment())
        """,
    )
    job.script("print('must not run')", sagemaker_mpi_enabled="true")
    done = job.run()
    assert (done.code, done.out) == (1, "")
    assert "asks for the MPI launcher" in done.failure


def test_launcher_key_without_a_framework_toolkit_is_said(job):
    job.script("print('ran')", sagemaker_torch_distributed_enabled="true")
    done = job.run()
    assert done.out == "ran\n"
    assert "sagemaker_torch_distributed_enabled needs a framework toolkit" in done.err
