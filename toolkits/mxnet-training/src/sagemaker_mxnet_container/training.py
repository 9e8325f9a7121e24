"""What ``train`` calls in an MXNet image: starts the parameter servers, chooses the launcher, runs the script.

Rules: docs/contract/mxnet-training.md.
"""

from __future__ import annotations

from typing import List

from sagemaker_training import distribution, entry_point, hosts, leader, params, runner, trainer
from sagemaker_training.environment import Environment
from sagemaker_training.logs import logger
from sagemaker_training.params import LAUNCH_MPI_ENV_NAME, LAUNCH_PS_ENV_NAME

from sagemaker_mxnet_container import parameter_server

__all__ = ["LAUNCH_MPI_ENV_NAME", "LAUNCH_PS_ENV_NAME", "main", "train"]

SAGEMAKER_PARAMETER_SERVER_ENABLED = params.LAUNCH_PS_ENV_NAME


def main() -> None:
    """Runs the job of this container. Raises what fails it; the base toolkit makes of that the failure and the code."""
    train(Environment())


def train(env: Environment) -> None:
    """Runs the job that an environment describes, with the launcher that it asks for."""
    members = env.distribution_hosts or env.hosts
    launchers = _launchers(env)
    trainer.log_environment(env)
    mpi = LAUNCH_MPI_ENV_NAME in launchers
    if LAUNCH_PS_ENV_NAME not in launchers:
        _run(env, mpi)
        return
    hosts.wait_for_names(members)
    shared = parameter_server.variables(members, env.hyperparameters)
    parameter_server.start(members, env.current_host, shared)
    if mpi:
        _run(env, mpi)
    else:
        leader.run_together(members, env.current_host, lambda: _run(env, mpi))


def _launchers(env: Environment) -> List[str]:
    """The launchers to act upon on this host, of those that are on."""
    asked = distribution.launchers(env.additional_framework_parameters)
    if env.current_instance_group not in env.distribution_instance_groups:
        return []
    usable = [key for key in asked if key in (LAUNCH_PS_ENV_NAME, LAUNCH_MPI_ENV_NAME)]
    for key in asked:
        if key not in usable:
            logger.warning("%s is not acted upon: MXNet images have no such launcher", key)
    return usable


def _run(env: Environment, mpi: bool) -> None:
    entry_point.run(
        env.module_dir,
        env.user_entry_point,
        env.to_cmd_args(),
        env.to_env_vars(),
        runner_type=runner.MPIRunnerType if mpi else runner.ProcessRunnerType,
    )
