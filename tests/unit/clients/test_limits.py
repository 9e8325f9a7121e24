"""Requests held against the service model: every limit of it, and the rules that it does not state."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.clients import limits

CHANNEL = {
    "ChannelName": "train",
    "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://bucket/train"}},
}
REQUEST: dict[str, Any] = {
    "TrainingJobName": "job-1",
    "AlgorithmSpecification": {
        "TrainingImage": "host/image:1",
        "TrainingInputMode": "File",
        "MetricDefinitions": [{"Name": "loss", "Regex": "loss=([0-9.]+)"}],
    },
    "RoleArn": "arn:aws:iam::123456789012:role/X",
    "OutputDataConfig": {"S3OutputPath": "s3://bucket/"},
    "ResourceConfig": {"InstanceType": "ml.m5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30},
    "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
    "InputDataConfig": [CHANNEL],
    "HyperParameters": {"lr": "0.1"},
    "Environment": {"A": "1"},
}


def changed(place: str, value: Any) -> dict[str, Any]:
    """The request with one value set; None removes it."""
    request = copy.deepcopy(REQUEST)
    *parents, last = place.split(".")
    at: Any = request
    for parent in parents:
        at = at[int(parent)] if parent.isdigit() else at.setdefault(parent, {})
    key: Any = int(last) if last.isdigit() else last
    if value is None:
        del at[key]
    else:
        at[key] = value
    return request


def told(place: str, value: Any) -> list[str]:
    return [str(fault) for fault in limits.validate(changed(place, value))]


def test_a_good_request_has_no_fault() -> None:
    assert limits.validate(REQUEST) == []


METRIC = {"Name": "m", "Regex": "m=([0-9])"}


@pytest.mark.parametrize(
    ("place", "value", "what"),
    [
        ("TrainingJobName", "x" * 64, "64 characters (fix: 1 to 63)"),
        ("TrainingJobName", "under_score", "must match"),
        ("TrainingJobName", None, "TrainingJobName is missing"),
        ("AlgorithmSpecification.TrainingImage", "x" * 256, "255 at most"),
        ("AlgorithmSpecification.TrainingImage", "", "TrainingImage is empty"),
        ("AlgorithmSpecification.TrainingImage", "a b", "holds blanks"),
        ("AlgorithmSpecification.TrainingInputMode", "Fast", "did you mean FastFile"),
        (
            "AlgorithmSpecification.MetricDefinitions",
            [{"Name": f"m{n}", "Regex": "([0-9])"} for n in range(41)],
            "41 items",
        ),
        ("AlgorithmSpecification.MetricDefinitions", [METRIC, METRIC], "metric 'm' is given twice"),
        ("AlgorithmSpecification.MetricDefinitions.0.Regex", "x" * 501, "501 characters"),
        ("AlgorithmSpecification.MetricDefinitions.0.Regex", "loss=[0-9]+", "has no group"),
        ("AlgorithmSpecification.MetricDefinitions.0.Name", "", "0 characters (fix: 1 to 255)"),
        ("AlgorithmSpecification.ContainerArguments", ["x" * 257], "256 at most"),
        ("AlgorithmSpecification.ContainerEntrypoint", [], "0 items (fix: 1 to 100)"),
        ("HyperParameters", {f"k{n}": "v" for n in range(101)}, "101 entries (fix: 100 at most)"),
        ("HyperParameters", {"k" * 257: "v"}, "257 characters"),
        ("HyperParameters", {"k": "v" * 2501}, "2501 characters"),
        ("HyperParameters", {"k": "a\nb"}, "it has a line break"),
        ("HyperParameters", {"k": 1}, "1 is no string"),
        ("HyperParameters", {"": "v"}, "a hyperparameter without a name"),
        ("Environment", {f"K{n}": "v" for n in range(101)}, "101 entries"),
        ("Environment", {"1A": "v"}, "must match"),
        ("Environment", {"A-B": "v"}, "must match"),
        ("Environment", {"A": "v" * 513}, "513 characters"),
        ("InputDataConfig", [], "0 items (fix: 1 to 20)"),
        ("InputDataConfig", [{**CHANNEL, "ChannelName": f"c{n}"} for n in range(21)], "21 items"),
        ("InputDataConfig", [CHANNEL, CHANNEL], "channel 'train' is given twice"),
        ("InputDataConfig.0.ChannelName", "a b", "must match"),
        ("InputDataConfig.0.ChannelName", "x" * 65, "65 characters"),
        ("InputDataConfig.0.DataSource.S3DataSource.S3Uri", "file:///data", "must match"),
        ("InputDataConfig.0.DataSource.S3DataSource.S3DataType", "Prefix", "did you mean S3Prefix"),
        ("InputDataConfig.0.DataSource.S3DataSource.AttributeNames", ["a"], "without an augmented manifest"),
        ("InputDataConfig.0.DataSource.S3DataSource.S3DataType", "AugmentedManifestFile", "Pipe mode alone"),
        ("InputDataConfig.0.DataSource", {}, "0 data sources"),
        ("ResourceConfig.InstanceType", "ml.m5.xlage", "did you mean ml.m5.xlarge"),
        ("ResourceConfig.InstanceCount", 0, "InstanceCount: 0"),
        ("ResourceConfig.InstanceCount", "1", "'1' is no integer"),
        ("ResourceConfig.InstanceCount", True, "True is no integer"),
        ("ResourceConfig.VolumeSizeInGB", 0, "VolumeSizeInGB: 0"),
        ("ResourceConfig.KeepAlivePeriodInSeconds", 21601, "21600"),
        ("ResourceConfig.Instances", 1, "no such field (fix: did you mean InstanceGroups"),
        ("RoleArn", "X", "RoleArn"),
        ("VpcConfig", {"Subnets": ["s"]}, "VpcConfig.SecurityGroupIds is missing"),
        ("StoppingCondition.MaxWaitTimeInSeconds", 7200, "for spot training alone"),
        ("StoppingCondition.MaxRuntimeInSeconds", 28 * 86400 + 1, "28 days"),
        ("StoppingCondition.MaxPendingTimeInSeconds", 60, "1800 to 2419200"),
        ("EnableManagedSpotTraining", True, "spot training without MaxWaitTimeInSeconds"),
        ("Tags", [{"Key": "k", "Value": "v" * 257}], "257 characters"),
        ("Tags", [{"Key": f"k{n}", "Value": "v"} for n in range(51)], "51 items"),
        ("Tags", [{"Key": "aws:x", "Value": "v"}], "AWS's own"),
        ("Tags", [{"Key": "k", "Value": "a#b"}], "must match"),
        ("RetryStrategy", {"MaximumRetryAttempts": 31}, "31 (fix: 1 to 30)"),
        ("CheckpointConfig", {"S3Uri": "bucket/x"}, "must match"),
    ],
)
def test_each_limit_is_held(place: str, value: Any, what: str) -> None:
    faults = told(place, value)
    assert any(what in fault for fault in faults), faults
    assert all("(fix: " in fault for fault in faults)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("TrainingJobName", "x" * 63),
        ("HyperParameters", {"k" * 256: "v" * 2500}),
        ("Environment", {"A": "line\nbreak"}),
        ("Tags", [{"Key": "Projekt größer", "Value": ""}]),
        ("ResourceConfig.KeepAlivePeriodInSeconds", 21600),
        ("InputDataConfig.0.ShuffleConfig", {"Seed": 2**40}),
        ("VpcConfig", {"Subnets": ["subnet-1"], "SecurityGroupIds": ["sg-1"]}),
    ],
)
def test_what_is_within_the_limits_passes(place: str, value: Any) -> None:
    assert told(place, value) == []


def test_spot_goes_with_a_wait_and_without_a_warm_pool() -> None:
    request = changed("EnableManagedSpotTraining", True)
    request["StoppingCondition"]["MaxWaitTimeInSeconds"] = 3600
    assert limits.validate(request) == []
    request["StoppingCondition"]["MaxWaitTimeInSeconds"] = 3599
    request["ResourceConfig"]["KeepAlivePeriodInSeconds"] = 60
    assert len(limits.validate(request)) == 2


TREE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(sorted(REQUEST)), TREE)
def test_whatever_stands_in_a_request_is_judged_without_an_accident(place: str, value: Any) -> None:
    request = copy.deepcopy(REQUEST)
    request[place] = value
    for fault in limits.validate(request):
        assert fault.fix
