"""Values between the request, the model and the answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any


def from_array(value: Any, *, as_float: bool) -> Any:
    """A tensor of a decoded request. as_float: float32 whatever the numbers were, as JSON and CSV are read.

    Raises TypeError for what holds anything but numbers.
    """
    import numpy
    import torch

    array = numpy.asarray(value)
    if array.dtype.kind not in "biuf" + ("" if as_float else "c"):
        raise TypeError(f"a model takes numbers, and these are {_named(array)}")
    if as_float:
        array = array.astype(numpy.float32, copy=False)
    elif not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if not array.flags.writeable or any(stride < 0 for stride in array.strides):
        array = array.copy()  # a model may write into its input
    return torch.from_numpy(array)


def _named(array: Any) -> str:
    if array.dtype.names:
        return f"columns of different types ({', '.join(str(array.dtype[name]) for name in array.dtype.names)})"
    return {"U": "texts", "S": "bytes", "O": "objects"}.get(array.dtype.kind, f"of type {array.dtype}")


def to_device(value: Any, device: Any) -> Any:
    """The same value with everything that can be moved on a device; also inside tuples, lists and dicts."""
    return _mapped(value, lambda item: item.to(device) if hasattr(item, "to") else item)


def to_ordinary(value: Any) -> Any:
    """The same value without inference tensors, which a user's output_fn could not change in place."""
    return _mapped(value, lambda item: item.clone() if getattr(item, "is_inference", bool)() else item)


def to_arrays(value: Any) -> Any:
    """The same value with numpy arrays for tensors; also inside tuples, lists, dicts and dataclasses."""
    return _mapped(value, _to_array)


def _to_array(item: Any) -> Any:
    import torch

    if not isinstance(item, torch.Tensor):
        return item
    item = item.detach()
    if item.is_quantized:
        item = item.dequantize()
    if item.layout is not torch.strided:
        item = item.to_dense()
    item = item.cpu().resolve_conj().resolve_neg()
    if item.dtype is torch.bfloat16 or (item.dtype.is_floating_point and item.dtype.itemsize == 1):
        item = item.float()  # numpy has neither
    return item.numpy()


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """change: applied to whatever is no container. Named tuples stay what they are, dicts keep their order."""
    changed = change(value)
    if changed is not value:
        return changed
    if isinstance(value, Mapping):
        items = {key: _mapped(item, change) for key, item in value.items()}
        return items if any(items[key] is not item for key, item in value.items()) else value
    if isinstance(value, (tuple, list)):
        parts = [_mapped(item, change) for item in value]
        if all(part is item for part, item in zip(parts, value, strict=True)):
            return value
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _mapped(getattr(value, field.name), change) for field in dataclasses.fields(value)}
    return value
