"""Encoder-decoder models: text to text, summaries, translations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sagemaker_huggingface_inference_toolkit import tasks
from sagemaker_huggingface_inference_toolkit.pipelines import generation
from sagemaker_huggingface_inference_toolkit.pipelines.source import Source, texts_of

_USUAL = {"max_new_tokens": 256, "num_beams": 4}
_KEYS = {"text2text-generation": "generated_text", "summarization": "summary_text", "translation": "translation_text"}


class Text2Text:
    """Called with a text or a list of texts.

    A text gives a list of ``{KEY: text}``, one for each sequence asked for; a list gives one dict for each text, or
    one list where several sequences are asked for. KEY is summary_text, translation_text or generated_text.
    """

    def __init__(self, task: str, source: Source) -> None:
        from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

        self.task = task
        self.tokenizer = source.part(AutoTokenizer)
        self.model = source.model(AutoModelForSeq2SeqLM)
        recorded, self._languages = self._recorded(task, source)
        self._prefix = recorded.pop("prefix", None) or source.config().get("prefix") or ""
        self._standing = generation.arguments(self.model, self.tokenizer, _USUAL, recorded)
        self._key = _KEYS[tasks.base(task)]

    def __call__(
        self,
        inputs: str | Sequence[str],
        *,
        batch_size: int = 1,
        truncation: Any = False,
        clean_up_tokenization_spaces: bool = False,
        stop_sequence: str | None = None,
        src_lang: str | None = None,
        tgt_lang: str | None = None,
        **asked: Any,
    ) -> list[Any]:
        """asked: arguments of the model's ``generate``. Raises ValueError and TypeError for what cannot be used."""
        texts = texts_of(inputs)
        if stop_sequence is not None:
            asked["eos_token_id"] = self.tokenizer.encode(stop_sequence, add_special_tokens=False)[0]
        languages = (src_lang or self._languages[0], tgt_lang or self._languages[1])
        answers: list[list[dict[str, str]]] = []
        for start in range(0, len(texts), max(batch_size, 1)):
            batch = [self._prefix + text for text in texts[start : start + max(batch_size, 1)]]
            encoded = self._encode(batch, truncation, *languages)
            answers += self._generate(encoded, len(batch), clean_up_tokenization_spaces, asked)
        if isinstance(inputs, str):
            return answers[0]
        return [answer[0] for answer in answers] if all(len(answer) == 1 for answer in answers) else answers

    def _encode(self, batch: list[str], truncation: Any, source: str | None, target: str | None) -> dict[str, Any]:
        options = {"padding": len(batch) > 1, "truncation": truncation, "return_tensors": "pt"}
        build = getattr(self.tokenizer, "_build_translation_inputs", None)
        if tasks.base(self.task) == tasks.TRANSLATION and build is not None:
            # Tokenizers of many languages: the languages stand in the text, and in the first token that is generated.
            return dict(build(batch, src_lang=source, tgt_lang=target, **options))
        encoded = dict(self.tokenizer(batch, **options))
        encoded.pop("token_type_ids", None)  # encoders and decoders of two models have tokenizers that give them
        return encoded

    def _generate(
        self, encoded: dict[str, Any], count: int, clean: bool, asked: dict[str, Any]
    ) -> list[list[dict[str, str]]]:
        import torch

        on_device = {
            name: value.to(self.model.device) if hasattr(value, "to") else value for name, value in encoded.items()
        }
        with torch.inference_mode():
            generated = self.model.generate(**on_device, **generation.merged(self._standing, asked))
        texts = self.tokenizer.batch_decode(generated, skip_special_tokens=True, clean_up_tokenization_spaces=clean)
        each = len(texts) // count
        return [[{self._key: text} for text in texts[i * each : (i + 1) * each]] for i in range(count)]

    @staticmethod
    def _recorded(task: str, source: Source) -> tuple[dict[str, Any], tuple[str | None, str | None]]:
        """The author's parameters of the task, and its languages.

        Plain ``translation`` takes those of the first pair of languages that the author named.
        """
        recorded = source.task_parameters(task)
        words = task.split("_") if tasks.is_language_pair(task) else []
        if task == tasks.TRANSLATION:
            named = [name for name in source.config().get("task_specific_params") or {} if tasks.is_language_pair(name)]
            if named:
                recorded, words = source.task_parameters(named[0]), named[0].split("_")
        return recorded, (words[1], words[3]) if words else (None, None)
