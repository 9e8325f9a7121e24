"""A process-group backend named ``smddp``, on NCCL where there are GPUs and on gloo elsewhere.

It stands in for the module of this name in Amazon's proprietary library, which has the same interface: importing it
is what makes ``torch.distributed.init_process_group("smddp")`` work. The numbers are those of NCCL or gloo, the speed
too.
"""

import datetime
import os
import sys
from typing import Any

import torch
import torch.distributed as dist

_said = False


def _create(store: Any, rank: int, size: int, timeout: datetime.timedelta) -> Any:
    """A process group of ``size`` ranks. Says once per job which transport carries it."""
    transport = "nccl" if torch.cuda.is_available() and dist.is_nccl_available() else "gloo"
    _say(rank, transport)
    if transport == "nccl":
        return dist.ProcessGroupNCCL(store, rank, size, _nccl_options(timeout))
    return dist.ProcessGroupGloo(store, rank, size, timeout=timeout)


def _nccl_options(timeout: datetime.timedelta) -> Any:
    options = dist.ProcessGroupNCCL.Options()
    options._timeout = timeout
    return options


def _say(rank: int, transport: str) -> None:
    global _said
    if rank == 0 and not _said and os.environ.get("RANK", "0") == "0":
        sys.stderr.write(
            f"smdistributed.dataparallel is not in this image: its backend smddp runs over {transport} instead.\n"
        )
    _said = True


# Without the devices torch would ask for the backend of CPU tensors elsewhere, and warn.
dist.Backend.register_backend("smddp", _create, devices=["cpu", "cuda"])
