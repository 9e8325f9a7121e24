"""A launch prepared: which image, which source, and the same job for SageMaker and for this machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slipway.clients import config_check, launch, official, request
from slipway.clients.accelerate import Config
from slipway.clients.arguments import VECTOR
from slipway.clients.launch import Prepared
from slipway.errors import InputError, NotFoundError
from slipway.records import Build

from .conftest import OURS, pushed

Write = Callable[..., Path]


def prepared(path: Path, *argv: str, **given: Any) -> Prepared:
    Path("src").mkdir(exist_ok=True)
    Path("src/train.py").write_text("")
    checked = config_check.check(path, local=True)
    given = {"pushes": (), "home": Path("/home/somebody"), **given}
    return launch.prepare(checked, Path("src/train.py"), argv, **given)


def test_the_named_image_is_taken(write: Write) -> None:
    found = prepared(write())
    assert found.image.reference == found.given["image_uri"] == OURS
    assert not found.notes


def test_an_empty_image_is_looked_up_and_told(write: Write) -> None:
    found = prepared(write(image_uri=None), pushes=[pushed("2.12.0"), pushed("2.13.0")])
    assert found.image.version == "2.13.0"
    assert found.ours
    assert found.notes == (f"image_uri is empty; taken: {found.image.reference}",)
    with pytest.raises(NotFoundError, match="no pushed image fits"):
        prepared(write(image_uri=None))


def test_the_official_image_is_foreign(write: Write) -> None:
    found = prepared(write(image_uri=None), take_official=True)
    assert found.image.reference.startswith(
        "763104351884.dkr.ecr.us-east-1.amazonaws.com/huggingface-pytorch-training:"
    )
    assert found.image.version == "2.8.0"
    assert not found.ours
    assert prepared(write(image_uri=None), take_official=True, ours=True).ours


@pytest.mark.parametrize(
    ("given", "region", "end"),
    [
        ({}, "us-east-1", "2.8.0-transformers4.56.2-gpu-py312-cu129-ubuntu22.04"),
        ({"transformers_version": "4.5"}, "us-east-1", "1.6.0-transformers4.5.0-gpu-py36"),
        ({"pytorch_version": "1.8.1"}, "us-east-1", "1.8.1-transformers4.10.2-gpu-py36-cu110-ubuntu18.04"),
        ({"pytorch_version": "2.1"}, "us-east-1", "2.1.0-transformers4.36.0-gpu-py310-cu121-ubuntu20.04"),
        ({"transformers_version": "4.46.1"}, "us-east-1", "2.3.0-transformers4.46.1-gpu-py311-cu121-ubuntu20.04"),
    ],
)
def test_official_images_by_version(given: dict[str, str], region: str, end: str) -> None:
    assert official.image_uri(Config(given=frozenset(given), region=region, **given)).endswith(":" + end)  # type: ignore[arg-type]


def test_official_images_have_accounts_by_region() -> None:
    assert official.image_uri(Config(region="cn-north-1")).startswith(
        "727897471807.dkr.ecr.cn-north-1.amazonaws.com.cn/"
    )
    with pytest.raises(NotFoundError, match="pytorch_version 9"):
        official.image_uri(Config(pytorch_version="9", given=frozenset({"pytorch_version"})))


def test_without_aws_the_account_is_guessed_from_role_or_image(write: Write) -> None:
    assert launch.guessed_account(prepared(write())) == "123456789012"
    assert launch.guessed_account(prepared(write(image_uri="mine"))) == "000000000000"
    role = "arn:aws:iam::210987654321:role/X"
    assert launch.guessed_account(prepared(write(image_uri="mine", iam_role_name=role))) == "210987654321"


def test_the_job_on_this_machine_is_the_one_on_sagemaker(write: Write, tmp_path: Path) -> None:
    found = prepared(write(num_machines=2), "--id", "007", "--flag")
    job, notes = launch.on_this_machine(found, "job", "mine", tmp_path / "out")
    asked = request.create(launch.on_sagemaker(found, "job", None))
    assert json.loads(job.hyperparameters[VECTOR]) == ["--id", "007", "--flag"]
    own = {"sagemaker_submit_directory", "sagemaker_program"}
    assert {k: v for k, v in job.hyperparameters.items() if k not in own} == {
        k: v for k, v in asked["HyperParameters"].items() if k not in own
    }
    assert job.environment == {**asked["Environment"], "ACCELERATE_MIXED_PRECISION": "no"}
    assert [(m.name, m.regex) for m in job.metrics] == [
        (m["Name"], m["Regex"]) for m in asked["AlgorithmSpecification"]["MetricDefinitions"]
    ]
    assert (job.hosts, job.entry, job.image, job.time_limit) == (2, "train.py", "mine", 86400)
    assert [channel.name for channel in job.channels] == ["train", "test"]
    assert any("fp16 needs a GPU" in note for note in notes)


def test_what_sagemaker_would_refuse_is_refused_here_too(write: Write, tmp_path: Path) -> None:
    found = prepared(write(additional_args={"environment": {"1": "x"}}))
    with pytest.raises(InputError, match="would not take this job"):
        launch.on_this_machine(found, "job", "mine", tmp_path)


@pytest.mark.parametrize("kind", ["local", "local_gpu"])
def test_local_instances_are_no_fault_here(write: Write, tmp_path: Path, kind: str) -> None:
    found = prepared(write(ec2_instance_type=kind, mixed_precision="no"))
    job, notes = launch.on_this_machine(found, "job", "mine", tmp_path)
    assert json.loads(job.hyperparameters["sagemaker_instance_type"]) == kind
    assert not notes


def test_settings_of_additional_args_hold_here(write: Write, tmp_path: Path) -> None:
    further = {
        "max_run": 60,
        "checkpoint_s3_uri": "s3://b/c",
        "container_entry_point": ["python3"],
        "container_arguments": ["-c", "1"],
        "environment": {"A": "1"},
    }
    job, notes = launch.on_this_machine(prepared(write(additional_args=further)), "job", "mine", tmp_path)
    assert (job.time_limit, job.entrypoint, job.arguments) == (60, ("python3",), ("-c", "1"))
    assert job.checkpoints == str(tmp_path / "checkpoints")
    assert job.environment["A"] == "1"
    assert any("instead of s3://b/c" in note for note in notes)


def test_an_image_that_was_built_here_is_known_by_its_build() -> None:
    push = pushed()
    values = dict.fromkeys(Build.__dataclass_fields__, "")
    build = Build(**{**values, "config_digest": push.config_digest, "reference": "pytorch-training:dev"})  # type: ignore[arg-type]
    assert launch.reference_here(push.uri, [push], [build]) == "pytorch-training:dev"
    assert launch.reference_here(push.uri, [push], []) == push.uri
    assert launch.reference_here("other", [push], [build]) == "other"


def test_nothing_is_sent_when_the_request_has_faults_and_nothing_stays_when_the_job_cannot_start(write: Write) -> None:
    done: list[str] = []

    class Fake:
        bucket = "bucket"
        refuse = False

        def role(self, name: str) -> str:
            return "arn:aws:iam::123456789012:role/X"

        def upload(self, file: Path, location: str, kms_key: str = "") -> None:
            done.append(f"upload {location.rpartition('/')[2]} {file.stat().st_size > 0}")

        def create(self, asked: dict[str, Any]) -> str:
            done.append("create")
            if self.refuse:
                raise InputError("no")
            return "arn"

        def remove(self, location: str) -> None:
            done.append("remove")

    aws: Any = Fake()
    bad = prepared(write(additional_args={"environment": {"1": "x"}}))
    with pytest.raises(InputError):
        launch.start(bad, launch.on_sagemaker(bad, "job", aws), aws)
    assert done == []
    good = prepared(write())
    assert launch.start(good, launch.on_sagemaker(good, "job", aws), aws)[0] == "arn"
    assert done == ["upload sourcedir.tar.gz True", "create"]
    aws.refuse = True
    with pytest.raises(InputError):
        launch.start(good, launch.on_sagemaker(good, "job", aws), aws)
    assert done[2:] == ["upload sourcedir.tar.gz True", "create", "remove"]


def test_optional_columns_of_the_inputs_reach_the_request(write: Write) -> None:
    path = write()
    columns = (
        "channel_name data_location content_type input_mode distribution compression data_type attribute_names access "
        "instance_groups"
    )
    rows = [
        columns.split(),
        ["a", "s3://b/a", "text/csv", "FastFile", "ShardedByS3Key"],
        ["b", "s3://b/list", "", "Pipe", "", "Gzip", "AugmentedManifestFile", "image,label"],
        ["c", "efs://fs-0123456789abcdef0/data", "", "", "", "", "", "", "rw"],
        ["d", "fsx://fs-0123456789abcdef0/fsx/data"],
        ["e", "s3://b/e", *[""] * 7, "data, train"],
    ]
    Path("inputs.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    checked = config_check.check(path)
    assert not checked.faults
    assert any("accelerate does not see the columns" in warning.what for warning in checked.warnings)
    asked = request.create(launch.on_sagemaker(prepared(path), "job", None))["InputDataConfig"]
    file_system = {"FileSystemId": "fs-0123456789abcdef0"}
    assert asked == [
        {
            "ChannelName": "a",
            "DataSource": {
                "S3DataSource": {
                    "S3DataType": "S3Prefix",
                    "S3Uri": "s3://b/a",
                    "S3DataDistributionType": "ShardedByS3Key",
                }
            },
            "ContentType": "text/csv",
            "InputMode": "FastFile",
        },
        {
            "ChannelName": "b",
            "DataSource": {
                "S3DataSource": {
                    "S3DataType": "AugmentedManifestFile",
                    "S3Uri": "s3://b/list",
                    "S3DataDistributionType": "FullyReplicated",
                    "AttributeNames": ["image", "label"],
                }
            },
            "InputMode": "Pipe",
            "CompressionType": "Gzip",
        },
        {
            "ChannelName": "c",
            "DataSource": {
                "FileSystemDataSource": {
                    **file_system,
                    "FileSystemType": "EFS",
                    "DirectoryPath": "/data",
                    "FileSystemAccessMode": "rw",
                }
            },
        },
        {
            "ChannelName": "d",
            "DataSource": {
                "FileSystemDataSource": {
                    **file_system,
                    "FileSystemType": "FSxLustre",
                    "DirectoryPath": "/fsx/data",
                    "FileSystemAccessMode": "ro",
                }
            },
        },
        {
            "ChannelName": "e",
            "DataSource": {
                "S3DataSource": {
                    "S3DataType": "S3Prefix",
                    "S3Uri": "s3://b/e",
                    "S3DataDistributionType": "FullyReplicated",
                    "InstanceGroupNames": ["data", "train"],
                }
            },
        },
    ]
