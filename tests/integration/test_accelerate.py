"""The real accelerate: it loads what we write, and what it sends is what we send.

0.33.0 is the newest that can launch a configuration with NO, 1.9.0 the newest that can launch one with DATA_PARALLEL.
The newest of all can launch neither: its two faults are worked around, in clients/accelerate_client.py.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml

from slipway import process
from slipway.clients import accelerate, arguments, config_check, emit, launch, request
from slipway.clients.accelerate import Config
from slipway.engine.docker import Engine

from .clients import sdk

pytestmark = pytest.mark.integration

NEWEST = "1.15.0"
VERSIONS = [("NO", "0.33.0"), ("DATA_PARALLEL", "1.9.0"), ("NO", NEWEST), ("DATA_PARALLEL", NEWEST)]
CONFIG: dict[str, Any] = {
    "base_job_name": "accelerate-sagemaker-1",
    "compute_environment": "AMAZON_SAGEMAKER",
    "ec2_instance_type": "ml.p3.16xlarge",
    "iam_role_name": "X",
    "image_uri": "123456789012.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.13.0-cpu-py311-debian12-v1",
    "mixed_precision": "fp16",
    "profile": "X",
    "py_version": "py38",
    "pytorch_version": "1.10.2",
    "region": "us-east-1",
    "sagemaker_inputs_file": "inputs.tsv",
    "sagemaker_metrics_file": "metrics.tsv",
    "transformers_version": "4.17.0",
    "use_cpu": False,
}
FURTHER = {
    "max_run": 3600,
    "use_spot_instances": True,
    "max_wait": 7200,
    "subnets": ["subnet-1"],
    "security_group_ids": ["sg-1"],
    "checkpoint_s3_uri": "s3://bucket/checkpoints",
    "checkpoint_local_path": "/opt/ml/checkpoints",
    "tags": [{"Key": "team", "Value": "vision"}],
    "environment": {"GREETING": "hello world"},
    "hyperparameters": {"seed": 7},
    "encrypt_inter_container_traffic": True,
    "volume_size": 100,
    "output_path": "s3://bucket/results",
    "max_retry_attempts": 2,
    "enable_network_isolation": True,
}


class Accelerate:
    """Versions of accelerate in environments of their own, in a folder with all that a launch names."""

    def __init__(self, folder: Path, endpoint: str) -> None:
        self.folder, self.endpoint = folder, endpoint

    def run(self, version: str, *arguments: str | Path) -> process.Completed:
        python = sdk.environment(f"accelerate-{version}")
        known = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_EC2_METADATA_DISABLED": "true",
            "no_proxy": "*",
        }
        variables = [f"{name}={value}" for name, value in known.items()]
        program = [python, sdk.HERE / "accelerate_client.py", *arguments]
        return process.run(["env", "-i", *variables, *program], cwd=self.folder, timeout=300, check=False)

    def load(self, version: str, file: Path) -> dict[str, Any]:
        return dict(json.loads(self.run(version, "load", file).stdout))

    def request(self, version: str, file: Path, *arguments: str) -> dict[str, Any]:
        out = self.folder / "request.json"
        out.unlink(missing_ok=True)
        done = self.run(version, how(version), out, "launch", "--config_file", file, "src/train.py", *arguments)
        assert out.exists(), done.stdout + done.stderr
        return dict(json.loads(out.read_text()))


def how(version: str) -> str:
    """What the client program is asked to do with a version: whether its faults are worked around."""
    return "mended" if version == NEWEST else "request"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()


@pytest.fixture
def client(endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Accelerate:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("print(1)\n")
    (tmp_path / "inputs.tsv").write_text(
        "channel_name\tdata_location\ntrain\ts3://bucket/train\ntest\ts3://bucket/test\n"
    )
    (tmp_path / "metrics.tsv").write_text(
        "metric_name\tmetric_regex\naccuracy\t'accuracy': ([0-9.]+)\nf1\t'f1': ([0-9.]+)\n"
    )
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text("[X]\naws_access_key_id=a\naws_secret_access_key=b\n")
    aws = boto3.session.Session("a", "b", region_name="us-east-1")
    aws.client("s3", endpoint_url=endpoint).create_bucket(Bucket="bucket")
    iam = aws.client("iam", endpoint_url=endpoint)
    if not iam.list_roles()["Roles"]:
        iam.create_role(RoleName="X", AssumeRolePolicyDocument="{}")
    return Accelerate(tmp_path, endpoint)


def ours(file: Path, *argv: str) -> dict[str, Any]:
    checked = config_check.check(file)
    checked.require()
    prepared = launch.prepare(checked, Path("src/train.py"), argv, pushes=(), home=Path("/home/somebody"))
    return request.create(launch.on_sagemaker(prepared, "the-job", None))


def comparable(asked: dict[str, Any]) -> dict[str, Any]:
    """A request without what differs from launch to launch: the job's name, the keys in S3, the argument vector."""
    text = json.dumps(asked).replace(asked["TrainingJobName"], "NAME")
    found: dict[str, Any] = json.loads(text)
    found["HyperParameters"].pop(arguments.VECTOR, None)
    return found


@pytest.mark.parametrize(("further", "machines"), [({}, 1), (FURTHER, 2)], ids=["plain", "additional_args"])
@pytest.mark.parametrize(("kind", "version"), VERSIONS)
def test_we_send_what_accelerate_sends(
    client: Accelerate, kind: str, version: str, further: dict[str, Any], machines: int
) -> None:
    file = Path("config.yaml")
    wanted = {**CONFIG, "distributed_type": kind, "num_machines": machines}
    file.write_text(yaml.safe_dump({**wanted, **({"additional_args": further} if further else {})}))
    argv = ("--lr", "1e-3", "--epochs", "2", "--name", "bob", "--flag", "True", "--learning-rate", "1.0", "--id", "007")
    expected = comparable(ours(file, *argv))
    if kind == "NO" and version == NEWEST:
        expected["Environment"]["ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION"] = "False"  # 0.33.0 does not know it
    assert expected == comparable(client.request(version, file.absolute(), *argv))


@pytest.mark.parametrize(
    ("kind", "fault"),
    [("NO", "unknown keys (['num_processes'])"), ("DATA_PARALLEL", "no attribute 'parallelism_config'")],
)
def test_the_newest_cannot_launch_a_job_by_itself(client: Accelerate, kind: str, fault: str) -> None:
    file = client.folder / "config.yaml"
    file.write_text(yaml.safe_dump({**CONFIG, "distributed_type": kind, "num_machines": 1}))
    done = client.run(NEWEST, "request", "out.json", "launch", "--config_file", file, "src/train.py")
    assert done.code != 0
    assert fault in done.stderr
    assert not Path("out.json").exists()


def test_without_inputs_and_metrics(client: Accelerate) -> None:
    left = {name: value for name, value in CONFIG.items() if not name.endswith("_file")}
    file = Path("config.yaml")
    file.write_text(yaml.safe_dump({**left, "distributed_type": "NO", "num_machines": 1}))
    assert comparable(ours(file)) == comparable(client.request("0.33.0", file.absolute()))


EVERY_KEY = Config(
    distributed_type="DATA_PARALLEL",
    ec2_instance_type="ml.p3.16xlarge",
    iam_role_name="X",
    image_uri="Host.example/Some/Image:Tag",
    profile="X",
    region="eu-west-1",
    num_machines=3,
    base_job_name="mine",
    pytorch_version="2.13.0",
    transformers_version="5.1.0",
    py_version="py311",
    sagemaker_inputs_file="inputs.tsv",
    sagemaker_metrics_file="metrics.tsv",
    additional_args={"max_run": 3600, "environment": {"A": "1"}},
    dynamo_config={"dynamo_backend": "INDUCTOR"},
    mixed_precision="bf16",
    debug=True,
    given=frozenset(accelerate.BY_NAME),
)


@pytest.mark.parametrize("suffix", [".yaml", ".json"])
def test_accelerates_own_loader_reads_every_key_as_we_do(client: Accelerate, suffix: str) -> None:
    file = client.folder / f"config{suffix}"
    file.write_text(accelerate.text(EVERY_KEY, suffix))
    loaded = client.load("1.9.0", file)
    assert loaded == {name: getattr(EVERY_KEY, name) for name in accelerate.BY_NAME}
    # And what it writes we read.
    back = client.folder / "back.yaml"
    back.write_text(yaml.safe_dump(loaded))
    assert accelerate.load(back).config == EVERY_KEY


def test_without_an_image_it_loads_as_well(client: Accelerate) -> None:
    file = client.folder / "config.yaml"
    file.write_text(accelerate.text(Config(ec2_instance_type="ml.m5.xlarge", iam_role_name="X"), ".yaml"))
    assert "error" not in client.load("0.33.0", file)
    assert "image_uri" not in client.load("0.33.0", file)  # null


@pytest.mark.parametrize(
    "line",
    ["imgae_uri: x", "compute_environment: AMAZON_SAGEMAKER\nfsdp_config: {}", "mixed: fp16"],
)
def test_what_we_call_a_fault_accelerate_does_not_load(client: Accelerate, line: str) -> None:
    file = client.folder / "config.yaml"
    good = yaml.safe_dump({**CONFIG, "distributed_type": "DATA_PARALLEL", "num_machines": 1})
    key = line.partition(":")[0]
    file.write_text("".join(each for each in good.splitlines(True) if not each.startswith(f"{key}:")) + line + "\n")
    assert "error" in client.load("1.9.0", file)
    assert accelerate.read(file).faults


RICH_INPUTS = """\
channel_name\tdata_location\tcontent_type\tinput_mode\tdistribution\tcompression\tdata_type\tattribute_names\trecord_wrapper
train\ts3://bucket/train\ttext/csv\tPipe\tShardedByS3Key\tGzip\tAugmentedManifestFile\ta,b\tRecordIO
disk\tefs://fs-0123456789abcdef0/folder\ttext/csv\t\t\t\t\t\t
"""
RICHEST = {
    **FURTHER,
    "enable_remote_debug": True,
    "enable_infra_check": True,
    "enable_session_tag_chaining": True,
    "volume_kms_key": "key-1",
    "output_kms_key": "key-2",
    "disable_output_compression": True,
    "training_repository_access_mode": "Vpc",
}


@pytest.mark.parametrize("rich", [False, True], ids=["plain", "rich"])
@pytest.mark.parametrize(
    ("form", "version"), [("sdk2", "accelerate-1.9.0"), ("boto3", "accelerate-1.9.0"), ("sdk3", "v3")]
)
def test_printed_programs_start_the_same_job(client: Accelerate, form: str, version: str, rich: bool) -> None:
    file = Path("config.yaml")
    config = {
        **CONFIG,
        "num_machines": 1,
        "mixed_precision": "no",
        "distributed_type": "NO" if rich else "DATA_PARALLEL",
    }
    file.write_text(yaml.safe_dump({**config, **({"additional_args": RICHEST} if rich else {})}))
    if rich:
        Path("inputs.tsv").write_text(RICH_INPUTS)
        Path("src/requirements.txt").write_text("")
    checked = config_check.check(file)
    argv = ("--id", "007", "--name", "bob")
    prepared = launch.prepare(checked, Path("src/train.py"), argv, pushes=(), home=Path("/home/somebody"))
    wanted = request.create(launch.on_sagemaker(prepared, "the-job", None))
    Path("program.py").write_text(emit.snippet(form, prepared, wanted))
    known = {
        "PATH": os.environ["PATH"],
        "HOME": str(client.folder),
        "AWS_ENDPOINT_URL": client.endpoint,
        "AWS_PROFILE": "X",
        "AWS_DEFAULT_REGION": "eu-west-1",  # the program names its own
        "AWS_EC2_METADATA_DISABLED": "true",
        "no_proxy": "*",
    }
    variables = [f"{name}={value}" for name, value in known.items()]
    program = [sdk.environment(version), sdk.HERE / "emitted.py", "program.py", "sent.json"]
    done = process.run(["env", "-i", *variables, *program], cwd=client.folder, timeout=300, check=False)
    assert Path("sent.json").exists(), done.stdout + done.stderr
    found = json.loads(Path("sent.json").read_text())
    assert found["region"] == "us-east-1"
    sent, expected = comparable(found["request"]), comparable(wanted)
    if form == "sdk3":
        uploaded = {
            each["ChannelName"]: each for each in sent["InputDataConfig"] if each not in wanted["InputDataConfig"]
        }
        assert sorted(uploaded) == ["code", "sm_drivers"]
        sent["InputDataConfig"] = [each for each in sent["InputDataConfig"] if each in wanted["InputDataConfig"]]
        expected = as_sdk3_asks(expected)
    assert sent == expected


def as_sdk3_asks(wanted: dict[str, Any]) -> dict[str, Any]:
    """A request with the documented differences of SDK 3, the channels of the script and its starter aside."""
    expected = copy.deepcopy(wanted)
    expected["InputDataConfig"] = [each for each in wanted["InputDataConfig"] if each["ChannelName"] != "code"]
    for place in emit.SDK3_CANNOT_ASK:
        *parents, last = place.split(".")
        (expected[parents[0]] if parents else expected).pop(last, None)
    script = "/opt/ml/input/data/sm_drivers/sm_train.sh"
    expected["AlgorithmSpecification"] |= {
        "ContainerEntrypoint": ["/bin/bash"],
        "ContainerArguments": ["-c", f"chmod +x {script} && {script}"],
    }
    expected["OutputDataConfig"].setdefault("CompressionType", "GZIP")  # the service's default
    # Hyperparameters for the script only, as plain text.
    values = {key: json.loads(value) for key, value in wanted["HyperParameters"].items()}
    expected["HyperParameters"] = {key: str(value) for key, value in values.items() if not key.startswith("sagemaker_")}
    return expected


EXAMPLE = """\
import json, os, sys
from pathlib import Path

print("arguments " + json.dumps(sys.argv[1:]))
print("channel " + Path(os.environ["SM_CHANNEL_TRAIN"], "part.csv").read_text().strip())
print("launched by accelerate: " + os.environ["ACCELERATE_USE_SAGEMAKER"])
print("epoch 0:", {"accuracy": 0.5, "f1": 0.25})
"""


@pytest.mark.parametrize(("kind", "version"), VERSIONS)
def test_the_real_accelerate_trains_in_our_image(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, version: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text(EXAMPLE)
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "part.csv").write_text("1,2\n")
    (tmp_path / "inputs.tsv").write_text(f"channel_name\tdata_location\ntrain\tfile://{tmp_path}/train\n")
    (tmp_path / "metrics.tsv").write_text("metric_name\tmetric_regex\nf1\t'f1': ([0-9.]+)\n")
    role = "arn:aws:iam::123456789012:role/X"
    wanted = {**CONFIG, "ec2_instance_type": "local", "iam_role_name": role, "distributed_type": kind}
    wanted |= {"image_uri": sdk.training_image(engine), "mixed_precision": "no", "num_machines": 1}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({k: v for k, v in wanted.items() if k != "profile"}))
    keys = ["--aws_access_key_id", "test", "--aws_secret_access_key", "test"]
    arguments = ["launch", "--config_file", "config.yaml", *keys, "src/train.py", "--lr", "1e-3"]
    with sdk.client(f"accelerate-{version}") as client:
        done = client.program([sdk.HERE / "accelerate_client.py", how(version), "/dev/null", *arguments], tmp_path)
    text = done.stdout + done.stderr
    assert done.code == 0, text
    for line in ('arguments ["--lr", "0.001"]', "channel 1,2", "launched by accelerate: true", "epoch 0: {'accuracy'"):
        assert line in text


def test_the_program_for_sdk_3_gives_the_script_its_arguments_as_typed(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text('import json, sys; print("arguments " + json.dumps(sys.argv[1:]))\n')
    role = "arn:aws:iam::123456789012:role/X"
    wanted = {**CONFIG, "iam_role_name": role, "distributed_type": "NO", "num_machines": 1, "mixed_precision": "no"}
    wanted |= {"image_uri": sdk.training_image(engine)}
    left = {name: value for name, value in wanted.items() if not name.endswith("_file")}
    Path("config.yaml").write_text(yaml.safe_dump(left))
    argv = ["--id", "007", "--flag", "--neg", "-1", "--a=b", "two words", 'it\'s $HOME "q"']
    checked = config_check.check(Path("config.yaml"))
    prepared = launch.prepare(checked, Path("src/train.py"), argv, pushes=(), home=Path("/home/somebody"), ours=True)
    printed = emit.snippet("sdk3", prepared, request.create(launch.on_sagemaker(prepared, "the-job", None)))
    # The same on this machine: without a session, and what is SageMaker's alone.
    here = f"training_mode=Mode.LOCAL_CONTAINER, local_container_root={str(tmp_path)!r}"
    program = printed.replace("sagemaker_session=session", here).replace("ml.p3.16xlarge", "local_cpu")
    program = "".join(line for line in program.splitlines(True) if "output_data_config=" not in line)
    Path("program.py").write_text(f"from sagemaker.train.model_trainer import Mode\n{program}")
    with sdk.client("v3") as client:
        done = client.program([tmp_path / "program.py"], tmp_path)
    assert done.code == 0, done.stdout + done.stderr
    assert f"arguments {json.dumps(argv)}" in done.stdout + done.stderr
