"""MXNet's parameter servers: a scheduler on the first host, a server on each, and the script as worker.

Rules: docs/contract/mxnet-training.md, rows mxnet-ps-*.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import Any, Dict, Mapping, Sequence

from sagemaker_training import errors, process

from sagemaker_mxnet_container.training_utils import scheduler_host

PORT_KEY = "_ps_port"
VERBOSE_KEY = "_ps_verbose"

# Importing mxnet in a process with one of these roles serves until the workers are done.
_SERVE = "import mxnet"


def variables(hosts: Sequence[str], hyperparameters: Mapping[str, Any]) -> Dict[str, str]:
    """The variables of all roles but the role. Raises ClientError for a port or a level that is none."""
    return {
        "DMLC_NUM_WORKER": str(len(hosts)),
        "DMLC_NUM_SERVER": str(len(hosts)),
        "DMLC_PS_ROOT_URI": _address(scheduler_host(hosts)),
        "DMLC_PS_ROOT_PORT": _number(hyperparameters, PORT_KEY, 8000, 1, 65535),
        "PS_VERBOSE": _number(hyperparameters, VERBOSE_KEY, 0, 0, 2),
    }


def start(hosts: Sequence[str], current: str, shared: Mapping[str, str]) -> None:
    """Starts what serves on this host, and makes the script a worker. The servers end with the job."""
    roles = ["scheduler"] if current == scheduler_host(hosts) else []
    for role in [*roles, "server"]:
        environment = {**os.environ, **shared, "DMLC_ROLE": role}
        process.start_service([sys.executable, "-c", _SERVE], env=environment)
    os.environ.update(shared, DMLC_ROLE="worker")


def _address(host: str) -> str:
    try:
        # ps-lite wants an IPv4 address.
        return socket.gethostbyname(host)
    except OSError as error:
        raise errors.ClientError(f"The host of the scheduler, {host}, has no address: {error}.") from error


def _number(hyperparameters: Mapping[str, Any], key: str, default: int, least: int, most: int) -> str:
    value = hyperparameters.get(key, default)
    if isinstance(value, bool) or not str(value).isdigit() or not least <= int(value) <= most:
        raise errors.ClientError(
            f"Hyperparameter {key} must be a whole number from {least} to {most}, it is {value!r}."
        )
    return str(value)
