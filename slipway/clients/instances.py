"""What accelerators and networks SageMaker's instances have, and which GPUs an image's CUDA code runs on.

Source: the EC2 instance type pages, NVIDIA's table of compute capabilities, and the release notes of CUDA 13.0, which
ended the architectures before Turing (sm_75).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# Compute capability times ten, by the instance's family.
_GPUS: dict[str, tuple[str, int]] = {
    "p2": ("K80", 37),
    "p3": ("V100", 70),
    "p3dn": ("V100", 70),
    "p4d": ("A100", 80),
    "p4de": ("A100", 80),
    "p5": ("H100", 90),
    "p5e": ("H200", 90),
    "p5en": ("H200", 90),
    "p6-b200": ("B200", 100),
    "p6-b300": ("B300", 103),
    "p6e-gb200": ("GB200", 100),
    "g4dn": ("T4", 75),
    "g5": ("A10G", 86),
    "g6": ("L4", 89),
    "gr6": ("L4", 89),
    "g6e": ("L40S", 89),
    "g7e": ("RTX PRO 6000", 120),
}
# Sizes with an Elastic Fabric Adapter, by family; the toolkit inside the images has the same table.
_EFA: dict[str, str] = {
    "g4dn": "8xlarge 12xlarge",
    "g5": "48xlarge",
    "g6": "48xlarge",
    "g6e": "48xlarge",
    "p3dn": "24xlarge",
    "p4d": "24xlarge",
    "p4de": "24xlarge",
    "p5": "48xlarge",
    "p5e": "48xlarge",
    "p5en": "48xlarge",
    "p6-b200": "48xlarge",
    "p6-b300": "48xlarge",
    "p6e-gb200": "36xlarge",
    "trn1": "32xlarge",
    "trn1n": "32xlarge",
    "trn2": "48xlarge",
}
_BF16, _FP8, _FP16 = 80, 89, 70
_OTHER = ("trn", "inf", "dl", "g4ad")


@dataclass(frozen=True)
class Gpu:
    """An NVIDIA GPU: its name, and its compute capability times ten (70 for sm_70)."""

    name: str
    capability: int

    @property
    def architecture(self) -> str:
        return f"sm_{self.capability}"

    def trains_in(self, precision: str) -> bool:
        """Whether its tensor cores know a number format; on others it is slow, or fails."""
        return self.capability >= {"fp16": _FP16, "bf16": _BF16, "fp8": _FP8}.get(precision, 0)


def family(instance_type: str) -> str:
    """`ml.p3.16xlarge` -> `p3`; empty for anything else."""
    found = re.fullmatch(r"ml\.([a-z0-9-]+)\.[a-z0-9-]+", instance_type)
    return found[1] if found else ""


def gpu(instance_type: str) -> Gpu | None:
    """The GPU of an instance type; None where it has none of NVIDIA's."""
    found = _GPUS.get(family(instance_type))
    return Gpu(*found) if found else None


def cpu_only(instance_type: str) -> bool:
    """Whether an instance type is known to have no accelerator at all."""
    name = family(instance_type)
    return bool(name) and name not in _GPUS and not name.startswith(_OTHER) and name[0] in "cmrt"


def efa(instance_type: str) -> bool:
    """Whether hosts of an instance type reach each other over an Elastic Fabric Adapter."""
    return instance_type.rpartition(".")[2] in _EFA.get(family(instance_type), "").split()


def runs(found: Gpu, architectures: tuple[str, ...], cuda: str) -> bool:
    """Whether CUDA code runs on a GPU.

    `architectures` are what an image's label names (`sm_80`, `compute_90`); code for sm_80 runs on every sm_8x from
    there on, code that is kept as PTX (`compute_90`) on every later GPU. Without them only what `cuda` ("13.0") rules
    out is known.
    """
    if architectures:
        return any(_covers(each, found.capability) for each in architectures)
    return not (cuda and int(cuda.split(".")[0]) >= 13 and found.capability < 75)


def _covers(architecture: str, capability: int) -> bool:
    match = re.fullmatch(r"(sm|compute)_(\d+)[af]?", architecture)
    if match is None:
        return False
    made_for = int(match[2])
    if match[1] == "compute":
        return capability >= made_for
    return capability // 10 == made_for // 10 and capability >= made_for
