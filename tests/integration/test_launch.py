"""Launches from the front door: on this machine in the built image, on SageMaker against a stand-in of it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
import requests
import yaml

from slipway.engine.docker import Engine

from .clients import sdk

pytestmark = pytest.mark.integration

CONFIG: dict[str, Any] = {
    "base_job_name": "accelerate-sagemaker-1",
    "compute_environment": "AMAZON_SAGEMAKER",
    "distributed_type": "DATA_PARALLEL",
    "ec2_instance_type": "ml.p3.16xlarge",
    "iam_role_name": "X",
    "mixed_precision": "fp16",
    "num_machines": 1,
    "profile": "X",
    "py_version": "py38",
    "pytorch_version": "1.10.2",
    "region": "us-east-1",
    "sagemaker_inputs_file": "inputs.tsv",
    "sagemaker_metrics_file": "metrics.tsv",
    "transformers_version": "4.17.0",
    "use_cpu": False,
}
METRICS = "metric_name\tmetric_regex\naccuracy\t'accuracy': ([0-9.]+)\nf1\t'f1': ([0-9.]+)\n"
# Prints as accelerate's own example does (`epoch 0: {'accuracy': …, 'f1': …}`).
SCRIPT = """\
import json, os, sys
from pathlib import Path

print("arguments " + json.dumps(sys.argv[1:]))
rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
if size > 1:
    import torch, torch.distributed
    torch.distributed.init_process_group("gloo")
    total = torch.tensor([rank + 1.0])
    torch.distributed.all_reduce(total)
    print(f"sum {total.item():g} of {size}")
for name in ("train", "test"):
    print(name, Path(os.environ["SM_CHANNEL_" + name.upper()], "part.csv").read_text().strip())
print("precision " + os.environ["ACCELERATE_MIXED_PRECISION"])
for epoch in range(2):
    metric = {"accuracy": 0.5 + epoch / 4, "f1": 0.25 + epoch / 4}
    print(f"epoch {epoch}:", metric)
Path(os.environ["SM_MODEL_DIR"], f"weights-{rank}").write_text("w")
"""
TYPED = ["--id", "007", "--neg", "-1", "--flag", "--a=b", "--l", "1", "2", "3", "two words", ""]


class Bench:
    """A folder as a user has it, and the front door."""

    def __init__(self, folder: Path, image: str, environment: dict[str, str]) -> None:
        self.folder, self.image, self.environment = folder, image, environment

    def config(self, **changes: Any) -> Path:
        path = self.folder / "config.yaml"
        data = {**CONFIG, "image_uri": self.image, **changes}
        path.write_text(yaml.safe_dump({name: value for name, value in data.items() if value is not None}))
        return path

    def launch(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "invoke", "launch", *map(str, words)],
            cwd=sdk.PROJECT,
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text(SCRIPT)
    for name in ("train", "test"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "part.csv").write_text(f"{name},1\n")
    (tmp_path / "inputs.tsv").write_text("channel_name\tdata_location\ntrain\ttrain\ntest\ttest\n")
    (tmp_path / "metrics.tsv").write_text(METRICS)
    return tmp_path


@pytest.fixture
def here(folder: Path, engine: Engine) -> Bench:
    return Bench(folder, sdk.training_image(engine), {})


@pytest.mark.parametrize("machines", [1, 2])
def test_the_published_example_runs_on_this_machine(here: Bench, machines: int) -> None:
    out = here.folder / "out"
    config = here.config(num_machines=machines)
    done = here.launch(config, here.folder / "src/train.py", "--local", "--json", "--output", out, "--", *TYPED)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    metrics = {each["name"]: (each["last"], each["min"], each["max"], each["count"]) for each in result["metrics"]}
    assert metrics == {"accuracy": (0.75, 0.5, 0.75, 2 * machines), "f1": (0.5, 0.25, 0.5, 2 * machines)}
    assert result["problems"] == []
    logs = [(out / "logs" / f"algo-{number}.log").read_text() for number in range(1, machines + 1)]
    for log in logs:
        assert "arguments " + json.dumps(TYPED) in log
        assert "train train,1\ntest test,1\nprecision no\n" in log
        assert machines == 1 or "sum 3 of 2" in log
    assert "mixed_precision fp16 needs a GPU" in done.stderr
    with tarfile.open(out / "model.tar.gz") as model:
        assert sorted(model.getnames()) == [f"weights-{rank}" for rank in range(machines)]


@pytest.mark.parametrize(
    ("printed", "told"),
    [
        ("{'eval_accuracy': 0.5, 'eval_f1': 0.5}", "printed with the prefix 'eval_'"),
        ("{'accuracy': np.float64(0.5), 'f1': np.float64(0.5)}", "as numpy or torch shows it"),
    ],
)
def test_a_near_miss_is_named(here: Bench, printed: str, told: str) -> None:
    (here.folder / "src" / "train.py").write_text(f'print("epoch 0: {printed}")\n')
    done = here.launch(
        here.config(), here.folder / "src/train.py", "--local", "--json", "--output", here.folder / "out"
    )
    assert done.returncode == 0, done.stderr
    problems = json.loads(done.stdout)["problems"]
    assert [(each["name"], each["kind"]) for each in problems] == [
        ("accuracy", "never-matched"),
        ("f1", "never-matched"),
    ]
    assert all(told in each["what"] for each in problems)


def test_a_job_that_fails_ends_the_command_so(here: Bench) -> None:
    (here.folder / "src" / "train.py").write_text("raise SystemExit(3)\n")
    done = here.launch(here.config(), here.folder / "src/train.py", "--local", "--output", here.folder / "out")
    assert done.returncode == 14
    assert "failed with exit code 3" in done.stderr


@pytest.fixture
def aws(folder: Path) -> Iterator[Bench]:
    from moto.server import ThreadedMotoServer

    (folder / "inputs.tsv").write_text("channel_name\tdata_location\ntrain\ts3://data/train\ntest\ts3://data/test\n")
    (folder / "credentials").write_text("[X]\naws_access_key_id=a\naws_secret_access_key=b\n")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    environment = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_SHARED_CREDENTIALS_FILE": str(folder / "credentials"),
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_PROXY": "127.0.0.1",
    }
    bench = Bench(folder, "host.example/pytorch-training:2.13.0-cpu-py311-debian12-v1", environment)
    requests.post(f"http://{host}:{port}/moto-api/reset", timeout=10)  # what it holds outlives a server
    client(bench, "iam").create_role(RoleName="X", AssumeRolePolicyDocument="{}")
    try:
        yield bench
    finally:
        server.stop()


def client(bench: Bench, service: str) -> Any:
    session = boto3.session.Session("a", "b", region_name="us-east-1")
    return session.client(service, endpoint_url=bench.environment["AWS_ENDPOINT_URL"])


def test_a_job_on_sagemaker_from_upload_to_result(aws: Bench) -> None:
    done = aws.launch(aws.config(), aws.folder / "src/train.py", "--json", "--", *TYPED)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    told = client(aws, "sagemaker").describe_training_job(TrainingJobName=result["name"])
    assert result["status"] == "Completed"
    assert result["model"].startswith("s3://sagemaker-us-east-1-123456789012/")
    assert [each["name"] for each in result["metrics"]] == ["accuracy", "f1"]
    assert json.loads(told["HyperParameters"]["sagemaker_slipway_argv"]) == TYPED
    source = json.loads(told["HyperParameters"]["sagemaker_submit_directory"])
    bucket, _, key = source.removeprefix("s3://").partition("/")
    stored = client(aws, "s3").get_object(Bucket=bucket, Key=key)
    assert stored["ServerSideEncryption"] == "aws:kms"
    with tarfile.open(fileobj=io.BytesIO(stored["Body"].read()), mode="r:gz") as archive:
        assert archive.getnames() == ["train.py"]


def test_a_detached_job_is_waited_for_later_with_log_and_metrics(aws: Bench) -> None:
    config = aws.config()
    done = aws.launch(config, aws.folder / "src/train.py", "--detach", "--json")
    name = json.loads(done.stdout)["name"]
    logs, group, stream = client(aws, "logs"), "/aws/sagemaker/TrainingJobs", f"{name}/algo-1-1700000000"
    logs.create_log_group(logGroupName=group)
    logs.create_log_stream(logGroupName=group, logStreamName=stream)
    lines = [f"epoch {epoch}: {{'accuracy': 0.{epoch}}}" for epoch in range(3)]
    now = int(time.time() * 1000)
    events = [{"timestamp": now + at, "message": line} for at, line in enumerate(lines)]
    logs.put_log_events(logGroupName=group, logStreamName=stream, logEvents=events)
    waited = aws.launch("--wait", name, "--config", config)
    assert waited.returncode == 0, waited.stderr
    assert [line for line in waited.stderr.splitlines() if line.startswith("[algo-1]")] == [
        f"[algo-1] {line}" for line in lines
    ]
    assert f"{name}: Completed" in waited.stdout


def test_a_dry_run_sends_nothing(aws: Bench) -> None:
    done = aws.launch(aws.config(), aws.folder / "src/train.py", "--dry-run", "--json", "--", "--lr", "1e-3")
    assert done.returncode == 0, done.stderr
    asked = json.loads(done.stdout)
    assert asked["RoleArn"] == "arn:aws:iam::123456789012:role/X"
    assert asked["HyperParameters"]["lr"] == "0.001"
    assert client(aws, "sagemaker").list_training_jobs()["TrainingJobSummaries"] == []
    assert client(aws, "s3").list_buckets()["Buckets"] == []


@pytest.mark.parametrize(
    ("changes", "code", "what"),
    [
        (
            {"additional_args": {"environment": {"1": "x"}}},
            4,
            "config.yaml:2: Environment: key: '1' (fix:",
        ),
        ({"iam_role_name": "nobody"}, 4, "there is no role nobody"),
        ({"profile": "other"}, 10, "other"),
        ({"sagemaker_inputs_file": "nowhere.tsv"}, 4, "nowhere.tsv does not exist"),
        ({"image_uri": "mine"}, 4, "--flag: a switch without a value"),
    ],
)
def test_bad_input_sends_nothing(aws: Bench, changes: dict[str, Any], code: int, what: str) -> None:
    done = aws.launch(aws.config(**changes), aws.folder / "src/train.py", "--", "--flag")
    assert done.returncode == code, done.stderr
    assert what in done.stderr
    assert "Traceback" not in done.stderr
    assert client(aws, "s3").list_buckets()["Buckets"] == []


def test_a_job_that_nobody_knows(aws: Bench) -> None:
    done = aws.launch("--wait", "nothing-1", "--config", aws.config())
    assert done.returncode == 4
    assert "there is no training job nothing-1 in us-east-1" in done.stderr
