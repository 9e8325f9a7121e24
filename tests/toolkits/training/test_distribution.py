"""Which hosts take part."""

from __future__ import annotations

import pytest
from sagemaker_training import distribution, errors, params
from sagemaker_training.environment import Environment

GROUPS = [
    {"instance_group_name": "gpu", "instance_type": "ml.g5.xlarge", "hosts": ["algo-3", "algo-4"]},
    {"instance_group_name": "cpu", "instance_type": "ml.m5.xlarge", "hosts": ["algo-1", "algo-2"]},
]


def env(group="gpu", groups=GROUPS, **hyperparameters):
    hosts = ["algo-1", "algo-2", "algo-3", "algo-4"]
    config = {"current_host": "algo-3", "hosts": hosts, "current_group_name": group, "instance_groups": groups}
    return Environment(resource_config=config, input_data_config={}, hyperparameters=hyperparameters)


@pytest.mark.parametrize("key", params.LAUNCH_ENV_NAMES)
def test_each_launcher_key_makes_the_own_group_take_part(key):
    on = env(**{key: True})
    assert on.distribution_instance_groups == ["gpu"]
    assert on.distribution_hosts == ["algo-3", "algo-4"]
    assert (on.master_hostname, on.is_master) == ("algo-3", True)


def test_seven_launcher_keys():
    assert sorted(params.LAUNCH_ENV_NAMES) == sorted(
        f"sagemaker_{name}_enabled"
        for name in (
            "mpi", "distributed_dataparallel", "pytorch_ddp", "torch_distributed", "pytorch_xla_multi_worker",
            "parameter_server", "multi_worker_mirrored_strategy",
        )
    )  # fmt: skip


def test_no_launcher_no_group():
    off = env()
    assert (off.distribution_instance_groups, off.distribution_hosts) == ([], [])
    assert off.master_hostname == "algo-1"


def test_named_groups_keep_the_config_order():
    named = env(sagemaker_distribution_instance_groups=["cpu", "gpu"])
    assert named.distribution_hosts == ["algo-3", "algo-4", "algo-1", "algo-2"]


def test_all_hosts_without_groups():
    local = env(groups=None, sagemaker_mpi_enabled=True)
    assert local.distribution_hosts == ["algo-1", "algo-2", "algo-3", "algo-4"]
    assert local.master_hostname == "algo-1"


def test_unknown_group_is_an_error_that_lists_the_known():
    with pytest.raises(errors.ClientError, match="names tpu; this job has the groups cpu, gpu"):
        env(sagemaker_distribution_instance_groups=["tpu"]).distribution_hosts  # noqa: B018


def test_groups_that_are_no_list():
    with pytest.raises(errors.ClientError, match="must be a list of group names"):
        env(sagemaker_distribution_instance_groups="gpu").distribution_instance_groups  # noqa: B018


@pytest.mark.parametrize(
    "asked, gpus, neurons, count", [(None, 0, 0, 1), (None, 4, 0, 4), (None, 0, 2, 2), (8, 4, 0, 8), ("3", 0, 0, 3)]
)
def test_processes_per_host(asked, gpus, neurons, count):
    given = {} if asked is None else {params.MPI_PROCESSES_PER_HOST: asked}
    assert distribution.processes_per_host(given, gpus, neurons) == count


@pytest.mark.parametrize("asked", [0, -1, "many", [2]])
def test_processes_per_host_that_is_no_count(asked):
    with pytest.raises(errors.ClientError, match="must be a whole number from 1"):
        distribution.processes_per_host({params.MPI_PROCESSES_PER_HOST: asked}, 0, 0)


def test_launcher_by_environment_variable_and_the_hyperparameter_wins(monkeypatch):
    key = params.LAUNCH_PS_ENV_NAME
    monkeypatch.setenv(params.SAGEMAKER_PARAMETER_SERVER_ENABLED, "True")
    assert distribution.enabled(key, {})
    assert not distribution.enabled(key, {key: False})
    monkeypatch.setenv(params.SAGEMAKER_PARAMETER_SERVER_ENABLED, "false")
    assert not distribution.enabled(key, {})


def test_host_outside_the_distribution_runs_one_plain_process(job):
    job.resources({"current_host": "algo-1", "hosts": ["algo-1"], "current_group_name": "cpu",
                   "instance_groups": [{"instance_group_name": "cpu", "hosts": ["algo-1"]},
                                       {"instance_group_name": "gpu", "hosts": ["algo-2"]}]})  # fmt: skip
    job.script("print('plain')", sagemaker_mpi_enabled="true", sagemaker_distribution_instance_groups='["gpu"]')
    assert job.run().out == "plain\n"
