"""Models on AWS Neuron devices, where the package optimum-neuron is installed: then every model goes through it.

Only the rules are tested: there is no such device, and no such package, where this is built.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sagemaker_inference.settings import SettingsError

from sagemaker_huggingface_inference_toolkit.settings import BATCH_SIZE, SEQUENCE_LENGTH, HuggingFaceSettings

#: The tasks that optimum-neuron has pipelines for.
TASKS = (
    "feature-extraction",
    "fill-mask",
    "question-answering",
    "sentence-embeddings",
    "text-classification",
    "text-generation",
    "token-classification",
)
_DEVICES = "/dev"


def is_there() -> bool:
    """Whether optimum-neuron can be imported."""
    try:
        return importlib.util.find_spec("optimum.neuron") is not None
    except ModuleNotFoundError:
        return False


def cores(environ: Mapping[str, str]) -> int:
    """Neuron cores of the container: NEURON_RT_NUM_CORES, else two for each device."""
    given = environ.get("NEURON_RT_NUM_CORES", "")
    if given.isdecimal() and int(given):
        return int(given)
    devices = [name for name in os.listdir(_DEVICES) if name.startswith("neuron") and name[6:].isdecimal()]
    return 2 * len(devices)


def worker_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """What the server must find in the environment: one worker for each core, one core for each worker."""
    found = {"NEURON_RT_NUM_CORES": "1"}
    count = cores(environ)
    if count and not environ.get("SAGEMAKER_MODEL_SERVER_WORKERS"):
        found["SAGEMAKER_MODEL_SERVER_WORKERS"] = str(count)
    return found


def shapes(model_dir: str, settings: HuggingFaceSettings) -> dict[str, int] | None:
    """The shapes to compile the model for; None where it is compiled already. Raises SettingsError."""
    path = Path(model_dir) / "config.json"
    config = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    compiled = config.get("neuron") or {}
    if compiled.get("static_batch_size") and compiled.get("static_sequence_length"):
        return None
    if settings.optimum_sequence_length is None:
        raise SettingsError(
            f"{SEQUENCE_LENGTH} is not set: the model is not compiled yet, and that is done for texts of one length. "
            f"Set it, and {BATCH_SIZE} (1) with it."
        )
    return {"batch_size": settings.optimum_batch_size, "sequence_length": settings.optimum_sequence_length}


def pipeline(task: str, model_dir: str, settings: HuggingFaceSettings) -> Any:
    """The pipeline of optimum-neuron. Raises SettingsError for a task that it does not have."""
    if task not in TASKS:
        raise SettingsError(f"HF_TASK={task} cannot run on Neuron devices; these can: {', '.join(TASKS)}.")
    wanted = shapes(model_dir, settings)
    from optimum.neuron.pipelines import pipeline as make

    more = {"export": True, "input_shapes": wanted} if wanted else {}
    return make(task, model=model_dir, **more)
