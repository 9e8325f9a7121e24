"""What ``train`` calls in a PyTorch image: chooses the launcher, prepares its environment, runs the script.

Rules: docs/contract/pytorch-training.md.
"""

from __future__ import annotations

import importlib.util
import os
import re
import signal
from typing import List, Mapping, Optional

from sagemaker_training import distribution, entry_point, errors, fabric, runner, trainer
from sagemaker_training.environment import Environment
from sagemaker_training.logs import logger
from sagemaker_training.params import (
    LAUNCH_MPI_ENV_NAME,
    LAUNCH_PYTORCH_DDP_ENV_NAME,
    LAUNCH_PYTORCH_XLA_ENV_NAME,
    LAUNCH_SMDATAPARALLEL_ENV_NAME,
    LAUNCH_TORCH_DISTRIBUTED_ENV_NAME,
    SAGEMAKER_DISTRIBUTED_DATAPARALLEL_ENABLED,
    SAGEMAKER_MULTI_WORKER_MIRRORED_STRATEGY_ENABLED,
    SAGEMAKER_PARAMETER_SERVER_ENABLED,
)
from sagemaker_training.torch_distributed import MASTER_PORT

from sagemaker_pytorch_container import smddp

__all__ = [
    "LAUNCH_MPI_ENV_NAME",
    "LAUNCH_PYTORCH_DDP_ENV_NAME",
    "LAUNCH_PYTORCH_XLA_ENV_NAME",
    "LAUNCH_SMDATAPARALLEL_ENV_NAME",
    "LAUNCH_TORCH_DISTRIBUTED_ENV_NAME",
    "MASTER_PORT",
    "SAGEMAKER_DISTRIBUTED_DATAPARALLEL_ENABLED",
    "SAGEMAKER_MULTI_WORKER_MIRRORED_STRATEGY_ENABLED",
    "SAGEMAKER_PARAMETER_SERVER_ENABLED",
    "main",
    "train",
]

TORCH_VERSION_ENV = "SM_DLC_TORCH_VERSION"

# In order of precedence.
_RUNNERS = {
    LAUNCH_MPI_ENV_NAME: runner.MPIRunnerType,
    LAUNCH_PYTORCH_DDP_ENV_NAME: runner.TorchDistributedRunnerType,
    LAUNCH_TORCH_DISTRIBUTED_ENV_NAME: runner.TorchDistributedRunnerType,
    LAUNCH_SMDATAPARALLEL_ENV_NAME: runner.SMDataParallelRunnerType,
    LAUNCH_PYTORCH_XLA_ENV_NAME: runner.PyTorchXLARunnerType,
}

# gloo throws at the end of an interpreter whose peers have ended before: the script itself is through by then.
_GLOO_AT_EXIT = "terminate called after throwing an instance of 'gloo::EnforceNotMet'"
_ABORTED = (-signal.SIGABRT, 128 + signal.SIGABRT)


def main() -> None:
    """Runs the job of this container. Raises what fails it; the base toolkit makes of that the failure and the code."""
    train(Environment())


def train(training_environment: Environment) -> None:
    """Runs the job that an environment describes, with the launcher that it asks for."""
    env = training_environment
    _refuse_model_parallel(env)
    runner_type = choose_runner(env)
    _set_defaults(env, runner_type)
    smddp.offer()
    trainer.log_environment(env)
    try:
        entry_point.run(
            env.module_dir,
            env.user_entry_point,
            env.to_cmd_args(),
            {**env.to_env_vars(), **_torch_version()},
            capture_error=True,
            runner_type=runner_type,
        )
    except errors.ExecuteUserScriptError as error:
        if not _is_gloo_at_exit(error):
            raise
        logger.warning("gloo ended a finished script, because its peers ended first. The job counts as successful.")


def choose_runner(env: Environment) -> runner.RunnerType:
    """The launcher of this host: the first in order of precedence that is on, where the host's group takes part."""
    asked = distribution.launchers(env.additional_framework_parameters)
    usable = [key for key in _RUNNERS if key in asked]
    for key in [*usable[1:], *(key for key in asked if key not in _RUNNERS)]:
        reason = f"{usable[0]} comes first" if key in _RUNNERS else "PyTorch images have no such launcher"
        logger.warning("%s is not acted upon: %s", key, reason)
    if not usable or env.current_instance_group not in env.distribution_instance_groups:
        return runner.ProcessRunnerType
    return _RUNNERS[usable[0]]


def _set_defaults(env: Environment, runner_type: runner.RunnerType) -> None:
    """Variables for the script, whatever starts it. What the user set stays."""
    interface = env.network_interface_name
    defaults = {"NCCL_IB_DISABLE": "1", "NCCL_DEBUG": "WARN"}
    if fabric.interface_exists(interface):
        defaults["NCCL_SOCKET_IFNAME"] = interface
    if runner_type in (runner.ProcessRunnerType, runner.MPIRunnerType):
        # torchrun gives its ranks these two itself.
        defaults.update({"MASTER_ADDR": env.master_hostname, "MASTER_PORT": MASTER_PORT})
    for name, value in defaults.items():
        os.environ.setdefault(name, value)


def _refuse_model_parallel(env: Environment) -> None:
    if env.is_modelparallel_enabled and not _is_installed("smdistributed.modelparallel"):
        raise errors.ClientError(
            "The hyperparameter mp_parameters asks for smdistributed.modelparallel, which is proprietary and not in "
            "this image. Use torch.distributed.fsdp, or tensor parallelism of torch.distributed, with "
            "distribution={'torch_distributed': {'enabled': True}}."
        )


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False


def _torch_version() -> Mapping[str, str]:
    """The version of the image's PyTorch, without the seconds that importing it takes; nothing where it has none."""
    spec = importlib.util.find_spec("torch")
    places: List[str] = list(spec.submodule_search_locations or []) if spec else []
    version: Optional[str] = next(filter(None, map(_version_in, places)), None)
    return {TORCH_VERSION_ENV: version} if version else {}


def _version_in(folder: str) -> Optional[str]:
    try:
        with open(os.path.join(folder, "version.py"), encoding="utf-8") as file:
            found = re.search(r"^__version__\s*=\s*['\"](.+?)['\"]", file.read(), re.MULTILINE)
    except OSError:
        return None
    return found[1] if found else None


def _is_gloo_at_exit(error: errors.ExecuteUserScriptError) -> bool:
    """Whether nothing but gloo's end of the interpreter made the script fail."""
    return (
        error.return_code in _ABORTED
        and _GLOO_AT_EXIT in error.output
        and "Traceback (most recent call last)" not in error.output
    )
