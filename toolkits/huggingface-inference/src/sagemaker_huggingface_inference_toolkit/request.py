"""What a request asks of a pipeline, and whether it or the server is to blame when that fails."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sagemaker_inference import errors

from sagemaker_huggingface_inference_toolkit import tasks

#: What pipelines raise for requests that make no sense to them.
_REQUESTS_FAULTS = (ValueError, TypeError, KeyError)


def split(data: Any) -> tuple[Any, dict[str, Any]]:
    """The pipeline's argument and its keyword arguments of one request. Raises an error of status 400."""
    if not isinstance(data, Mapping):
        return data, {}
    parameters = data.get("parameters")
    if parameters is not None and not isinstance(parameters, Mapping):
        raise errors.GenericInferenceToolkitError(400, "parameters must be a JSON object of names and values.")
    if "inputs" in data:
        return data["inputs"], dict(parameters or {})
    return {name: value for name, value in data.items() if name != "parameters"}, dict(parameters or {})


def check(task: str | None, parameters: Mapping[str, Any]) -> None:
    """Raises an error of status 400 where a parameter is missing without which the task means nothing."""
    if task in tasks.LABELLED_TASKS and not parameters.get("candidate_labels"):
        raise errors.GenericInferenceToolkitError(
            400, f"{task} needs parameters.candidate_labels, a list of texts or a text with commas."
        )


def fault(error: Exception, inputs: Any, pipeline: Any) -> str | None:
    """What is wrong with a request that a pipeline failed on; None where the request is not to blame."""
    if errors.is_out_of_memory(error) or isinstance(error, errors.BaseInferenceToolkitError):
        return None
    if isinstance(error, _REQUESTS_FAULTS) or type(error).__name__ == "PipelineException":
        return f"{type(error).__name__}: {error}"
    limit = _longest(pipeline)
    # What a position beyond the last is called: by PyTorch and numpy, by TensorFlow.
    beyond = isinstance(error, (RuntimeError, IndexError)) or type(error).__name__ == "InvalidArgumentError"
    if beyond and limit is not None:
        length = max((_length(pipeline.tokenizer, text) for text in _texts(inputs)), default=0)
        if length > limit:
            return (
                f"a text of {length} tokens is longer than the {limit} of the model; shorten it, or send "
                'parameters {"truncation": true} where the task has it.'
            )
    return None


def flattened(prediction: Any) -> Any:
    """[texts][tokens][size] of what may be [texts][1][tokens][size], as the library gives it for a list of texts."""
    if isinstance(prediction, list) and all(_is_batch_of_one(item) for item in prediction):
        return [item[0] for item in prediction]
    return prediction


def _is_batch_of_one(item: Any) -> bool:
    return isinstance(item, list) and len(item) == 1 and isinstance(item[0], list) and isinstance(item[0][0], list)


def _longest(pipeline: Any) -> int | None:
    """Tokens that the model takes, as far as its tokenizer and its configuration say."""
    configuration = getattr(getattr(pipeline, "model", None), "config", None)
    lengths = (
        getattr(getattr(pipeline, "tokenizer", None), "model_max_length", None),
        getattr(configuration, "max_position_embeddings", None),
    )
    return min((length for length in lengths if isinstance(length, int) and 0 < length < 1 << 30), default=None)


def _texts(inputs: Any) -> Iterator[str]:
    if isinstance(inputs, str):
        yield inputs
    elif isinstance(inputs, Mapping):
        yield from _texts(list(inputs.values()))
    elif isinstance(inputs, (list, tuple)):
        for item in inputs:
            yield from _texts(item)


def _length(tokenizer: Any, text: str) -> int:
    return len(tokenizer(text)["input_ids"])
