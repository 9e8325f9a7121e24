"""One job from start to end: order, markers, exit codes, working folder, environment."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest


def test_success_marker_and_exit_code(job):
    job.script("print('hello')")
    done = job.run()
    assert (done.code, done.out, done.success, done.failure) == (0, "hello\n", True, "")
    assert (job.base / "output/success").read_bytes() == b""


@pytest.mark.parametrize("code", [1, 3, 137, 255])
def test_exit_code_is_the_scripts(job, code):
    job.script(f"import sys; sys.exit({code})")
    done = job.run()
    assert done.code == code
    assert not done.success
    assert f"ExitCode {code}" in done.failure


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGTERM", "SIGABRT"])
def test_signal_gives_128_plus_n(job, name):
    number = int(getattr(signal, name))
    job.script(f"import os; os.kill(os.getpid(), {number})")
    done = job.run()
    assert done.code == 128 + number
    assert f"ExitCode -{number} ({name})" in done.failure


def test_working_folder_interpreter_and_search_path(job):
    job.env["PYTHONPATH"] += os.pathsep + "/users/own"
    job.script(
        """
        import json, os, sys
        print(json.dumps([os.getcwd(), sys.executable, os.environ["PYTHONPATH"].split(os.pathsep)]))
        """
    )
    folder, executable, path = json.loads(job.run().out)
    assert folder == str(job.base / "code")
    assert executable == sys.executable
    assert path[0] == str(job.base / "code")
    assert "/users/own" in path
    assert str(Path(os.__file__).parent) not in path  # It would break another interpreter in a shell script.


def test_script_imports_its_neighbours(job):
    job.code("helper/__init__.py", "ANSWER = 42")
    job.script("import helper; print(helper.ANSWER)")
    assert job.run().out == "42\n"


def test_output_is_unbuffered_unless_the_user_chose(job):
    job.script("import os; print(os.environ.get('PYTHONUNBUFFERED'))")
    assert job.run().out == "1\n"
    job.env["PYTHONUNBUFFERED"] = ""
    assert job.run().out == "\n"


def test_users_environment_reaches_the_script(job):
    job.env["MY_SETTING"] = "kept"
    job.env["SM_HOSTS"] = "overwritten"
    job.script("import os; print(os.environ['MY_SETTING'], os.environ['SM_HOSTS'])")
    assert job.run().out == 'kept ["algo-1"]\n'


def test_training_module_is_called_without_arguments(job):
    job.env["PYTHONPATH"] += os.pathsep + str(job.base / "code")
    job.env["SAGEMAKER_TRAINING_MODULE"] = "framework.training:main"
    job.code("framework/__init__.py", "")
    job.code(
        "framework/training.py",
        """
        import logging
        early = logging.getLogger().handlers[:]
        def main():
            print("called", early, bool(logging.getLogger().handlers))
        """,
    )
    done = job.run()
    assert (done.code, done.out) == (0, "called [] True\n")
    assert done.success


@pytest.mark.parametrize("module", ["no.such:main", "json:no_such"])
def test_training_module_that_cannot_be_imported(job, module):
    job.env["SAGEMAKER_TRAINING_MODULE"] = module
    done = job.run()
    assert done.code == 1
    assert done.failure.startswith("ImportModuleError: SAGEMAKER_TRAINING_MODULE")


def test_framework_error_names_itself_and_keeps_its_errno(job):
    job.env["PYTHONPATH"] += os.pathsep + str(job.base / "code")
    job.env["SAGEMAKER_TRAINING_MODULE"] = "broken:main"
    job.code("broken.py", "def main():\n    raise OSError(28, 'No space left on device')\n")
    done = job.run()
    assert done.code == 28
    assert done.failure.startswith("Framework Error: OSError: [Errno 28]")
    assert "Traceback" in done.failure or "broken.py" in done.failure


def test_framework_module_that_exits_by_itself(job):
    job.env["PYTHONPATH"] += os.pathsep + str(job.base / "code")
    job.env["SAGEMAKER_TRAINING_MODULE"] = "quits:main"
    job.code("quits.py", "import sys\ndef main():\n    sys.exit(7)\n")
    assert job.run().code == 7


def test_success_that_cannot_be_written_is_none(job):
    job.script("import os; os.mkdir(os.path.join(os.environ['SM_OUTPUT_DIR'], 'success'))")
    done = job.run()
    assert done.code != 0
    assert "success" in done.failure


def test_failure_that_cannot_be_written_is_logged(job):
    job.script("import os; os.mkdir(os.path.join(os.environ['SM_OUTPUT_DIR'], 'failure')); 1/0")
    (job.base / "output").mkdir(exist_ok=True)
    done = job.run()
    assert done.code == 1
    assert "the reason cannot be written" in done.err
    assert "ZeroDivisionError: division by zero\nExecuteUserScriptError" in done.err


def test_reference_tree_without_opt_ml(tmp_path, job):
    """Outside a container a private tree for one host is made, and the import works."""
    if Path("/opt/ml").is_dir():
        pytest.fail("this machine has an /opt/ml, the test cannot tell")
    del job.env["SAGEMAKER_BASE_DIR"]
    job.env["HOME"] = str(tmp_path)
    import subprocess

    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from sagemaker_training import environment as e; print(e.Environment().hosts); print(e.code_dir)",
        ],
        env=job.env,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    hosts, code_dir = done.stdout.splitlines()
    assert code_dir.startswith(str(tmp_path / "sagemaker_local/jobs/"))
    assert Path(code_dir).is_dir()
    assert len(json.loads(hosts.replace("'", '"'))) == 1


def test_code_folder_is_made_at_import(job):
    (job.base / "code").rmdir()
    job.env["SAGEMAKER_PROGRAM"] = "train.py"
    done = job.run()
    assert (job.base / "code").is_dir()
    assert done.code == 1
    assert "which holds: nothing" in done.failure


def test_the_log_states_the_job_once(job):
    job.channels({"train": {"TrainingInputMode": "File"}})
    job.script("print('x')", epochs="3")
    err = job.run().err
    assert err.count("sagemaker-training-toolkit INFO     environment:") == 1
    assert err.count("SM_CHANNEL_TRAIN=") == 1
    assert 'arguments: ["--epochs","3"]' in err


def test_log_level_silences_the_statement(job):
    job.script("print('x')", sagemaker_container_log_level="40")
    assert job.run().err == ""


def test_log_level_that_is_no_number(job):
    job.script("print('x')", sagemaker_container_log_level="loud")
    done = job.run()
    assert done.code == 1
    assert "sagemaker_container_log_level" in done.failure


def test_importing_needs_nothing_heavy(job):
    """Neither the optional packages nor the slow parts of the standard library are loaded for a plain job."""
    import subprocess

    code = (
        "import sagemaker_training.trainer, sys; "
        "heavy = {'boto3', 'numpy', 'scipy', 'paramiko', 'asyncio', 'urllib.request', 'tarfile', 'ssl'}; "
        "print(sorted(set(sys.modules) & heavy))"
    )
    done = subprocess.run([sys.executable, "-c", code], env=job.env, stdout=subprocess.PIPE, check=True)
    assert done.stdout == b"[]\n"
