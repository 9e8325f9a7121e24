"""Pipelines of our own, for tasks that the installed library does not have, or no longer.

Transformers 5 removed question-answering, summarization, translation, text2text-generation, image-to-text,
image-to-image and visual-question-answering; conversational went before. Each class is made with a task and a Source,
and called as the library's pipelines are: ``pipeline(inputs, **parameters)``.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

from sagemaker_huggingface_inference_toolkit import tasks
from sagemaker_huggingface_inference_toolkit.pipelines.source import Source

_PACKAGE = "sagemaker_huggingface_inference_toolkit.pipelines"

#: Task -> module and class; a module is imported for its task only.
OWN: Mapping[str, tuple[str, str]] = {
    "conversational": ("conversational", "Conversation"),
    "image-to-image": ("images", "ImageToImage"),
    "image-to-text": ("images", "ImageToText"),
    "question-answering": ("question_answering", "QuestionAnswering"),
    "sentence-embeddings": ("sentence_embeddings", "SentenceEmbeddings"),
    "summarization": ("text2text", "Text2Text"),
    "text2text-generation": ("text2text", "Text2Text"),
    "text-to-image": ("text_to_image", "TextToImage"),
    "translation": ("text2text", "Text2Text"),
    "visual-question-answering": ("images", "VisualQuestionAnswering"),
}


def make(task: str, source: Source) -> Callable[..., Any]:
    """The pipeline of a task in OWN, with its model loaded. Raises ImportError without PyTorch."""
    if importlib.util.find_spec("torch") is None:
        raise ImportError(f"{task} needs PyTorch, which this image does not have: choose one on a PyTorch stack.")
    module, name = OWN[tasks.base(task)]
    made: Callable[..., Any] = getattr(importlib.import_module(f"{_PACKAGE}.{module}"), name)(task, source)
    return made
