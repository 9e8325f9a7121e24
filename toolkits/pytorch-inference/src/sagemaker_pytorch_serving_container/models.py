"""The default model of a model folder: which file it is, and how PyTorch loads it.

Rules: docs/contract/pytorch-inference.md, rows load-*.
"""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

from sagemaker_pytorch_serving_container import mapping
from sagemaker_pytorch_serving_container.archives import Archive, Kind, identify

DEFAULT_NAME = "model.pt"
SUFFIXES = (".pt", ".pth", ".pt2")

_OWN = "in code/inference.py"
_LISTED = 20


class ModelLoadError(Exception):
    """The default model_fn cannot load what is there. The text says what the file is and what to do."""


def find(model_dir: str) -> Path:
    """``model.pt``, else the only file at the top of the folder that ends in .pt, .pth or .pt2.

    Raises ValueError, which lists what is there, where that names no file.
    """
    folder = Path(model_dir)
    entries = sorted(folder.iterdir()) if folder.is_dir() else []
    # A Mac's tar adds a file "._model.pt" for each.
    visible = [entry for entry in entries if not entry.name.startswith(".")]
    candidates = [entry for entry in visible if entry.suffix in SUFFIXES and entry.is_file()]
    default = folder / DEFAULT_NAME
    if default in candidates:
        return default
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        names = ", ".join(entry.name for entry in candidates)
        raise ValueError(
            f"{folder} has {len(candidates)} files that could be the model: {names}. Name the one to serve "
            f"{DEFAULT_NAME}, or load them yourself with a model_fn {_OWN}."
        )
    raise ValueError(_nothing_to_load(folder, visible))


def _nothing_to_load(folder: Path, entries: list[Path]) -> str:
    wanted = f"{DEFAULT_NAME}, or exactly one file that ends in {', '.join(SUFFIXES)}"
    if not entries:
        return f"{folder} {'is empty' if folder.is_dir() else 'does not exist'}: there is no model. Expected: {wanted}."
    names = ", ".join(entry.name + ("/" if entry.is_dir() else "") for entry in entries[:_LISTED])
    text = f"{folder} has no model at top level, only: {names}. Expected: {wanted}; or a model_fn {_OWN}."
    if len(entries) == 1 and entries[0].is_dir() and entries[0].name != "code":
        text += f" Was the archive packed with the folder {entries[0].name} around it? Pack its contents instead."
    if any(entry.suffix == ".safetensors" for entry in entries):
        text += f" {_safetensors_advice()}"
    return text


def load(path: Path, device: Any) -> Any:
    """The model in a file, on a torch.device and ready to predict. Raises ModelLoadError."""
    archive = identify(path)
    if archive.kind is Kind.TORCHSCRIPT:
        return _load_script(path, device)
    if archive.kind is Kind.EXPORTED:
        return _load_exported(path, device)
    raise ModelLoadError(
        f"{path} is neither TorchScript nor an exported program: it is {archive.description}. {_advice(archive)}"
    )


def _advice(archive: Archive) -> str:
    name = archive.path.name
    if archive.kind is Kind.SAFETENSORS:
        return _safetensors_advice()
    if archive.kind is Kind.COMPILED:
        return (
            "It is native code, which is not run by default: load it with torch._inductor.aoti_load_package in a "
            f"model_fn {_OWN}."
        )
    if archive.kind is Kind.PICKLED:
        return (
            f"Build the model in a model_fn(model_dir) {_OWN} and fill it from there with "
            f"sagemaker_pytorch_serving_container.weights.load(os.path.join(model_dir, {name!r}), model), or save it "
            "with torch.jit.script(model).save(...) or torch.export.save(...) and serve that file."
        )
    return (
        "Save the model again with torch.jit.script(model).save(...) or torch.export.save(...), and compare the file's "
        "size."
    )


def _safetensors_advice() -> str:
    return (
        "Safetensors files hold weights without a model: build the model in a model_fn(model_dir) "
        f"{_OWN} and fill it with sagemaker_pytorch_serving_container.weights.load(path, model)."
    )


def _load_script(path: Path, device: Any) -> Any:
    import torch

    try:
        model = torch.jit.load(str(path), map_location=device)
    except RuntimeError as error:
        raise ModelLoadError(f"{path} is TorchScript that cannot be loaded: {_reason(error)}") from error
    model = model.eval()
    if device.type == "cpu":
        mapping.share(model, path)
    return model


def _reason(error: RuntimeError) -> str:
    """The first line, and what helps where operators are missing."""
    text = str(error).strip()
    first = text.splitlines()[0] if text else type(error).__name__
    if "Unknown builtin op: " not in text:
        return first
    operator = text.split("Unknown builtin op: ", 1)[1].split()[0].rstrip(".")
    library = operator.split("::")[0]
    return (
        f"its operator {operator} is not registered. Import the library that has it ({library}?) {_OWN}, and install "
        "it from code/requirements.txt where the image lacks it."
    )


def _load_exported(path: Path, device: Any) -> Any:
    import torch

    _refuse_pickles(path)
    try:
        # PyTorch wants the name to end in .pt2; an open file may have any.
        with path.open("rb") as file:
            program = torch.export.load(io.BytesIO(file.read()) if path.suffix != ".pt2" else str(path))
    except (RuntimeError, ValueError, AssertionError) as error:
        raise ModelLoadError(
            f"{path} is an exported program that PyTorch {torch.__version__} cannot load: {error}. Export it again "
            "with this version, or choose the image of the version it was made with."
        ) from error
    if device.type == "cpu":
        model = program.module()
        mapping.share(model, path)
        return model
    # Constants in the program's code name their device too, which moving the module alone would miss.
    from torch.export.passes import move_to_device_pass

    return move_to_device_pass(program, device).module()


def _refuse_pickles(path: Path) -> None:
    """torch.export.load unpickles some members without asking; what is more than tensors could run code."""
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            inner = name if name.startswith("serialized_") else name.split("/", 1)[-1]
            if inner.startswith("data/") and inner.endswith("_config.json"):
                pickled = [entry for entry in _payloads(archive.read(name)) if _is_pickled(entry)]
                if pickled:
                    raise ModelLoadError(_unsafe(path, inner, f"{len(pickled)} pickled object(s)"))
            elif inner.startswith(("data/", "serialized_")) and inner.endswith(".pt"):
                _refuse_classes(path, inner, archive.read(name))


def _payloads(config: bytes) -> list[dict[str, Any]]:
    entries = json.loads(config).get("config", {})
    return [entry for entry in entries.values() if isinstance(entry, dict)]


def _is_pickled(entry: dict[str, Any]) -> bool:
    return bool(entry.get("use_pickle")) or str(entry.get("path_name", "")).startswith("opaque_obj")


def _refuse_classes(path: Path, member: str, data: bytes) -> None:
    import torch

    if not data or not zipfile.is_zipfile(io.BytesIO(data)):
        return  # JSON, or nothing; torch.load without a zip archive refuses by itself
    foreign = torch.serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(data))
    if foreign:
        raise ModelLoadError(_unsafe(path, member, f"objects of {', '.join(sorted(foreign)[:5])}"))


def _unsafe(path: Path, member: str, what: str) -> str:
    return (
        f"{path} is an exported program with {what} in {member}. Unpickling runs code that the file names, so it is "
        f"not done by default. Where you trust the file, load it in a model_fn {_OWN}: "
        "torch.export.load(path).module()."
    )
