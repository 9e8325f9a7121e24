"""What scripts import by these names: the device, the shapes of a model's inputs, the types of an Accept header."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from sagemaker_inference.utils import parse_accept

__all__ = ["get_default_context", "parse_accept", "read_data_shapes"]

#: CUDA's own: empty or -1 keeps a model off the GPUs.
VISIBLE_ENV = "CUDA_VISIBLE_DEVICES"


def get_default_context(properties: Mapping[str, Any] | None = None) -> Any:
    """The mx.Context of this worker: the GPU that the server gave it, else the first, else the CPU.

    properties: ``context.system_properties``; their ``gpu_id`` wraps around where there are fewer GPUs.
    """
    import mxnet as mx

    hidden = os.environ.get(VISIBLE_ENV, "all") in ("", "-1")
    count = 0 if hidden else mx.context.num_gpus()
    if not count:
        return mx.cpu()
    number = (properties or {}).get("gpu_id")
    return mx.gpu(int(number) % count if number is not None and str(number) != "" else 0)


def read_data_shapes(path: str, preferred_batch_size: int = 1) -> tuple[list[str], list[tuple[str, tuple[int, ...]]]]:
    """Names and shapes of a model's inputs, from ``model-shapes.json``; each shape begins with the batch size.

    Raises ValueError, which names the file and the entry.
    """
    with open(path, encoding="utf-8") as file:
        try:
            entries = json.load(file)
        except ValueError as error:
            raise ValueError(f"{path} is no JSON: {error}.") from error
    if not isinstance(entries, list) or not entries:
        raise ValueError(f'{path} must hold a list of {{"name": …, "shape": […]}}, one for each input of the model.')
    wrong = [f"entry {number} is {json.dumps(entry)}" for number, entry in enumerate(entries) if not _is_shape(entry)]
    if wrong:
        raise ValueError(
            f'{path} must hold a list of {{"name": text, "shape": [whole numbers, the batch first]}}; '
            f"{'; '.join(wrong)}."
        )
    shapes = [(entry["name"], (preferred_batch_size, *entry["shape"][1:])) for entry in entries]
    return [name for name, _ in shapes], shapes


def _is_shape(entry: Any) -> bool:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        return False
    shape = entry.get("shape")
    return isinstance(shape, list) and bool(shape) and all(type(size) is int and size >= 0 for size in shape)
