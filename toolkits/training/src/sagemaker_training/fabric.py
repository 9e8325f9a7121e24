"""The network of distributed jobs: what the instance types have, as data, and the variables that follow from it."""

from __future__ import annotations

import os
from typing import Dict, Tuple

# Family -> sizes with an Elastic Fabric Adapter that a training job sees.
_EFA: Dict[str, Tuple[str, ...]] = {
    "g4dn": ("8xlarge", "12xlarge"),
    "g5": ("48xlarge",),
    "g6": ("48xlarge",),
    "g6e": ("48xlarge",),
    "p3dn": ("24xlarge",),
    "p4d": ("24xlarge",),
    "p4de": ("24xlarge",),
    "p5": ("48xlarge",),
    "p5e": ("48xlarge",),
    "p5en": ("48xlarge",),
    "p6-b200": ("48xlarge",),
    "p6-b300": ("48xlarge",),
    "p6e-gb200": ("36xlarge",),
    "trn1": ("32xlarge",),
    "trn1n": ("32xlarge",),
    "trn2": ("48xlarge",),
}

# Of these, the families whose devices reach each other's memory over it.
_RDMA = ("p4d", "p4de", "p5", "p5e", "p5en", "p6-b200", "p6-b300", "p6e-gb200", "trn1", "trn1n", "trn2")


def has_efa(instance_type: str) -> bool:
    """Whether an instance type (``ml.p4d.24xlarge``) has an Elastic Fabric Adapter."""
    family, size = _parts(instance_type)
    return size in _EFA.get(family, ())


def has_rdma(instance_type: str) -> bool:
    """Whether its devices reach other hosts' memory through the adapter."""
    return has_efa(instance_type) and _parts(instance_type)[0] in _RDMA


def _parts(instance_type: str) -> Tuple[str, str]:
    words = instance_type.split(".")
    return (words[1], words[2]) if len(words) == 3 and words[0] == "ml" else ("", "")


def efa_variables(instance_type: str) -> Dict[str, str]:
    """What libfabric must be told on an instance type; nothing where it has no adapter."""
    variables = {}
    if has_efa(instance_type):
        variables["FI_PROVIDER"] = "efa"
    if has_rdma(instance_type):
        variables.update({"FI_EFA_USE_DEVICE_RDMA": "1", "RDMAV_FORK_SAFE": "1"})
    return variables


def interface_exists(name: str) -> bool:
    """Whether this host has the network interface. Configs may name one that a container does not get."""
    return os.path.isdir(os.path.join("/sys/class/net", name))
