"""The config files that the platform writes under ``input/config``."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Mapping

from sagemaker_training import errors, layout, settings


def read_hyperparameters() -> Dict[str, Any]:
    """Hyperparameters, each decoded once, from ``hyperparameters.json``; ``{}`` without the file."""
    return {key: decode(value) for key, value in _read(layout.HYPERPARAMETERS_FILE, {}).items()}


def decode(value: Any) -> Any:
    """A hyperparameter as Python value.

    SDKs encode each value as JSON, other callers send plain text. Text that is no JSON is itself,
    and so both callers' strings arrive alike.
    """
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def read_input_data_config() -> Dict[str, Any]:
    """Channels from ``inputdataconfig.json``; ``{}`` without the file."""
    return _read(layout.INPUT_DATA_CONFIG_FILE, {})


def read_resource_config() -> Dict[str, Any]:
    """The cluster from ``resourceconfig.json``. Raises ClientError without the file."""
    if settings.default_resource_config():
        return _read(layout.RESOURCE_CONFIG_FILE, {"current_host": "algo-1", "hosts": ["algo-1"]})
    path = config_path(layout.RESOURCE_CONFIG_FILE)
    if not os.path.exists(path):
        raise errors.ClientError(
            f"{path} is missing: SageMaker writes it into every training container, with at least current_host and "
            f"hosts. Mount it, or set {settings.DEFAULT_RESOURCE_CONFIG}=true to run as the single host algo-1."
        )
    return _read(layout.RESOURCE_CONFIG_FILE, {})


def config_path(name: str) -> str:
    return os.path.join(layout.input_config_dir, name)


def _read(name: str, default: Dict[str, Any]) -> Dict[str, Any]:
    path = config_path(name)
    try:
        with open(path, encoding="utf-8-sig") as file:
            content = json.load(file)
    except FileNotFoundError:
        return default
    except ValueError as error:
        raise errors.ClientError(f"{path} is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise errors.ClientError(f"{path} must hold a JSON object, not {type(content).__name__}.")
    return content


def check_resource_config(config: Mapping[str, Any]) -> None:
    """Raises one ClientError that names every fault of the cluster description."""
    faults: List[str] = []
    hosts = config.get("hosts")
    current = config.get("current_host")
    if not _strings(hosts) or not hosts:
        faults.append(f"hosts must be a list of host names, it is {hosts!r}")
    if not isinstance(current, str) or not current:
        faults.append(f"current_host must be a host name, it is {current!r}")
    elif not faults and hosts is not None and current not in hosts:
        faults.append(f"current_host {current!r} is not one of hosts {hosts}")
    faults += _group_faults(config.get("instance_groups"))
    if faults:
        raise errors.ClientError(f"{config_path(layout.RESOURCE_CONFIG_FILE)}: " + "; ".join(faults) + ".")


def _group_faults(groups: Any) -> List[str]:
    if groups is None:
        return []
    if not isinstance(groups, list):
        return [f"instance_groups must be a list, it is {groups!r}"]
    return [
        f"instance_groups[{index}] needs instance_group_name and a list of hosts"
        for index, group in enumerate(groups)
        if not isinstance(group, dict)
        or not isinstance(group.get("instance_group_name"), str)
        or not _strings(group.get("hosts"))
    ]


def _strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
