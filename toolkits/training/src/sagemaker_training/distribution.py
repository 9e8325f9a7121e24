"""Which hosts take part in a distributed run, who leads them, and how many processes each starts.

Rules: docs/contract/training.md, rows distribution-*.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping, Sequence

from sagemaker_training import configs, errors, params


def enabled(key: str, framework_parameters: Mapping[str, Any]) -> bool:
    """Whether a launcher is asked for: by hyperparameter, else by the variable of the same name in capitals."""
    value = framework_parameters.get(key)
    if value is None:
        value = configs.decode(os.environ.get(key.upper(), ""))
    if isinstance(value, str):
        # Callers that send "True" mean true, although it is no JSON.
        return value.strip().lower() == "true"
    return bool(value)


def launchers(framework_parameters: Mapping[str, Any]) -> List[str]:
    """The launcher keys that are on, in order of precedence."""
    return [key for key in params.LAUNCH_ENV_NAMES if enabled(key, framework_parameters)]


def groups(framework_parameters: Mapping[str, Any], current_group: str) -> List[str]:
    """Names of the instance groups that take part."""
    chosen = framework_parameters.get(params.DISTRIBUTION_INSTANCE_GROUPS)
    if chosen is None:
        return [current_group] if launchers(framework_parameters) else []
    if not isinstance(chosen, list) or not all(isinstance(name, str) for name in chosen):
        raise errors.ClientError(
            f"Hyperparameter {params.DISTRIBUTION_INSTANCE_GROUPS} must be a list of group names, it is {chosen!r}."
        )
    return list(chosen)


def hosts(
    chosen_groups: Sequence[str], all_hosts: Sequence[str], group_table: Mapping[str, Mapping[str, Any]]
) -> List[str]:
    """Hosts of the chosen groups in config order; all hosts where the config has no groups (local mode)."""
    if not group_table:
        return list(all_hosts)
    unknown = [name for name in chosen_groups if name not in group_table]
    if unknown:
        raise errors.ClientError(
            f"Hyperparameter {params.DISTRIBUTION_INSTANCE_GROUPS} names {', '.join(unknown)}; "
            f"this job has the groups {', '.join(sorted(group_table))}."
        )
    return [host for name, group in group_table.items() if name in chosen_groups for host in group["hosts"]]


def group_table(groups_config: Sequence[Mapping[str, Any]]) -> Dict[str, Dict[str, Any]]:
    """Group name -> group object, in config order."""
    return {group["instance_group_name"]: dict(group) for group in groups_config}


def master(distribution_hosts: Sequence[str], all_hosts: Sequence[str]) -> str:
    """The first host of the run, else the first host of the job."""
    return (distribution_hosts or all_hosts)[0]


def processes_per_host(framework_parameters: Mapping[str, Any], num_gpus: int, num_neurons: int) -> int:
    """What the job asks for, else one per GPU, else one per Neuron core, else one."""
    asked = framework_parameters.get(params.MPI_PROCESSES_PER_HOST)
    if asked is None:
        return num_gpus or num_neurons or 1
    try:
        count = int(asked)
    except (TypeError, ValueError):
        count = 0
    if count < 1:
        raise errors.ClientError(
            f"Hyperparameter {params.MPI_PROCESSES_PER_HOST} must be a whole number from 1, it is {asked!r}."
        )
    return count
