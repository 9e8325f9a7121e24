"""For a user's ``model_fn``: fills a model from a file of weights.

    from sagemaker_pytorch_serving_container import weights

    def model_fn(model_dir):
        return weights.load(os.path.join(model_dir, "model.safetensors"), Net())

The file is mapped into memory, not copied: workers of one container share what they only read. Nothing is unpickled but
tensors and plain containers, unless the caller says so.
"""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from sagemaker_pytorch_serving_container.archives import BEFORE_ZIP, Archive, Kind, identify
from sagemaker_pytorch_serving_container.models import ModelLoadError

M = TypeVar("M")

_INDEX = ".index.json"
_SHOWN = 8


def load(
    path: str | os.PathLike[str],
    model: M,
    *,
    key: str | None = None,
    prefix: str = "",
    strict: bool = True,
    device: Any = "cpu",
    allow_unpickling: bool = False,
) -> M:
    """The model (an nn.Module, which may be on the meta device), filled from a file and set to evaluation mode.

    path, allow_unpickling: as for `read`.
    key: where a checkpoint holds the state dict, such as "model_state_dict"; None when it is one.
    prefix: taken off the names of the weights, such as "module." of DataParallel.
    strict: whether names that only one side has are an error.
    Weights keep the types of the model. Raises ModelLoadError.
    """
    state = read(path, device=device, allow_unpickling=allow_unpickling)
    if key is not None:
        state = _inside(path, state, key)
    module: Any = model
    state = {name.removeprefix(prefix): value for name, value in state.items()}
    own = module.state_dict()
    for name, value in state.items():
        if name in own and hasattr(value, "to"):
            state[name] = value.to(own[name].dtype)
    try:
        # Assigned, not copied: a copy would be each worker's own.
        module.load_state_dict(state, strict=strict, assign=True)
    except RuntimeError as error:
        raise ModelLoadError(_mismatch(path, state, own, error)) from error
    module.eval()
    return model


def read(path: str | os.PathLike[str], *, device: Any = "cpu", allow_unpickling: bool = False) -> dict[str, Any]:
    """What a file of torch.save or safetensors holds, by name; an index (``….index.json``) stands for all its shards.

    allow_unpickling: whether the file may name any class, and so run any code, when it is read. Only for files that
    you made yourself.
    Raises ModelLoadError, and FileNotFoundError.
    """
    file = Path(path)
    if file.name.endswith(_INDEX):
        return _read_shards(file, device, allow_unpickling)
    archive = identify(file)
    if archive.kind is Kind.SAFETENSORS:
        return _read_safetensors(file, device)
    if archive.kind is not Kind.PICKLED:
        raise ModelLoadError(f"{file} holds no weights by name, it is {archive.description}. {_advice(archive)}")
    content = _read_pickled(archive, device, allow_unpickling)
    if callable(getattr(content, "state_dict", None)):
        content = content.state_dict()
    if not isinstance(content, Mapping):
        raise ModelLoadError(f"{file} holds a {type(content).__name__}, not weights by name: save model.state_dict().")
    return dict(content)


def _advice(archive: Archive) -> str:
    if archive.kind in (Kind.TORCHSCRIPT, Kind.EXPORTED):
        return "It is a whole model: the default model_fn serves it, or load it with PyTorch's own function."
    return "Save the weights with torch.save(model.state_dict(), path) or safetensors.torch.save_file."


def _read_safetensors(file: Path, device: Any) -> dict[str, Any]:
    try:
        from safetensors.torch import load_file
    except ImportError as error:
        raise ModelLoadError(
            f"{file.name} needs the package safetensors, which is not installed: name it in code/requirements.txt."
        ) from error
    loaded: dict[str, Any] = load_file(file, device=str(device))
    return loaded


def _read_pickled(archive: Archive, device: Any, allow_unpickling: bool) -> Any:
    import torch

    mapped = archive.detail != BEFORE_ZIP  # files from before PyTorch 1.6 cannot be mapped
    try:
        return torch.load(archive.path, map_location=device, weights_only=not allow_unpickling, mmap=mapped)
    except pickle.UnpicklingError as error:
        raise ModelLoadError(
            f"{archive.path} holds more than tensors; it is {archive.description}. Unpickling runs code that the file "
            "names, so it is not done by default. Save model.state_dict() alone; or, where you made the file yourself, "
            "pass allow_unpickling=True."
        ) from error


def _read_shards(index: Path, device: Any, allow_unpickling: bool) -> dict[str, Any]:
    try:
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise ModelLoadError(f"{index} is no index of shards: it needs a JSON object with a weight_map.") from error
    outside = [name for name in names if Path(name).name != name]
    missing = [name for name in names if name not in outside and not (index.parent / name).is_file()]
    if outside or missing:
        raise ModelLoadError(f"{index} names shards that are not beside it: {', '.join(outside + missing)}.")
    state: dict[str, Any] = {}
    for name in names:
        state.update(read(index.parent / name, device=device, allow_unpickling=allow_unpickling))
    return state


def _inside(path: str | os.PathLike[str], state: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = state.get(key)
    if not isinstance(found, Mapping):
        raise ModelLoadError(f"{path} has no state dict at {key!r}; its keys are {_some(state)}.")
    return dict(found)


def _mismatch(path: Any, state: Mapping[str, Any], own: Mapping[str, Any], error: RuntimeError) -> str:
    text = f"{path} does not fit the model: {str(error).strip()}"
    inner = [name for name, value in state.items() if isinstance(value, Mapping) and set(value) & set(own)]
    if inner:
        return f"{text} The weights are inside {inner[0]!r}: pass key={inner[0]!r}."
    for name in state:
        end = next((known for known in own if name != known and name.endswith("." + known)), None)
        if end is not None:
            return f"{text} Its names have something before the model's: pass prefix={name.removesuffix(end)!r}."
    return text


def _some(names: Mapping[str, Any]) -> str:
    listed = ", ".join(map(repr, list(names)[:_SHOWN]))
    return listed + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
