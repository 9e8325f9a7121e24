"""A configuration and its TSV files, checked at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slipway.clients import config_check, images
from slipway.errors import InputError

from .conftest import OURS

Write = Callable[..., Path]


def test_the_published_example_has_no_fault(write: Write) -> None:
    checked = config_check.check(write())
    assert not checked.faults
    checked.require()
    assert [channel.name for channel in checked.channels.channels] == ["train", "test"]
    assert [metric.name for metric in checked.metrics.definitions] == ["accuracy", "f1"]


def test_faults_of_three_files_are_told_at_once(write: Write) -> None:
    path = write(num_machines=0)
    Path("inputs.tsv").write_text("channel_name\tdata_location\ntrain\ts3://bucket/a\ntrain\ts3://bucket/b\n")
    Path("metrics.tsv").write_text("metric_name\tmetric_regex\nloss\tloss=[0-9]+\n")
    checked = config_check.check(path)
    assert sorted({str(fault.file) for fault in checked.faults}) == ["config.yaml", "inputs.tsv", "metrics.tsv"]
    with pytest.raises(InputError) as caught:
        checked.require()
    assert len(caught.value.faults) == 3


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"ec2_instance_type": "ml.p3.16xlage"}, "did you mean ml.p3.16xlarge"),
        ({"iam_role_name": "two words"}, "iam_role_name: 'two words'"),
        ({"iam_role_name": "arn:aws:iam::12:role/X"}, "iam_role_name: RoleArn"),
        ({"base_job_name": "under_score"}, "base_job_name: 'under_score'"),
        ({"region": "virginia"}, "region: 'virginia' is no region"),
        ({"image_uri": "two words"}, "image_uri"),
        ({"image_uri": "x" * 256}, "255 characters at most"),
        ({"sagemaker_inputs_file": "nowhere.tsv"}, "nowhere.tsv does not exist"),
        ({"additional_args": {"max_runs": 1}}, "did you mean max_run"),
        ({"additional_args": {"max_run": "1"}}, "'1' is not a whole number"),
        ({"additional_args": {"rules": []}}, "an object of the SDK"),
    ],
)
def test_a_fault_has_its_place(write: Write, changes: dict[str, Any], what: str) -> None:
    (fault,) = config_check.check(write(**changes)).faults
    assert fault.file == "config.yaml"
    assert fault.line
    assert what in str(fault)


MANIFEST = "channel_name\tdata_location\tdata_type\tinput_mode\tattribute_names\tcontent_type"


@pytest.mark.parametrize(
    ("args", "what", "key"),
    [
        ({"environment": {"1": "x"}}, "Environment: key: '1'", "environment"),
        ({"environment": {"A": 1}}, "Environment['A']: 1 is no string", "environment"),
        ({"tags": {f"k{at}": "v" for at in range(51)}}, "Tags: 51 items", "tags"),
        ({"subnets": ["s-1"]}, "a network without security_group_ids", ""),
        ({"use_spot_instances": True}, "spot training without MaxWaitTimeInSeconds", ""),
        ({"max_wait": 90000}, "set use_spot_instances: true", ""),
        ({"max_run": 2419201}, "2419200, at most", ""),
        ({"checkpoint_s3_uri": "b/c"}, "CheckpointConfig.S3Uri: 'b/c'", "checkpoint_s3_uri"),
        ({"hyperparameters": {"k" * 257: "v"}}, "HyperParameters: key: 257 characters", "hyperparameters"),
        ({"distribution": {"mpj": {}}}, "did you mean mpi", "distribution"),
        ({"metric_definitions": [{"Name": "x", "Regex": "("}]}, "metric x", ""),
        ({"instance_type": "ml.m5.xlage"}, "did you mean ml.m5.xlarge", "instance_type"),
        ({"instance_count": 0}, "InstanceCount: 0", "instance_count"),
        ({"role": "arn:aws:iam::12:role/X"}, "RoleArn: ", "role"),
        ({"role": "two words"}, "role: 'two words'", "role"),
        ({"image_uri": "x" * 256}, "TrainingImage: 256 characters", "image_uri"),
        ({"dependencies": ["nowhere"]}, "nowhere does not exist", "dependencies"),
    ],
)
def test_what_a_launch_would_refuse_is_a_fault_of_its_own_line(
    write: Write, args: dict[str, Any], what: str, key: str
) -> None:
    path = write(additional_args=args)
    (fault,) = config_check.check(path).faults
    assert what in str(fault)
    assert fault.file == "config.yaml"
    assert fault.line is not None
    assert path.read_text().splitlines()[fault.line - 1].strip().startswith(f"{key or 'additional_args'}:")


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ("s3://b/m\tAugmentedManifestFile\t\ta,b\t", "read in Pipe mode alone"),
        ("s3://b/m\t\t\ta\t", "attribute names without an augmented manifest"),
        ("s3://b/m\tManifestFile\tFastFile\t\t", "FastFile mode reads an S3 prefix alone"),
        ("efs://fs-01234567/x\t\tPipe\t\t", "a file system is read in File mode alone"),
        ("s3://b/m\t\t\t\t" + "x" * 257, "channel train: InputDataConfig[1].ContentType: 257 characters"),
        ("s3://b/m\tAugmentedManifestFile\tPipe\t" + ",".join("abcdefghijklmnopq") + "\t", "AttributeNames: 17 items"),
    ],
)
def test_what_a_launch_would_refuse_in_a_channel_is_a_fault_of_its_row(write: Write, row: str, what: str) -> None:
    path = write()
    Path("inputs.tsv").write_text(f"{MANIFEST}\ntest\ts3://b/t\t\t\t\t\ntrain\t{row}\n")
    (fault,) = config_check.check(path).faults
    assert what in str(fault)
    assert (fault.file, fault.line) == ("inputs.tsv", 3)


def test_each_fault_is_told_once_and_does_not_hide_those_of_the_request(write: Write) -> None:
    faults = config_check.check(
        write(
            ec2_instance_type="ml.p3.16xlage",
            image_uri="two words",
            iam_role_name="arn:aws:iam::12:role/X",
            additional_args={"max_run": "1", "max_runs": 1, "subnets": ["s-1"], "environment": {"1": "x"}},
        )
    ).faults
    assert sorted(fault.what.partition(" ")[0] for fault in faults) == [
        "Environment:",
        "additional_args.max_run:",
        "additional_args.max_runs:",
        "additional_args:",
        "ec2_instance_type:",
        "iam_role_name:",
        "image_uri:",
    ]


def test_a_job_for_this_machine_is_held_to_the_limits_too(write: Write) -> None:
    assert not config_check.check(write(ec2_instance_type="local_gpu")).faults
    (fault,) = config_check.check(write(ec2_instance_type="local", additional_args={"subnets": ["s"]})).faults
    assert "a network without" in fault.what


@pytest.mark.parametrize(
    ("distribution", "what"),
    [
        ({"mpi": True}, "distribution.mpi: True is not a mapping (fix: write mpi: {enabled: true})"),
        ({"smdistributed": True}, "write smdistributed: {dataparallel: {enabled: true}}"),
        ({"smdistributed": {"dataparallel": True}}, "write dataparallel: {enabled: true}"),
        ({"smdistributed": {"dataparalel": {}}}, "did you mean dataparallel"),
        ({"smdistributed": {"modelparallel": {}}}, "use torch_distributed"),
        ({"pytorchddp": True}, "write pytorchddp: {enabled: true}"),
        ({"torch_distributed": True}, "write torch_distributed: {enabled: true}"),
        ({"torch_distributed": {"enabled": "false"}}, "'false' is not true or false"),
        ({"mpi": {"enable": True}}, "did you mean enabled"),
        ({"mpi": {"enabled": True, "processes_per_host": "2"}}, "'2' is not a whole number"),
        ({"instance_groups": []}, "an object of the SDK"),
    ],
)
def test_a_distribution_that_is_not_one_is_a_fault(write: Write, distribution: dict[str, Any], what: str) -> None:
    (fault,) = config_check.check(write(distributed_type="NO", additional_args={"distribution": distribution})).faults
    assert what in str(fault)


@pytest.mark.parametrize("name", ["role", "instance_type", "instance_count", "entry_point", "source_dir"])
def test_null_takes_nothing_away_that_a_job_needs(write: Write, name: str) -> None:
    (fault,) = config_check.check(write(additional_args={name: None})).faults
    assert fault.what == f"additional_args.{name}: null takes away what every job needs"
    assert fault.fix


def test_sagemaker_reads_no_local_channel_but_this_machine_does(write: Write) -> None:
    path = write()
    Path("inputs.tsv").write_text("channel_name\tdata_location\ntrain\t.\n")
    (fault,) = config_check.check(path).faults
    assert "SageMaker reads S3 alone" in fault.what
    assert not config_check.check(path, local=True).faults
    assert not config_check.check(write(ec2_instance_type="local")).faults


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({}, "pytorch_version is 1.10.2, the image has 2.13.0"),
        ({}, "py_version is py38, the image has py311"),
        (
            {
                "image_uri": "123456789012.dkr.ecr.us-east-1.amazonaws.com/huggingface-pytorch-training:"
                "2.13.0-transformers5.24.0-cpu-py311-debian12-v1"
            },
            "transformers_version is 4.17.0, the image has 5.24.0: the image decides (fix: write 5.24.0)",
        ),
        ({}, "the V100 GPUs of ml.p3.16xlarge would stay idle"),
        (
            {"image_uri": "x/pytorch-training:2.13.0-gpu-py311-cu130-debian12"},
            "V100 GPUs (sm_70), and the image is made for",
        ),
        ({"ec2_instance_type": "ml.m5.xlarge"}, "fp16 without a GPU"),
        ({"mixed_precision": "bf16"}, "V100 GPUs (sm_70) have no arithmetic in bf16"),
        ({"region": "eu-west-1"}, "the image is in us-east-1, the job runs in eu-west-1"),
        ({"distributed_type": "MODEL_PARALLEL"}, "MODEL_PARALLEL asks SageMaker for nothing"),
        ({"distributed_type": "NO", "num_machines": 2}, "each trains by itself"),
        ({"gpu_ids": "0"}, "gpu_ids does not reach the job"),
        ({"debug": True}, "debug does not reach the job"),
        ({"dynamo_config": {"dynamo_backend": "INDUCTOR"}}, "dynamo_config does not reach the job"),
        ({"profile": None}, "profile is empty"),
        ({"profile": "other"}, "did you mean others"),
        ({"image_uri": None}, "image_uri is empty"),
    ],
)
def test_warnings_are_no_faults(write: Write, changes: dict[str, Any], what: str) -> None:
    checked = config_check.check(write(**changes), profiles=["X", "others"])
    assert not checked.faults
    assert any(what in str(warning) for warning in checked.warnings), [str(each) for each in checked.warnings]


def test_a_configuration_that_fits_warns_of_nothing(write: Write) -> None:
    path = write(
        ec2_instance_type="ml.m5.xlarge",
        mixed_precision="no",
        pytorch_version="2.13",
        py_version="py311",
        transformers_version=None,
    )
    assert not config_check.check(path, profiles=["X"]).warnings


def test_the_image_of_additional_args_is_the_one_that_counts(write: Write) -> None:
    asked: list[str] = []

    def facts(reference: str) -> images.Facts:
        asked.append(reference)
        return images.facts(reference, ())

    config_check.check(write(additional_args={"image_uri": "other:1"}), facts=facts)
    config_check.check(write(), facts=facts)
    assert asked == ["other:1", OURS]


def test_tsv_files_beside_the_configuration_are_found_with_a_warning(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write().absolute()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    checked = config_check.check(path)
    assert not checked.faults
    assert sum("is not in the current folder" in warning.what for warning in checked.warnings) == 2
