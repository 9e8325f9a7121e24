"""``TF_CONFIG``: how the processes of a run find each other.

Rules: docs/contract/tensorflow-training.md, rows tf-config-*.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

MASTER_PORT = 2222
PS_PORT = 2223
MWMS_PORT = 8890


def parameter_server(hosts: Sequence[str], current: str) -> Dict[str, Any]:
    """For the script: the first host is the master, the others are workers, and each host has a parameter server."""
    index = hosts.index(current)
    task = {"index": 0, "type": "master"} if index == 0 else {"index": index - 1, "type": "worker"}
    return {"cluster": parameter_server_cluster(hosts), "environment": "cloud", "task": task}


def parameter_server_cluster(hosts: Sequence[str]) -> Dict[str, List[str]]:
    return {
        "master": _addresses(hosts[:1], MASTER_PORT),
        "worker": _addresses(hosts[1:], MASTER_PORT),
        "ps": _addresses(hosts, PS_PORT),
    }


def mirrored(hosts: Sequence[str], current: str) -> Dict[str, Any]:
    """For MultiWorkerMirroredStrategy: all hosts are workers, the first one leads."""
    return {
        "cluster": {"worker": _addresses(hosts, MWMS_PORT)},
        "environment": "cloud",
        "task": {"index": hosts.index(current), "type": "worker"},
    }


def _addresses(hosts: Sequence[str], port: int) -> List[str]:
    return [f"{host}:{port}" for host in hosts]
