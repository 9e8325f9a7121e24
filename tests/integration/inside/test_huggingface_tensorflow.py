"""Checks of the Hugging Face toolkit in an image with TensorFlow and without PyTorch. See run.py."""

from __future__ import annotations

import json
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tiny
import transformers
from serving import Folder, failing

SERVICE = "sagemaker_huggingface_inference_toolkit.handler_service"


def classifier() -> Folder:
    folder = Folder()
    labels = {0: "NEGATIVE", 1: "POSITIVE"}
    config = transformers.BertConfig(vocab_size=len(tiny.vocabulary()), **tiny.SMALL, id2label=labels)
    model = transformers.TFBertForSequenceClassification(config)
    model(model.dummy_inputs)
    model.save_pretrained(folder.model)
    tiny.tokenizer().save_pretrained(folder.model)
    return folder


def test_a_model_of_tensorflow_is_served() -> None:
    served = classifier().load(SERVICE)
    answers = served.ask(json.dumps({"inputs": ["my dog", "a cat"]})).json
    assert [set(answer) for answer in answers] == [{"label", "score"}] * 2
    too_long = served.ask(json.dumps({"inputs": "my dog " * 60}))
    assert too_long.status == 400
    assert "122 tokens is longer than the 64" in too_long.message


def test_a_task_that_needs_pytorch_says_so() -> None:
    with failing(ImportError, "sentence-embeddings needs PyTorch"):
        classifier().load(SERVICE, HF_TASK="sentence-embeddings")
