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
