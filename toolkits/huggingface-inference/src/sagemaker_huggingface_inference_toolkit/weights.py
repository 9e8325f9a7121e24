"""Which files of a repository are not worth a download: weights of other frameworks, and the same weights again."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

_TENSORFLOW = re.compile(r"(^|/)tf_model[^/]*\.h5(\.index\.json)?$")
_OTHER_FRAMEWORKS = re.compile(
    r"(^|/)(onnx|openvino|coreml|tflite|flax|tf|rust|original|gguf)/"
    r"|\.(h5|hdf5|msgpack|ot|onnx|onnx_data|onnx\.data|tflite|gguf|ggml|mlmodel|keras|ckpt|pb)$"
    r"|(^|/)(openvino_model[^/]*|tf_model[^/]*|flax_model[^/]*|saved_model/.*|[^/]*\.(mlpackage|mlmodelc)/.*)$"
)
# The weights in the form in which their makers trained them, beside the library's.
_CONSOLIDATED = re.compile(r"(^|/)consolidated[^/]*\.(pth|safetensors)$")
_SAFETENSORS = re.compile(r"\.safetensors(\.index\.json)?$")
_PICKLED = re.compile(r"(^|/)[^/]*(pytorch_model|adapter_model|model)[^/]*\.(bin|pt|pth)(\.index\.json)?$")
_TRAINING = re.compile(
    r"(^|/)(optimizer\.(pt|bin)|scheduler\.pt|rng_state[^/]*\.pth|training_args\.bin)$|(^|/)checkpoint-\d+/"
)
_VARIANT = re.compile(r"\.(fp16|fp32|bf16|non_ema|int8)[.-]")


def unwanted(files: Iterable[str], *, tensorflow: bool = False) -> list[str]:
    """The files to leave out, of all files of one revision, sorted.

    tensorflow: whether TensorFlow will load them, which takes its own weights, else safetensors.

    Pickled weights are left out of each folder that has safetensors; of diffusers' repositories also the weights at
    top level, which hold the parts in the folders once more. Where no weights of PyTorch would be left, everything is
    wanted: user code may know what to do with the rest.
    """
    names = sorted(files)
    skipped = {name for name in names if _OTHER_FRAMEWORKS.search(name) or _TRAINING.search(name)}
    weights = [name for name in names if name not in skipped and _is_weights(name)]
    own = [name for name in names if _TENSORFLOW.search(name)] if tensorflow else []
    if own:
        return sorted(skipped.difference(own).union(weights))
    if not weights:
        return []
    library = [name for name in weights if not _CONSOLIDATED.search(name)]
    if library:
        skipped.update(name for name in weights if _CONSOLIDATED.search(name))
    diffusion = "model_index.json" in names
    plain = [name for name in library if not _VARIANT.search(name)]
    safe = {_folder(name) for name in plain if _SAFETENSORS.search(name)}
    for name in library:
        folder = _folder(name)
        pickled_again = _PICKLED.search(name) and folder in safe
        variant_again = _VARIANT.search(name) and folder in map(_folder, plain)
        if pickled_again or (diffusion and (folder == "." or variant_again)):
            skipped.add(name)
    return sorted(skipped)


def _is_weights(name: str) -> bool:
    return bool(_SAFETENSORS.search(name) or _PICKLED.search(name) or _CONSOLIDATED.search(name))


def _folder(name: str) -> str:
    return str(PurePosixPath(name).parent)
