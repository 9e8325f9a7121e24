"""The request: what accelerate would have sent, and what additional_args make of it."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any

import pytest

from slipway.clients import accelerate, estimator, request
from slipway.clients.arguments import VECTOR
from slipway.errors import InputError

from .conftest import OURS

Write = Callable[..., Path]
METRICS = [{"Name": "f1", "Regex": "'f1': ([0-9.]+)"}]


def launch(path: Path, *argv: str, ours: bool = True, **changes: Any) -> request.Launch:
    config = accelerate.load(path).config
    values: dict[str, Any] = {
        "name": "job-1",
        "given": estimator.arguments(config, PurePath("src/train.py"), METRICS),
        "argv": argv,
        "ours": ours,
        "region": config.region,
        "bucket": "bucket",
        "role": "arn:aws:iam::123456789012:role/X",
    }
    return request.Launch(**{**values, **changes})


def created(path: Path, *argv: str, **changes: Any) -> dict[str, Any]:
    return request.create(launch(path, *argv, **changes))


def faults(path: Path, *argv: str, **changes: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        created(path, *argv, **changes)
    return [str(fault) for fault in caught.value.faults]


def test_a_job_without_further_wishes(write: Write) -> None:
    made = created(write(), "--lr", "1e-3")
    values = made.pop("HyperParameters")
    assert json.loads(values.pop(VECTOR)) == ["--lr", "1e-3"]
    assert values == {
        "lr": "0.001",
        "sagemaker_submit_directory": '"s3://bucket/job-1/source/sourcedir.tar.gz"',
        "sagemaker_program": '"train.py"',
        "sagemaker_container_log_level": "20",
        "sagemaker_job_name": '"job-1"',
        "sagemaker_region": '"us-east-1"',
        "sagemaker_distributed_dataparallel_enabled": "true",
        "sagemaker_instance_type": '"ml.p3.16xlarge"',
        "sagemaker_distributed_dataparallel_custom_mpi_options": '""',
    }
    assert made == {
        "TrainingJobName": "job-1",
        "RoleArn": "arn:aws:iam::123456789012:role/X",
        "AlgorithmSpecification": {
            "TrainingImage": OURS,
            "TrainingInputMode": "File",
            "MetricDefinitions": METRICS,
            "EnableSageMakerMetricsTimeSeries": True,
        },
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/"},
        "ResourceConfig": {"InstanceType": "ml.p3.16xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30},
        "StoppingCondition": {"MaxRuntimeInSeconds": 86400},
        "Environment": {
            "ACCELERATE_USE_SAGEMAKER": "true",
            "ACCELERATE_MIXED_PRECISION": "fp16",
            "ACCELERATE_DYNAMO_BACKEND": "NO",
            "ACCELERATE_DYNAMO_MODE": "default",
            "ACCELERATE_DYNAMO_USE_FULLGRAPH": "False",
            "ACCELERATE_DYNAMO_USE_DYNAMIC": "False",
            "ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION": "False",
            "ACCELERATE_SAGEMAKER_DISTRIBUTED_TYPE": "DATA_PARALLEL",
        },
        "ProfilerConfig": {"S3OutputPath": "s3://bucket/", "DisableProfiler": False},
    }


@pytest.mark.parametrize(
    ("given", "place", "value"),
    [
        ({"max_run": 60}, "StoppingCondition", {"MaxRuntimeInSeconds": 60}),
        ({"use_spot_instances": True, "max_wait": 90000}, "EnableManagedSpotTraining", True),
        ({"use_spot_instances": False}, "EnableManagedSpotTraining", None),
        (
            {"subnets": ["s-1"], "security_group_ids": ["g-1"]},
            "VpcConfig",
            {"Subnets": ["s-1"], "SecurityGroupIds": ["g-1"]},
        ),
        (
            {"checkpoint_s3_uri": "s3://b/c", "checkpoint_local_path": "/opt/ml/checkpoints"},
            "CheckpointConfig",
            {"S3Uri": "s3://b/c", "LocalPath": "/opt/ml/checkpoints"},
        ),
        ({"tags": [{"Key": "k", "Value": "v"}]}, "Tags", [{"Key": "k", "Value": "v"}]),
        ({"tags": {"k": "v"}}, "Tags", [{"Key": "k", "Value": "v"}]),
        ({"keep_alive_period_in_seconds": 60}, "ResourceConfig.KeepAlivePeriodInSeconds", 60),
        ({"max_retry_attempts": 3}, "RetryStrategy", {"MaximumRetryAttempts": 3}),
        ({"image_uri": "other:1"}, "AlgorithmSpecification.TrainingImage", "other:1"),
        ({"instance_count": 4}, "ResourceConfig.InstanceCount", 4),
        ({"environment": {"A": "1"}}, "Environment.A", "1"),
        ({"hyperparameters": {"seed": 7}}, "HyperParameters.seed", "7"),
        ({"output_path": "s3://o/p"}, "OutputDataConfig.S3OutputPath", "s3://o/p"),
        ({"output_path": "s3://o/p"}, "ProfilerConfig.S3OutputPath", "s3://o/p"),
        (
            {"output_path": "s3://o/p"},
            "HyperParameters.sagemaker_submit_directory",
            '"s3://o/job-1/source/sourcedir.tar.gz"',
        ),
        (
            {"code_location": "s3://c/d/"},
            "HyperParameters.sagemaker_submit_directory",
            '"s3://c/d/job-1/source/sourcedir.tar.gz"',
        ),
        ({"disable_profiler": True}, "ProfilerConfig", {"DisableProfiler": True}),
        ({"disable_output_compression": True}, "OutputDataConfig.CompressionType", "NONE"),
        ({"container_log_level": 10}, "HyperParameters.sagemaker_container_log_level", "10"),
        ({"enable_sagemaker_metrics": False}, "AlgorithmSpecification.EnableSageMakerMetricsTimeSeries", False),
        ({"input_mode": "FastFile"}, "AlgorithmSpecification.TrainingInputMode", "FastFile"),
        ({"encrypt_inter_container_traffic": True}, "EnableInterContainerTrafficEncryption", True),
        (
            {"distribution": {"smdistributed": {"dataparallel": {"custom_mpi_options": "-x A"}}}},
            "HyperParameters.sagemaker_distributed_dataparallel_custom_mpi_options",
            '"-x A"',
        ),
        (
            {"training_repository_access_mode": "Vpc"},
            "AlgorithmSpecification.TrainingImageConfig",
            {"TrainingRepositoryAccessMode": "Vpc"},
        ),
    ],
)
def test_additional_args_reach_their_place(write: Write, given: dict[str, Any], place: str, value: Any) -> None:
    at: Any = created(write(additional_args=given))
    for part in place.split("."):
        at = at.get(part)
    assert at == value


def test_hyperparameters_of_additional_args_are_options_too_and_win(write: Write) -> None:
    values = created(write(additional_args={"hyperparameters": {"lr": 2, "e": 1}}), "--lr", "1")["HyperParameters"]
    assert values["lr"] == "2"
    assert json.loads(values[VECTOR]) == ["--lr", "1", "-e", "1", "--lr", "2"]


@pytest.mark.parametrize(
    ("given", "enabled"),
    [
        ({"torch_distributed": {"enabled": True}}, "sagemaker_torch_distributed_enabled"),
        ({"pytorchddp": {"enabled": True}}, "sagemaker_pytorch_ddp_enabled"),
        ({"mpi": {"enabled": True, "processes_per_host": 2}}, "sagemaker_mpi_enabled"),
    ],
)
def test_other_ways_to_start_processes(write: Write, given: dict[str, Any], enabled: str) -> None:
    path = write(distributed_type="NO", additional_args={"distribution": given})
    assert created(path)["HyperParameters"][enabled] == "true"


def test_every_fault_is_told_at_once(write: Write) -> None:
    path = write(additional_args={"environment": {"1": "x"}, "subnets": ["s"], "distribution": {"smdp": {}}})
    told = faults(path, "--x", "y" * 2490, "--flag")
    assert len(told) == 4
    for what in ("'1'", "without security_group_ids", "distribution.smdp", "2500 at most"):
        assert any(what in fault for fault in told), told


def test_a_foreign_image_is_refused_what_it_cannot_be_given(write: Write) -> None:
    assert "--flag: a switch without a value" in faults(write(), "--flag", ours=False)[0]
    values = created(write(), "--id", "007", ours=False)["HyperParameters"]
    assert values["id"] == '"007"'
    assert VECTOR not in values


def test_regions_without_a_profiler(write: Write) -> None:
    assert created(write(), region="eu-south-2")["ProfilerConfig"] == {"DisableProfiler": True}


def test_a_job_of_one_kind_has_the_variables_of_the_accelerate_that_can_launch_it(write: Write) -> None:
    variables = created(write(distributed_type="NO"))["Environment"]
    assert "ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION" not in variables
    assert variables["ACCELERATE_SAGEMAKER_DISTRIBUTED_TYPE"] == "NO"


def test_fp8_brings_accelerates_own_defaults(write: Write) -> None:
    variables = created(write(mixed_precision="fp8"))["Environment"]
    assert variables["ACCELERATE_FP8_FORMAT"] == "HYBRID"


def test_names_are_cut_to_what_sagemaker_takes() -> None:
    now = datetime.datetime(2026, 1, 2, 3, 4, 5, 6789)
    assert request.new_name("job", now) == "job-2026-01-02-03-04-05-006"
    assert len(request.new_name("x" * 80, now)) == 63
    assert "--" not in request.new_name("x" * 38 + "-" * 9, now)


def test_the_source_of_a_job_without_a_network_comes_as_a_channel(write: Write) -> None:
    made = created(write(additional_args={"enable_network_isolation": True}))
    assert json.loads(made["HyperParameters"]["sagemaker_submit_directory"]) == (
        "/opt/ml/input/data/code/sourcedir.tar.gz"
    )
    (channel,) = made["InputDataConfig"]
    assert channel["ChannelName"] == "code"
    source = "s3://bucket/job-1/source/sourcedir.tar.gz"
    assert channel["DataSource"]["S3DataSource"]["S3Uri"] == request.source_of(made) == source
    taken = {"ChannelName": "code", "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://b/x"}}}
    found = faults(write(additional_args={"enable_network_isolation": True}), channels=(taken,))
    assert any("'code' is given twice" in fault for fault in found)
