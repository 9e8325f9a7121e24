"""The launcher for PyTorch/XLA: torchrun, on a torch_xla that has PJRT.

The launcher that torch_xla once brought (xla_spawn, with the XRT runtime) left it with version 2. Where an image has
none that can be used, the job ends with the reason on every host.

Rules: docs/contract/pytorch-training.md, rows xla-*.
"""

from __future__ import annotations

import importlib.util
import os
from typing import Dict

from sagemaker_training import errors, params
from sagemaker_training.torch_distributed import TorchDistributedRunner


class PyTorchXLARunner(TorchDistributedRunner):
    """Runs the entry point through torchrun, with the PJRT device of this host."""

    def check(self) -> None:
        reason = _missing()
        if reason:
            raise errors.SMTrainingCompilerConfigurationError(
                f"{params.LAUNCH_PYTORCH_XLA_ENV_NAME}: {reason} Install torch_xla 2 or newer, or use "
                f"distribution={{'torch_distributed': {{'enabled': True}}}} without XLA."
            )
        super().check()

    def defaults(self) -> Dict[str, str]:
        gpus = self.job.num_gpus
        device = "CUDA" if gpus else "NEURON" if self.job.num_neurons else "CPU"
        return {**super().defaults(), "PJRT_DEVICE": device, **({"GPU_NUM_DEVICES": str(gpus)} if gpus else {})}


def _missing() -> str:
    """Why this image cannot run XLA; empty when it can. Nothing is imported: that alone may take the devices."""
    spec = importlib.util.find_spec("torch_xla")
    if spec is None or not spec.submodule_search_locations:
        return "torch_xla is not installed in this image."
    # PJRT's interface; before it there was XRT only.
    if not any(os.path.exists(os.path.join(folder, "runtime.py")) for folder in spec.submodule_search_locations):
        return "the torch_xla of this image has no PJRT runtime."
    return ""
