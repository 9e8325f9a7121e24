"""The device on which a worker computes."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping
from typing import Any

from sagemaker_inference.logging import get_logger
from sagemaker_inference.settings import Settings

logger = get_logger()

ACCELERATOR_ENV = "SAGEMAKER_INFERENCE_ACCELERATOR_PRESENT"
#: CUDA's own: empty or -1 keeps a model off the GPUs.
VISIBLE_ENV = "CUDA_VISIBLE_DEVICES"


def of_worker(properties: Mapping[str, Any]) -> Any:
    """The torch.device of this worker: the GPU that the server gave it, else the first, else the CPU.

    properties: ``context.system_properties``; their ``gpu_id`` (int, text or None) is the place among the visible
    GPUs, and wraps around where there are fewer. Raises ValueError where a model on a GPU would be forked.
    """
    import torch

    if os.environ.get(ACCELERATOR_ENV, "").lower() == "true":
        logger.warning(
            "%s is true, but Elastic Inference is a retired product: the CPU is used.",
            ACCELERATOR_ENV,
        )
        return torch.device("cpu")
    if os.environ.get(VISIBLE_ENV, "all") in ("", "-1"):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        _explain_unused_gpus(torch)
        return torch.device("cpu")
    if Settings.read().preload:
        raise ValueError(
            "SLIPWAY_PRELOAD forks the loaded model, and a GPU's memory cannot be forked: unset it, or keep the model "
            f"off the GPU with {VISIBLE_ENV}=-1."
        )
    wanted = properties.get("gpu_id")
    number = int(wanted) if wanted is not None and str(wanted) != "" else 0
    device = torch.device("cuda", max(number, 0) % torch.cuda.device_count())
    torch.cuda.set_device(device)  # what asks for "cuda" alone means this GPU too
    return device


def _explain_unused_gpus(torch: Any) -> None:
    """A model that silently runs on the CPU of a GPU instance is found out from the bill."""
    gpus = glob.glob("/dev/nvidia[0-9]*")
    if not gpus:
        return
    if torch.version.cuda is None:
        reason = f"PyTorch {torch.__version__} is a build for CPUs: choose the GPU image"
    else:
        reason = (
            f"PyTorch {torch.__version__} with CUDA {torch.version.cuda} cannot use it: compare the driver's version"
        )
    logger.warning("The host has %d GPU(s), and the model runs on the CPU. %s.", len(gpus), reason)


def of_model(model: Any) -> set[Any]:
    """The devices that hold a model's parameters and buffers; empty for what has none, as a frozen TorchScript."""
    found: set[Any] = set()
    for name in ("parameters", "buffers"):
        listed = getattr(model, name, None)
        if callable(listed):
            found.update(tensor.device for tensor in listed())
    return found


def to_eval(model: Any) -> None:
    """Sets evaluation mode, where the model has modes. Exported programs keep the one they were exported in."""
    if callable(getattr(model, "eval", None)):
        try:
            model.eval()
        except NotImplementedError:
            return
