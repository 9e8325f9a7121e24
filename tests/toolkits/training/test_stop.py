"""SIGTERM at five moments of a job, and what a stop means for code inside the toolkit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from sagemaker_training import process

from .namespaces import namespace

SAVES = """
import os, signal, sys
def save(signum, frame):
    with open(os.path.join(os.environ["SM_MODEL_DIR"], "model.txt"), "w") as file:
        file.write("saved")
    print("saved", flush=True)
    sys.exit(int(os.environ.get("CODE", "0")))
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
while True:
    signal.pause()
"""


def read_until(stream, word):
    for line in stream:
        if word in line:
            return
    raise AssertionError(f"the stream ended without {word!r}")


def stop_when_ready(job, number=signal.SIGTERM):
    running = job.start()
    read_until(running.stdout, b"ready")
    running.send_signal(number)
    return job.finish(running)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_while_the_script_runs_its_handler_saves(job, number):
    job.script(SAVES.replace("signal.SIGTERM", f"signal.{number.name}"))
    done = stop_when_ready(job, number)
    assert (done.code, done.out) == (0, "saved\n")
    assert f"{number.name} is passed on; the process group has 110 s to end" in done.err
    assert (job.base / "model/model.txt").read_text() == "saved"
    assert done.success


def test_script_that_ends_badly_after_its_handler(job):
    job.env["CODE"] = "5"
    job.script(SAVES)
    done = stop_when_ready(job)
    assert done.code == 5
    assert "The platform asked the job to stop (SIGTERM)." in done.failure


def test_script_without_a_handler(job):
    job.script("import time; print('ready', flush=True); time.sleep(60)")
    done = stop_when_ready(job)
    assert done.code == 143
    assert "ExitCode -15 (SIGTERM)" in done.failure


def test_shell_entry_and_its_children_are_told(job):
    job.code("work.py", SAVES)
    job.code("train.sh", "python3 work.py\necho after $?\n")
    job.hyperparameters({"sagemaker_program": "train.sh"})
    done = stop_when_ready(job)
    assert "saved\n" in done.out
    assert (job.base / "model/model.txt").exists()


def test_script_that_does_not_end_is_killed_after_the_grace(job):
    job.env["SLIPWAY_STOP_GRACE"] = "0.2"
    job.script(
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True)\n"
        "while 1: signal.pause()"
    )
    done = stop_when_ready(job)
    assert done.code == 137
    assert "no end within 0.2 s of the stop" in done.err


def test_before_the_script_while_pip_works(job):
    """A stop during the installation ends it, and the script never runs."""
    job.script("print('must not run')")
    job.code("requirements.txt", "anything\n")
    job.env["SLIPWAY_INSTALLER"] = "uv"
    uv = job.base / "bin/uv"
    uv.parent.mkdir()
    uv.write_text("#!/bin/sh\necho ready\nexec sleep 60\n")
    uv.chmod(0o755)
    job.env["PATH"] = f"{uv.parent}:{job.env['PATH']}"
    done = stop_when_ready(job)
    assert done.code == 143
    assert "must not run" not in done.out
    assert "SIGTERM" in done.failure


def test_installer_that_survives_a_stop_starts_no_script(job):
    job.script("print('must not run')")
    job.code("requirements.txt", "anything\n")
    job.env["SLIPWAY_INSTALLER"] = "uv"
    uv = job.base / "bin/uv"
    uv.parent.mkdir()
    uv.write_text("#!/bin/sh\ntrap 'exit 0' TERM\necho ready\nsleep 60 & wait\n")
    uv.chmod(0o755)
    job.env["PATH"] = f"{uv.parent}:{job.env['PATH']}"
    done = stop_when_ready(job)
    assert done.code == 143
    assert "must not run" not in done.out


def test_while_waiting_for_other_hosts(job):
    job.resources({"current_host": "algo-1", "hosts": ["algo-1", "no-such-host.invalid"]})
    job.script("print('must not run')")
    running = job.start()
    read_until(running.stderr, b"waiting for the address")
    running.terminate()
    done = job.finish(running)
    assert (done.code, done.out) == (143, "")
    assert done.failure.startswith("The platform asked the job to stop (SIGTERM) while no script was running.")


def test_while_the_source_is_fetched(job):
    """A download that hangs ends at once."""
    job.fake_boto3(
        """
        import sys, time
        class client:
            def __init__(self, *a, **k): pass
            def download_file(self, *a):
                print("ready", flush=True)
                try:
                    time.sleep(60)
                except Exception:
                    time.sleep(60)
        """
    )
    (job.base / "code").rmdir()
    job.hyperparameters({"sagemaker_program": "train.py", "sagemaker_submit_directory": "s3://b/k.tar.gz"})
    done = stop_when_ready(job)
    assert done.code == 143


def test_while_the_framework_module_works(job):
    job.env["PYTHONPATH"] += os.pathsep + str(job.base / "code")
    job.env["SAGEMAKER_TRAINING_MODULE"] = "frame:main"
    job.code("frame.py", "import time\ndef main():\n    print('ready', flush=True); time.sleep(60)\n")
    assert stop_when_ready(job).code == 143


def test_after_the_script_the_result_stands(job):
    """A stop while the last upload is awaited changes nothing about a job that has succeeded."""
    job.fake_boto3(
        """
        import os, signal, time
        class client:
            def __init__(self, *a, **k): pass
            def upload_file(self, *a):
                while not os.path.exists(os.environ["SAGEMAKER_BASE_DIR"] + "/output/success"):
                    time.sleep(0.01)
                os.kill(os.getppid(), signal.SIGTERM)
                time.sleep(0.1)
                open(os.environ["HOME"] + "/uploaded", "w").close()
        """
    )
    job.script(
        "import os; open(os.environ['SM_OUTPUT_INTERMEDIATE_DIR'] + '/x', 'w').close()",
        sagemaker_s3_output="s3://bucket/prefix",
    )
    done = job.run()
    assert (done.code, done.success, done.failure) == (0, True, "")
    assert (job.base / "home/uploaded").exists()


def test_stop_between_start_and_registration_is_not_lost(tree, monkeypatch):
    """A signal that comes while the process is being made still reaches it."""
    real = subprocess.Popen

    def slow(*args, **kwargs):
        made = real(*args, **kwargs)
        os.kill(os.getpid(), signal.SIGTERM)
        return made

    monkeypatch.setattr(subprocess, "Popen", slow)
    monkeypatch.setattr(process, "_state", process._State())
    outcome = process.run(["sleep", "60"])
    assert outcome.returncode == -signal.SIGTERM
    assert outcome.stopped == signal.SIGTERM


def test_run_off_the_main_thread(tree):
    found = []
    thread = threading.Thread(target=lambda: found.append(process.run(["sh", "-c", "exit 4"])))
    thread.start()
    thread.join(30)
    assert found[0].returncode == 4


def test_handlers_are_put_back(tree):
    before = [signal.getsignal(number) for number in (*process.STOP_SIGNALS, signal.SIGCHLD)]
    process.run(["true"])
    assert [signal.getsignal(number) for number in (*process.STOP_SIGNALS, signal.SIGCHLD)] == before


def test_services_end_with_the_job(tree, monkeypatch):
    monkeypatch.setattr(process, "_state", process._State())
    service = process.start_service(["sleep", "60"])
    process.end_services()
    assert service.returncode == -signal.SIGKILL


def test_program_that_does_not_exist(tree):
    with pytest.raises(FileNotFoundError):
        process.run(["/no/such/program"])


@pytest.mark.parametrize("code, expected", [(0, 0), (3, 3), (255, 255), (256, 1), (-9, 137), (-15, 143)])
def test_exit_code(code, expected):
    assert process.exit_code(code) == expected


def test_as_process_one(job):
    """Orphans of the script are collected, own children are not, and a stop is not ignored."""
    job.code("spawn.sh", "(sleep 0.05 &) ; (true &)\n")
    job.script(
        """
        import glob, os, signal, subprocess, sys, time
        for _ in range(20):
            subprocess.run(["sh", "spawn.sh"])
        def zombies():
            states = []
            for path in glob.glob("/proc/[0-9]*/stat"):
                try:
                    states.append(open(path).read().rpartition(")")[2].split()[0])
                except OSError:
                    pass
            return states.count("Z")
        deadline = time.time() + 20
        time.sleep(0.2)  # The last of the orphans end by now.
        while zombies() and time.time() < deadline:
            time.sleep(0.05)
        print("collected", time.time() < deadline)
        signal.signal(signal.SIGTERM, lambda *a: sys.exit(0))
        print("ready", flush=True)
        while True:
            signal.pause()
        """
    )
    alone = namespace("--pid", "--fork", "--mount-proc", "--kill-child")
    running = subprocess.Popen(
        [*alone, sys.executable, "-m", "sagemaker_training.cli.train"],
        env=job.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    seen = []
    for line in running.stdout:
        seen.append(line)
        if line == b"ready\n":
            break
    children = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
    os.kill(int(children[0]), signal.SIGTERM)
    done = job.finish(running)
    assert seen == [b"collected True\n", b"ready\n"], done.err
    assert done.code == 0
