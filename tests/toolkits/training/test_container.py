"""The wheel in an image that knows nothing of it: no entry point, and ``train`` on PATH.

The conformance checks that need a container: exit codes and signals of process 1, a stop by the engine, a read-only
root, orphans, and memory that runs out.
"""

from __future__ import annotations

import json
import secrets
import subprocess

import pytest

from . import images
from .conftest import SOURCE, Job

pytestmark = pytest.mark.integration


def docker(*arguments, **options):
    return subprocess.run(["docker", *arguments], capture_output=True, **options)


@pytest.fixture(scope="session")
def image(tmp_path_factory):
    """A base image, and what ``pip install`` of the wheel adds."""
    name = images.build(SOURCE.parent, tmp_path_factory.mktemp("image"))
    yield name
    docker("image", "rm", "-f", name)


class Container:
    """One training container with the job's tree as its /opt/ml."""

    def __init__(self, image: str, job: Job) -> None:
        self.name = f"slipway-test-{secrets.token_hex(4)}"
        self.image = image
        self.job = job

    def command(self, *options):
        mount = ["-v", f"{self.job.base}:/opt/ml", "--name", self.name]
        return ["docker", "run", "--rm", *mount, *options, self.image, "train"]

    def run(self, *options):
        return subprocess.run(self.command(*options), capture_output=True, timeout=120)


@pytest.fixture
def container(image, job):
    made = Container(image, job)
    yield made
    docker("rm", "-f", made.name)


def test_a_job_runs_with_every_variable(container):
    container.job.channels({"train": {"TrainingInputMode": "File"}, "my-chan.v1": {"TrainingInputMode": "File"}})
    container.job.script("import json, os; print(json.dumps(dict(os.environ)))", lr="0.1")
    done = container.run("-e", "TRAINING_JOB_NAME=job-1")
    assert done.returncode == 0, done.stderr.decode()
    variables = json.loads(done.stdout)
    assert variables["SM_MODEL_DIR"] == "/opt/ml/model"
    assert variables["SM_OUTPUT_DATA_DIR"] == "/opt/ml/output/data"
    assert variables["SM_CHANNELS"] == '["my-chan.v1","train"]'
    assert variables["SM_CHANNEL_TRAIN"] == "/opt/ml/input/data/train"
    assert variables["SM_USER_ARGS"] == '["--lr","0.1"]'
    assert (container.job.base / "output/success").exists()


@pytest.mark.parametrize("code", [0, 1, 3, 137])
def test_exit_codes(container, code):
    container.job.script(f"import sys; sys.exit({code})")
    assert container.run().returncode == code


@pytest.mark.parametrize("number", [9, 11, 15])
def test_signals(container, number):
    container.job.script(f"import os; os.kill(os.getpid(), {number})")
    assert container.run().returncode == 128 + number


@pytest.mark.parametrize("kind", ["script", "shell"])
def test_stop_reaches_the_handler(container, kind):
    """``docker stop`` ends the container as soon as the script has saved, without a SIGKILL."""
    container.job.code(
        "train.py",
        """
        import os, signal, sys
        def save(signum, frame):
            open("/opt/ml/model/saved", "w").close()
            sys.exit(0)
        signal.signal(signal.SIGTERM, save)
        print("ready", flush=True)
        while True:
            signal.pause()
        """,
    )
    container.job.code("train.sh", "python3 train.py\n")
    container.job.hyperparameters({"sagemaker_program": "train.py" if kind == "script" else "train.sh"})
    running = subprocess.Popen(container.command(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert running.stdout.readline() == b"ready\n"
    # A handler that is not reached would take the whole time and end in 137.
    assert docker("stop", "-t", "60", container.name, timeout=30).returncode == 0
    code = running.wait(30)
    assert (container.job.base / "model/saved").exists()
    assert code == (0 if kind == "script" else 143)


def test_stop_before_the_script_runs(container):
    container.job.resources({"current_host": "algo-1", "hosts": ["algo-1", "algo-2"]})
    container.job.script("print('must not run')")
    running = subprocess.Popen(container.command(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for line in running.stderr:
        if b"waiting for the address of algo" in line:
            break
    docker("stop", "-t", "60", container.name, timeout=30)
    assert running.wait(30) == 143


def test_metric_lines_through_the_engines_log(container):
    """Ten thousand fast lines, each written in pieces, arrive whole and in order in ``docker logs``."""
    container.job.script("for i in range(10000):\n    print('loss=', i / 10000, 'step=', i)")
    subprocess.run(
        ["docker", "run", "-v", f"{container.job.base}:/opt/ml", "--name", container.name, container.image, "train"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    lines = docker("logs", container.name).stdout.decode().splitlines()
    assert lines == [f"loss= {i / 10000} step= {i}" for i in range(10000)]


def test_read_only_root(container):
    container.job.script("print('ran')")
    done = container.run("--read-only", "--tmpfs", "/tmp")
    assert (done.returncode, done.stdout) == (0, b"ran\n"), done.stderr.decode()


def test_another_user(container):
    container.job.script("import os; print(os.getuid())")
    for path in [container.job.base, *container.job.base.rglob("*")]:
        path.chmod(0o777)
    done = container.run("--user", "4242:4242")
    assert (done.returncode, done.stdout) == (0, b"4242\n"), done.stderr.decode()


def test_memory_that_runs_out_is_named(container):
    container.job.script("x = bytearray(400 << 20)")
    done = container.run("--memory", "100m", "--memory-swap", "100m")
    assert done.returncode == 137
    assert "Out of memory: the kernel killed" in (container.job.base / "output/failure").read_text()
    assert "limit of 0.1 GiB" in (container.job.base / "output/failure").read_text()


def test_cpu_quota(container):
    container.job.script("import os; print(os.environ['SM_NUM_CPUS'])")
    assert container.run("--cpus", "1").stdout == b"1\n"


def test_orphans_are_collected(container):
    container.job.code("spawn.sh", "(sleep 0.05 &)\n")
    container.job.script(
        """
        import subprocess, time
        for _ in range(10):
            subprocess.run(["sh", "spawn.sh"])
        time.sleep(0.5)
        import glob
        states = [open(path).read().rpartition(")")[2].split()[0] for path in glob.glob("/proc/[0-9]*/stat")]
        print(states.count("Z"))
        """
    )
    assert container.run().stdout == b"0\n"


def test_background_process_does_not_keep_the_container(container):
    container.job.code("train.sh", "nohup setsid sleep 1000 &\necho started\n")
    container.job.hyperparameters({"sagemaker_program": "train.sh"})
    done = container.run()
    assert (done.returncode, done.stdout) == (0, b"started\n")


def test_nothing_but_the_wheel_is_added(container):
    listing = docker(
        "run", "--rm", container.image, "sh", "-c", "ls /usr/local/lib/python3*/dist-packages /usr/local/bin"
    )
    added = listing.stdout.decode().split()
    assert sorted(name for name in added if not name.startswith("/")) == [
        "sagemaker_training", "serve", "slipway_training-0.1.0.dist-info", "train",
    ]  # fmt: skip


def test_an_image_that_trains_does_not_serve(image):
    done = subprocess.run(["docker", "run", "--rm", image, "serve"], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (64, "")
    assert done.stderr.startswith("serve: this image trains")
    assert done.stderr.count("\n") == 1
