"""What the job is: config files, environment and hardware as one read-only mapping."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Mapping, Optional

from sagemaker_training import configs, distribution, errors, hardware, layout, mapping, params
from sagemaker_training.configs import read_hyperparameters, read_input_data_config, read_resource_config
from sagemaker_training.hardware import num_cpus, num_gpus, num_neurons
from sagemaker_training.layout import (
    base_dir,
    channel_path,
    code_dir,
    input_config_dir,
    input_dir,
    model_dir,
    output_data_dir,
    output_dir,
    output_intermediate_dir,
)

__all__ = [
    "Environment",
    "base_dir",
    "channel_path",
    "code_dir",
    "input_config_dir",
    "input_dir",
    "model_dir",
    "num_cpus",
    "num_gpus",
    "num_neurons",
    "output_data_dir",
    "output_dir",
    "output_intermediate_dir",
    "read_hyperparameters",
    "read_input_data_config",
    "read_resource_config",
    "write_env_vars",
]

DEFAULT_LOG_LEVEL = 20
DEFAULT_INTERFACE = "eth0"
DEFAULT_INSTANCE_TYPE = "local"


class Environment(mapping.MappingMixin):
    """The properties of a job, by attribute or by name.

    Each argument replaces a config file. Raises ClientError, naming the file, where a config is wrong.
    """

    def __init__(
        self,
        resource_config: Optional[Mapping[str, Any]] = None,
        input_data_config: Optional[Mapping[str, Any]] = None,
        hyperparameters: Optional[Mapping[str, Any]] = None,
    ) -> None:
        self._resource_config = dict(configs.read_resource_config() if resource_config is None else resource_config)
        configs.check_resource_config(self._resource_config)
        channels = configs.read_input_data_config() if input_data_config is None else input_data_config
        self._input_data_config = dict(channels)
        raw = configs.read_hyperparameters() if hyperparameters is None else hyperparameters
        self._user, self._known, self._framework = mapping.split_hyperparameters(raw)
        self._groups = distribution.group_table(self._resource_config.get("instance_groups") or [])

    # Cluster

    @property
    def resource_config(self) -> Dict[str, Any]:
        return self._resource_config

    @property
    def current_host(self) -> str:
        return str(self._resource_config["current_host"])

    @property
    def hosts(self) -> List[str]:
        return list(self._resource_config["hosts"])

    @property
    def network_interface_name(self) -> str:
        return str(self._resource_config.get("network_interface_name") or DEFAULT_INTERFACE)

    @property
    def current_instance_type(self) -> str:
        return str(self._resource_config.get("current_instance_type") or DEFAULT_INSTANCE_TYPE)

    @property
    def current_instance_group(self) -> str:
        return str(self._resource_config.get("current_group_name") or params.DEFAULT_HOMOGENEOUS_GROUP)

    @property
    def current_instance_group_hosts(self) -> List[str]:
        return list(self._groups.get(self.current_instance_group, {}).get("hosts", []))

    @property
    def instance_groups(self) -> List[str]:
        return list(self._groups)

    @property
    def instance_groups_dict(self) -> Dict[str, Dict[str, Any]]:
        return self._groups

    @property
    def is_hetero(self) -> bool:
        return len(self._groups) > 1

    @property
    def topology(self) -> Optional[List[Any]]:
        """Where the hosts stand in an UltraServer; None where the config does not say."""
        return self._resource_config.get("topology")

    # Distribution

    @property
    def distribution_instance_groups(self) -> List[str]:
        return distribution.groups(self._framework, self.current_instance_group)

    @property
    def distribution_hosts(self) -> List[str]:
        return distribution.hosts(self.distribution_instance_groups, self.hosts, self._groups)

    @property
    def master_hostname(self) -> str:
        return distribution.master(self.distribution_hosts, self.hosts)

    @property
    def is_master(self) -> bool:
        return self.current_host == self.master_hostname

    @property
    def is_modelparallel_enabled(self) -> bool:
        asked = os.environ.get(params.MODEL_PARALLEL_ENV) or mapping.encode(self._user.get("mp_parameters"))
        return asked not in ("", "{}")

    @property
    def is_smddprun_installed(self) -> bool:
        return hardware.on_path("smddprun")

    @property
    def is_smddpmprun_installed(self) -> bool:
        return hardware.on_path("smddpmprun")

    # Hardware

    @property
    def num_cpus(self) -> int:
        return hardware.num_cpus()

    @property
    def num_gpus(self) -> int:
        return hardware.num_gpus()

    @property
    def num_neurons(self) -> int:
        return hardware.num_neurons(self.current_instance_type)

    # Folders and channels

    @property
    def model_dir(self) -> str:
        return layout.model_dir

    @property
    def input_dir(self) -> str:
        return layout.input_dir

    @property
    def input_config_dir(self) -> str:
        return layout.input_config_dir

    @property
    def output_dir(self) -> str:
        return layout.output_dir

    @property
    def output_data_dir(self) -> str:
        return layout.output_data_dir

    @property
    def output_intermediate_dir(self) -> str:
        return layout.output_intermediate_dir

    @property
    def input_data_config(self) -> Dict[str, Any]:
        return self._input_data_config

    @property
    def channel_input_dirs(self) -> Dict[str, str]:
        return {name: layout.channel_path(name) for name in self._input_data_config}

    # The script

    @property
    def hyperparameters(self) -> Dict[str, Any]:
        """The user's own: none of the reserved ones."""
        return self._user

    @property
    def additional_framework_parameters(self) -> Dict[str, Any]:
        return self._framework

    @property
    def user_entry_point(self) -> Optional[str]:
        value = os.environ.get(params.USER_PROGRAM_ENV) or self._known.get(params.USER_PROGRAM_PARAM)
        return None if value is None else str(value)

    @property
    def module_name(self) -> Optional[str]:
        name = self.user_entry_point
        return name[: -len(".py")] if name and name.endswith(".py") else name

    @property
    def module_dir(self) -> str:
        """Where the source comes from; the code folder when nothing says."""
        value = self._known.get(params.SUBMIT_DIR_PARAM) or os.environ.get(params.SUBMIT_DIR_ENV)
        return str(value or layout.code_dir)

    @property
    def framework_module(self) -> Optional[str]:
        return os.environ.get(params.FRAMEWORK_TRAINING_MODULE_ENV)

    @property
    def job_name(self) -> Optional[str]:
        """None outside a SageMaker job."""
        return os.environ.get(params.TRAINING_JOB_ENV)

    @property
    def log_level(self) -> int:
        value = self._known.get(params.LOG_LEVEL_PARAM)
        if value is None:
            value = configs.decode(os.environ.get(params.LOG_LEVEL_ENV, str(DEFAULT_LOG_LEVEL)))
        try:
            return int(value)
        except (TypeError, ValueError):
            raise errors.ClientError(
                f"Hyperparameter {params.LOG_LEVEL_PARAM} must be a number such as 20 (INFO), it is {value!r}."
            ) from None

    # Methods, so that what they give stays out of the mapping

    def sagemaker_s3_output(self) -> Optional[str]:
        value = self._known.get(params.S3_OUTPUT_LOCATION_PARAM) or os.environ.get(params.S3_OUTPUT_LOCATION_ENV)
        return str(value) if value else None

    def to_cmd_args(self) -> List[str]:
        """The script's arguments: the given vector, else options made of the hyperparameters."""
        argv = self._framework.get(params.ARGV_PARAM)
        if argv is None:
            return mapping.to_cmd_args(self._user)
        if not isinstance(argv, list) or not all(isinstance(argument, str) for argument in argv):
            raise errors.ClientError(
                f"Hyperparameter {params.ARGV_PARAM} must be a JSON list of strings, it is {json.dumps(argv)}."
            )
        return list(argv)

    def to_env_vars(self) -> Dict[str, str]:
        """Every variable that the script is promised."""
        return env_vars(self, self.to_cmd_args())

    def job_variables(self) -> Dict[str, str]:
        """The variables that are not named ``SM_*``."""
        region = self._known.get(params.REGION_NAME_PARAM)
        return {
            params.CURRENT_HOST_ENV: self.current_host,
            params.JOB_NAME_ENV: mapping.encode(self._known.get(params.JOB_NAME_PARAM)),
            params.REGION_NAME_ENV: mapping.encode(
                region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
            ),
        }


def env_vars(environment: Environment, arguments: List[str], masked: Any = None) -> Dict[str, str]:
    """The variables of an environment. masked: a copy of its properties to use instead, for the log."""
    properties = dict(environment) if masked is None else masked
    topology = properties.get("topology")
    named = {
        "channel_input_dirs": properties["channel_input_dirs"],
        "hyperparameters": properties["hyperparameters"],
        "user_args": arguments,
        "framework_params": properties["additional_framework_parameters"],
        "training_env": properties,
        **{name: properties[name] for name in _VARIABLES},
        **({"topology": topology} if topology is not None else {}),
    }
    return {**mapping.to_env_vars(named), **environment.job_variables()}


# Properties that have a variable of their own name.
_VARIABLES = (
    "current_host",
    "current_instance_group",
    "current_instance_group_hosts",
    "current_instance_type",
    "distribution_instance_groups",
    "framework_module",
    "hosts",
    "input_config_dir",
    "input_data_config",
    "input_dir",
    "instance_groups",
    "instance_groups_dict",
    "is_hetero",
    "log_level",
    "model_dir",
    "module_dir",
    "module_name",
    "network_interface_name",
    "num_cpus",
    "num_gpus",
    "num_neurons",
    "output_data_dir",
    "output_dir",
    "output_intermediate_dir",
    "resource_config",
    "user_entry_point",
)


def write_env_vars(env_vars: Optional[Mapping[str, str]] = None) -> None:
    """Sets variables for this process and those it starts. Raises ClientError for one that no system can hold."""
    for name, value in (env_vars or {}).items():
        try:
            os.environ[name] = value
        except (ValueError, OSError) as error:
            raise errors.ClientError(f"{name}={value!r} cannot be an environment variable: {error}.") from error
