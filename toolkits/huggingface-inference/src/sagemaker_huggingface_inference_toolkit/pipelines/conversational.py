"""The task ``conversational``, which the library dropped: a chat of its text-generation pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sagemaker_huggingface_inference_toolkit.pipelines.source import Source

#: For models older than chat templates: turns end with the model's end token, as DialoGPT was trained.
_PLAIN_TEMPLATE = "{% for message in messages %}{{ message.content }}{{ eos_token }}{% endfor %}"


class Conversation:
    """Called with ``{text, past_user_inputs, generated_responses}``, or with chat messages.

    Gives ``{generated_text, conversation: {past_user_inputs, generated_responses}}``, whose lists hold the new turn
    too, so that they can be sent back with the next text.
    """

    def __init__(self, task: str, source: Source) -> None:
        from sagemaker_huggingface_inference_toolkit import transformers_utils

        self.task = task
        self._generate = transformers_utils.library_pipeline("text-generation", source)
        self.tokenizer, self.model = self._generate.tokenizer, self._generate.model
        if not getattr(self.tokenizer, "chat_template", None):
            self.tokenizer.chat_template = _PLAIN_TEMPLATE

    def __call__(self, inputs: Any, **parameters: Any) -> Any:
        """parameters: arguments of ``generate``. Raises ValueError for what is no conversation."""
        if isinstance(inputs, list) and not _are_messages(inputs):
            return [self(item, **parameters) for item in inputs]
        users, answers = _turns(inputs)
        messages = []
        for place, text in enumerate(users):
            messages.append({"role": "user", "content": text})
            if place < len(answers):
                messages.append({"role": "assistant", "content": answers[place]})
        result = self._generate(messages, **{**parameters, "return_full_text": False})
        text = result[0]["generated_text"]
        if isinstance(text, list):  # of messages
            text = text[-1]["content"]
        return {
            "generated_text": text,
            "conversation": {"past_user_inputs": users, "generated_responses": [*answers, text]},
        }


def _are_messages(inputs: list[Any]) -> bool:
    return bool(inputs) and all(isinstance(item, Mapping) and "role" in item for item in inputs)


def _turns(inputs: Any) -> tuple[list[str], list[str]]:
    """What the user said, the new text last, and what the model answered."""
    if isinstance(inputs, str):
        inputs = {"text": inputs}
    if isinstance(inputs, list):
        users = [message.get("content", "") for message in inputs if message["role"] == "user"]
        return users, [message.get("content", "") for message in inputs if message["role"] == "assistant"]
    if not isinstance(inputs, Mapping) or not isinstance(inputs.get("text"), str):
        raise ValueError("inputs must be {text, past_user_inputs, generated_responses}, or a list of chat messages")
    users, answers = (list(inputs.get(name) or []) for name in ("past_user_inputs", "generated_responses"))
    if len(users) != len(answers) or not all(isinstance(text, str) for text in (*users, *answers)):
        raise ValueError("past_user_inputs and generated_responses must be lists of texts, of the same length")
    return [*users, inputs["text"]], answers
