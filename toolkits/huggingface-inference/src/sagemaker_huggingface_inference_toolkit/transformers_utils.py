"""Pipelines by task, the library's where it has one. transformers and PyTorch are imported on first use."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sagemaker_huggingface_inference_toolkit import pipelines, tasks
from sagemaker_huggingface_inference_toolkit.pipelines.source import Source
from sagemaker_huggingface_inference_toolkit.settings import strtobool
from sagemaker_huggingface_inference_toolkit.tasks import ARCHITECTURES_2_TASK

__all__ = [
    "ARCHITECTURES_2_TASK",
    "get_pipeline",
    "infer_task_from_hub",
    "infer_task_from_model_architecture",
    "strtobool",
]

Pipeline = Callable[..., Any]
"""Called with a request's inputs, and its parameters as keywords."""


def get_pipeline(task: str, device: Any, model_dir: str | os.PathLike[str], **kwargs: Any) -> Pipeline:
    """The pipeline of a task for a model folder.

    device: a torch.device, its name, or the number of a GPU, -1 for the CPU.
    kwargs: device_map and trust_remote_code.
    Raises TaskError for a task that nothing here serves.
    """
    task = tasks.canonical(task)
    if isinstance(device, int) and importlib.util.find_spec("torch") is not None:
        import torch

        device = torch.device("cpu" if device < 0 else f"cuda:{device}")
    source = Source(os.fspath(model_dir), device, **kwargs)
    library = library_tasks()
    tasks.check(task, tasks.known(library, pipelines.OWN))
    if tasks.base(task) in library:
        made: Pipeline = library_pipeline(task, source)
        return made
    return pipelines.make(task, source)


def library_tasks() -> frozenset[str]:
    """The tasks of the installed transformers."""
    from transformers.pipelines import SUPPORTED_TASKS

    return frozenset(SUPPORTED_TASKS)


def library_pipeline(task: str, source: Source) -> Any:
    """A pipeline of transformers. It loads what the task needs beside the model from the same folder."""
    from transformers import pipeline

    # Never both: the library refuses a device beside a map.
    place: dict[str, Any] = {"device": source.device}
    if source.device_map is not None:
        place = {"device_map": source.device_map}
    if importlib.util.find_spec("torch") is None:
        # transformers 4.57 looks a type up in PyTorch, whether it is there or not.
        place["dtype"] = None
    return pipeline(task, model=source.folder, trust_remote_code=source.trust_remote_code, **place)


def infer_task_from_model_architecture(model_config_path: str | os.PathLike[str], architecture_index: int = 0) -> str:
    """The task of the folder that a config.json lies in. Raises TaskError.

    architecture_index is kept for callers that pass it; the first architecture counts.
    """
    return tasks.infer(str(Path(model_config_path).parent), tasks.known(library_tasks(), pipelines.OWN))


def infer_task_from_hub(model_id: str, revision: str | None = None, use_auth_token: str | bool | None = None) -> str:
    """The task that a repository's page on the hub names. Raises ValueError where it names none."""
    from huggingface_hub import HfApi

    info = HfApi().model_info(model_id, revision=revision, token=use_auth_token)
    if info.pipeline_tag is None:
        raise ValueError(f"The hub names no task for {model_id}: set HF_TASK.")
    return str(info.pipeline_tag)
