"""Arguments of ``generate``: what the request says, else the model's author, else the task's usual ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: The library's own default length, which says nothing about what a model's author wanted.
_UNSET_LENGTHS = (None, 20)


def arguments(model: Any, tokenizer: Any, usual: Mapping[str, Any], recorded: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that hold for every request of a model.

    usual: the task's, for what neither the model's generation_config nor recorded (its task_specific_params) says.
    """
    config = model.generation_config
    found = {**usual, **recorded}
    if "max_new_tokens" not in recorded and (
        config.max_new_tokens is not None
        or config.max_length not in _UNSET_LENGTHS
        or recorded.get("max_length") is not None
    ):
        found.pop("max_new_tokens", None)
    if "num_beams" not in recorded and config.num_beams not in (None, 1):
        found.pop("num_beams", None)
    if config.pad_token_id is None and getattr(tokenizer, "pad_token_id", None) is not None:
        found["pad_token_id"] = tokenizer.pad_token_id
    return found


def merged(standing: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of one request. A length that it names in one way is not contradicted in another."""
    kept = dict(standing)
    if "max_length" in asked or "max_new_tokens" in asked:
        kept.pop("max_length", None)
        kept.pop("max_new_tokens", None)
    return {**kept, **asked}
