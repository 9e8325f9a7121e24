"""The launcher for smdistributed data parallel, and for jobs of accelerate that ask for it: torchrun.

Amazon's library is proprietary. Where it is installed it is used, under torchrun, as it allows since its version 1.4.
Where it is not, the PyTorch toolkit stands in for it with a process-group backend of the same name.

Rules: docs/contract/pytorch-training.md, rows smddp-*.
"""

from __future__ import annotations

import os
import shlex
from typing import Dict, List, Tuple

from sagemaker_training import errors, modules, params, process
from sagemaker_training.logs import logger
from sagemaker_training.torch_distributed import TorchDistributedRunner

_ACCELERATE_TYPE_ENV = "ACCELERATE_SAGEMAKER_DISTRIBUTED_TYPE"


class SMDataParallelRunner(TorchDistributedRunner):
    """Runs the entry point through torchrun, with what scripts for smdistributed data parallel expect."""

    def check(self) -> None:
        if not modules.exists("torch"):
            raise errors.ClientError(
                f"{params.LAUNCH_SMDATAPARALLEL_ENV_NAME} needs PyTorch, which this image does not have. In TensorFlow "
                "use distribution={'multi_worker_mirrored_strategy': {'enabled': True}} or MPI instead."
            )
        super().check()
        if self.job.num_gpus == 0 and os.environ.get(_ACCELERATE_TYPE_ENV, "NO") != "NO":
            logger.info("no GPU on this host: accelerate runs as under torchrun, on the CPU, over gloo")

    def defaults(self) -> Dict[str, str]:
        return {**super().defaults(), **self._options()[0]}

    def environ(self) -> Dict[str, str]:
        variables = super().environ()
        if self.job.num_gpus == 0 and variables.get(_ACCELERATE_TYPE_ENV, "NO") != "NO":
            # accelerate takes smdistributed to mean GPUs and divides by their number. The client of the job set
            # its type; nobody set it for hosts without GPUs.
            variables[_ACCELERATE_TYPE_ENV] = "NO"
            variables["ACCELERATE_USE_CPU"] = "true"
        return variables

    def launch(self) -> process.Outcome:
        ignored = self._options()[1]
        if ignored:
            logger.warning(
                "%s: not used, since the job runs under torchrun and not mpirun: %s",
                params.SMDATAPARALLEL_CUSTOM_OPTIONS,
                " ".join(ignored),
            )
        return super().launch()

    def _options(self) -> Tuple[Dict[str, str], List[str]]:
        """Variables that the job's options for mpirun set (``-x NAME=VALUE``), and the other options."""
        text = str(self.job.additional_framework_parameters.get(params.SMDATAPARALLEL_CUSTOM_OPTIONS) or "")
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise errors.ClientError(f"{params.SMDATAPARALLEL_CUSTOM_OPTIONS}={text!r}: {error}.") from error
        variables: Dict[str, str] = {}
        rest: List[str] = []
        while words:
            word = words.pop(0)
            name, _, value = words[0].partition("=") if word == "-x" and words else ("", "", "")
            if name:
                words.pop(0)
                # Without a value it passes on a variable, which every child inherits anyway.
                variables.update({name: value} if value else {})
            else:
                rest.append(word)
        return variables, rest
