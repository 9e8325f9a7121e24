"""What ``train`` calls in a TensorFlow image: describes the cluster, chooses the launcher, runs the script.

Rules: docs/contract/tensorflow-training.md.
"""

from __future__ import annotations

import json
import os
from typing import List, Optional

from sagemaker_training import distribution, entry_point, environment, errors, hosts, leader, params, runner, trainer
from sagemaker_training.environment import Environment
from sagemaker_training.logs import logger

from sagemaker_tensorflow_container import cluster, model_dir, parameter_server, storage

SAGEMAKER_PARAMETER_SERVER_ENABLED = params.LAUNCH_PS_ENV_NAME
SAGEMAKER_DISTRIBUTED_DATAPARALLEL_ENABLED = params.LAUNCH_SMDATAPARALLEL_ENV_NAME
SAGEMAKER_MULTI_WORKER_MIRRORED_STRATEGY_ENABLED = params.LAUNCH_MWMS_ENV_NAME

_RUNNERS = {
    params.LAUNCH_MPI_ENV_NAME: runner.MPIRunnerType,
    params.LAUNCH_SMDATAPARALLEL_ENV_NAME: runner.SMDataParallelRunnerType,
}


def main() -> None:
    """Runs the job of this container. Raises what fails it; the base toolkit makes of that the failure and the code."""
    given = environment.read_hyperparameters()
    env = Environment(hyperparameters=model_dir.of_job(given, Environment(hyperparameters=given).job_name or ""))
    storage.configure(env.hyperparameters.get(model_dir.KEY))
    train(env)
    if env.is_master:
        model_dir.warn_if_not_servable()


def train(env: Environment, cmd_args: Optional[List[str]] = None) -> None:
    """Runs the job that an environment describes, with the launcher that it asks for."""
    _refuse_model_parallel(env)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    members = env.distribution_hosts or env.hosts
    launchers = _launchers(env)
    trainer.log_environment(env)
    if params.LAUNCH_PS_ENV_NAME in launchers:
        hosts.wait_for_names(members)
        os.environ["TF_CONFIG"] = json.dumps(cluster.parameter_server(members, env.current_host))
        parameter_server.start(members, env.current_host)
        leader.run_together(members, env.current_host, lambda: _run(env, cmd_args, runner.ProcessRunnerType))
        return
    runner_type = next((_RUNNERS[key] for key in launchers if key in _RUNNERS), runner.ProcessRunnerType)
    if params.LAUNCH_MWMS_ENV_NAME not in launchers:
        _run(env, cmd_args, runner_type)
        return
    os.environ["TF_CONFIG"] = json.dumps(cluster.mirrored(members, env.current_host))
    if runner_type is runner.ProcessRunnerType:
        leader.run_together(members, env.current_host, lambda: _run(env, cmd_args, runner_type))
    else:
        _run(env, cmd_args, runner_type)


def _refuse_model_parallel(env: Environment) -> None:
    if env.is_modelparallel_enabled:
        raise errors.ClientError(
            "The hyperparameter mp_parameters asks for smdistributed.modelparallel, which is proprietary and has no "
            "version for this TensorFlow. Use tf.experimental.dtensor, or "
            "distribution={'multi_worker_mirrored_strategy': {'enabled': True}}."
        )


def _launchers(env: Environment) -> List[str]:
    """The launchers to act upon on this host, of those that are on."""
    asked = distribution.launchers(env.additional_framework_parameters)
    if env.current_instance_group not in env.distribution_instance_groups:
        return []
    if params.LAUNCH_PS_ENV_NAME in asked and len(env.distribution_hosts) > 1:
        usable = [params.LAUNCH_PS_ENV_NAME]
    else:
        usable = [key for key in (params.LAUNCH_MWMS_ENV_NAME, *_RUNNERS) if key in asked]
    for key in asked:
        if key not in usable:
            logger.warning("%s is not acted upon: %s", key, _why_not(key, usable))
    return usable


def _why_not(key: str, usable: List[str]) -> str:
    if key == params.LAUNCH_PS_ENV_NAME:
        return "parameter servers need more than one host"
    if key in _RUNNERS or key == params.LAUNCH_MWMS_ENV_NAME:
        return f"{usable[0]} comes first"
    return "TensorFlow images have no such launcher"


def _run(env: Environment, cmd_args: Optional[List[str]], runner_type: runner.RunnerType) -> None:
    entry_point.run(
        env.module_dir,
        env.user_entry_point,
        env.to_cmd_args() if cmd_args is None else cmd_args,
        env.to_env_vars(),
        capture_error=True,
        runner_type=runner_type,
    )
