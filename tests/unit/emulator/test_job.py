"""A job against the limits of the service."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import botocore.session
import pytest

from slipway.emulator import job
from slipway.emulator.channels import Channel
from slipway.emulator.cluster import InstanceGroup
from slipway.emulator.job import TrainingJob
from slipway.emulator.metrics import MetricDefinition
from slipway.errors import InputError

JOB = TrainingJob(image="x")


def faults(**changes: object) -> list[str]:
    with pytest.raises(InputError) as caught:
        job.check(replace(JOB, **changes))  # type: ignore[arg-type]
    return [str(fault) for fault in caught.value.faults]


def test_what_fits_is_taken(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    job.check(JOB)
    job.check(
        replace(
            JOB,
            name="a" * 63,
            hosts=2,
            hyperparameters={f"h{n}": "v" for n in range(99)} | {"k" * 256: "v" * 2498},
            environment={f"e{n}": "v" for n in range(99)} | {"E" * 512: "v" * 512},
            channels=tuple(Channel(str(n), "s3://b") for n in range(20)),
            metrics=tuple(MetricDefinition(str(n), "(x)") for n in range(40)),
            source=tmp_path,
            entry="train.py",
        )
    )


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"name": "a_b"}, "job name"),
        ({"name": "a" * 64}, "job name"),
        ({"name": "-a"}, "job name"),
        ({"hosts": 0}, "0 hosts"),
        ({"time_limit": 0.0}, "time limit"),
        ({"hyperparameters": {f"h{n}": 1 for n in range(101)}}, "101 hyperparameters"),
        ({"hyperparameters": {"k" * 257: 1}}, "a key has 1 to 256"),
        ({"hyperparameters": {"k": "v" * 2499}}, "2501 characters"),
        ({"hyperparameters": {"k": "a\nb"}, "raw_hyperparameters": True}, "on one line"),
        ({"environment": {"1a": ""}}, "'1a'"),
        ({"environment": {"a-b": ""}}, "'a-b'"),
        ({"environment": {"a": "v" * 513}}, "513 characters"),
        ({"channels": tuple(Channel(str(n), "s3://b") for n in range(21))}, "21 channels"),
        ({"metrics": tuple(MetricDefinition(str(n), "(x)") for n in range(41))}, "41 metric definitions"),
        ({"hosts": 3, "instance_groups": (InstanceGroup("a", "ml.c5.xlarge", 2),)}, "3 hosts, but the instance groups"),
        ({"instance_groups": (InstanceGroup("a" * 65, "ml.c5.xlarge", 1),)}, "a name has 1 to 64"),
        ({"spot_interrupt": -1.0}, "give more than 0"),
        ({"spot_interrupt": 1.0, "warm_pool": Path("p")}, "a warm pool of spot instances"),
        (
            {"warm_pool": Path("p"), "instance_groups": (InstanceGroup("a", "ml.c5.xlarge", 1),)},
            "a warm pool for a heterogeneous cluster",
        ),
        (
            {
                "hosts": 2,
                "instance_groups": (InstanceGroup("data", "ml.c5.xlarge", 2),),
                "channels": (Channel("c", "s3://b", instance_groups=("date",)),),
            },
            "no instance group 'date' (fix: did you mean data?)",
        ),
        ({"channels": (Channel("c", "s3://b", instance_groups=("data",)),)}, "no instance group 'data'"),
        ({"gpus": "0"}, "'0' GPUs"),
        ({"gpus": "some"}, "'some' GPUs"),
        ({"checkpoints": "s3://"}, "names no bucket"),
        ({"checkpoint_path": "checkpoints"}, "is not absolute"),
        ({"channels": (Channel("a", "s3://b"), Channel("a", "s3://c"))}, "'a' is given twice"),
        ({"channels": (Channel("..", "s3://b"),)}, "channel name '..'"),
        ({"channels": (Channel("a/b", "s3://b"),)}, "channel name 'a/b'"),
        ({"metrics": (MetricDefinition("loss", "loss"),)}, "metric loss: the regex has no group"),
        ({"arguments": ("a",) * 101}, "100 words"),
        ({"entrypoint": ("a" * 257,)}, "256 characters"),
        ({"entry": "train.py"}, "has no source folder"),
        ({"source": Path("/no/where"), "entry": "train.py"}, "/no/where: the source folder does not exist"),
    ],
)
def test_what_does_not_fit_is_named(changes: dict[str, object], what: str) -> None:
    (found,) = faults(**changes)
    assert what in found


def test_a_missing_entry_names_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "main.py").touch()
    assert "it holds: main.py" in faults(source=tmp_path, entry="train.py")[0]


def test_a_secret_that_is_too_long_is_not_shown() -> None:
    assert "hunter2" not in faults(environment={"TOKEN": "hunter2" * 100})[0]


def test_all_faults_at_once() -> None:
    assert len(faults(name="_", hosts=0, environment={"1": ""}, hyperparameters={"": 1})) == 4


def test_the_limits_are_those_of_the_service_model() -> None:
    model = botocore.session.get_session().get_service_model("sagemaker")
    for shape, limit in (
        ("TrainingJobName", 63),
        ("HyperParameters", 100),
        ("HyperParameterKey", 256),
        ("HyperParameterValue", 2500),
        ("TrainingEnvironmentMap", 100),
        ("TrainingEnvironmentKey", 512),
        ("TrainingEnvironmentValue", 512),
    ):
        assert model.shape_for(shape).metadata["max"] == limit, shape


def test_new_names_are_names_and_differ() -> None:
    names = {job.new_name() for _ in range(20)}
    assert len(names) == 20
    for name in names:
        job.check(replace(JOB, name=name))


def test_a_channel_of_some_groups_is_shared_by_their_hosts_alone() -> None:
    groups = tuple(InstanceGroup(name, "ml.c5.xlarge", count) for name, count in (("a", 1), ("b", 9), ("c", 1)))
    common, own = Channel("common", "s3://b"), Channel("own", "s3://b", instance_groups=("b", "c"))
    job = replace(JOB, hosts=11, instance_groups=groups, channels=(common, own))
    assert job.channels_of("algo-1") == [(common, 0, 11)]
    assert job.channels_of("algo-10") == [(common, 1, 11), (own, 0, 10)]
    assert job.channels_of("algo-2") == [(common, 3, 11), (own, 2, 10)]
