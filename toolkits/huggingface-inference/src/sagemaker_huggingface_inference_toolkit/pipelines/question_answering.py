"""Extractive question answering: the span of a context that answers a question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sagemaker_huggingface_inference_toolkit.pipelines.source import Source

_NAMES = ("question", "context")
_MASKED = -10000.0
#: More than any product of two probabilities.
_NO_NULL_SCORE = 1000000.0


class QuestionAnswering:
    """Called with ``{question, context}`` or a list of such dicts, or with both as keywords.

    One question gives ``{score, start, end, answer}``, several a list; with top_k above 1 each gives a list.
    """

    def __init__(self, task: str, source: Source) -> None:
        from transformers import AutoModelForQuestionAnswering, AutoTokenizer

        self.task = task
        self.tokenizer = source.part(AutoTokenizer)
        if not self.tokenizer.is_fast:
            raise ValueError(
                f"question-answering needs a fast tokenizer, which {type(self.tokenizer).__name__} is not: add a "
                "tokenizer.json to the model, or give a predict_fn in code/inference.py."
            )
        self.model = source.model(AutoModelForQuestionAnswering)

    def __call__(
        self,
        inputs: Any = None,
        *,
        question: str | Sequence[str] | None = None,
        context: str | Sequence[str] | None = None,
        top_k: int = 1,
        topk: int | None = None,
        doc_stride: int | None = None,
        max_answer_len: int = 15,
        max_seq_len: int | None = None,
        max_question_len: int = 64,
        handle_impossible_answer: bool = False,
        align_to_words: bool = True,
        padding: Any = False,
        batch_size: int = 1,
    ) -> Any:
        """Parameters as the library's last pipeline had them; batch_size and padding change no answer, nor does
        max_question_len, which its fast tokenizers never used. Raises ValueError."""
        top_k = topk or top_k
        if top_k < 1 or max_answer_len < 1:
            raise ValueError("top_k and max_answer_len must be at least 1")
        pairs = _pairs({"question": question, "context": context} if inputs is None else inputs)
        answers = []
        for asked, text in pairs:
            spans = self._spans(asked, text, max_seq_len, doc_stride)
            found = self._answers(spans, text, top_k, max_answer_len, handle_impossible_answer, align_to_words)
            answers.append(found[0] if len(found) == 1 else found)
        return answers[0] if len(answers) == 1 else answers

    def _spans(self, question: str, context: str, max_seq_len: int | None, doc_stride: int | None) -> Any:
        """The question with each part of the context that fits beside it, tokenized."""
        length = max_seq_len or min(self.tokenizer.model_max_length, 384)
        stride = min(length // 2, 128) if doc_stride is None else doc_stride
        if stride > length:
            raise ValueError(f"doc_stride {stride} is above max_seq_len {length}")
        first = self._question_first
        return self.tokenizer(
            *((question, context) if first else (context, question)),
            truncation="only_second" if first else "only_first",
            max_length=length,
            stride=stride,
            return_token_type_ids=True,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )

    @property
    def _question_first(self) -> bool:
        return bool(self.tokenizer.padding_side == "right")

    def _answers(
        self, spans: Any, context: str, top_k: int, longest: int, impossible: bool, align: bool
    ) -> list[dict[str, Any]]:
        null_score = _NO_NULL_SCORE
        answers: dict[str, dict[str, Any]] = {}  # by their text, whatever its case
        for index in range(len(spans["input_ids"])):
            encoding = spans.encodings[index]
            start, end, allowed = self._probabilities(encoding, spans, index)
            if impossible:
                null_score = min(null_score, float(start[0] * end[0]))
            # The first token stands for "no answer" and is none itself.
            start[0] = end[0] = 0.0
            # Some candidates become one when they are widened to words.
            count = top_k * 2 + 10 if align else top_k
            for first, last, score in _best(start, end, allowed, longest, count):
                begin, stop = self._characters(encoding, first, last, align)
                text = context[begin:stop]
                same = answers.setdefault(text.lower(), {"score": 0.0, "start": begin, "end": stop, "answer": text})
                same["score"] += score
        found = list(answers.values())
        if impossible:
            found.append({"score": null_score, "start": 0, "end": 0, "answer": ""})
        return sorted(found, key=lambda answer: -answer["score"])[:top_k]

    def _probabilities(self, encoding: Any, spans: Any, index: int) -> tuple[Any, Any, Any]:
        """For each token: the probability that an answer starts or ends there, and whether it may be part of one."""
        import torch

        names = [name for name in self.tokenizer.model_input_names if name in spans]
        batch = {name: torch.tensor([spans[name][index]], device=self.model.device) for name in names}
        with torch.inference_mode():
            output = self.model(**batch)
        tokens = spans["input_ids"][index]
        side = 1 if self._question_first else 0
        inside = torch.tensor([sequence == side for sequence in encoding.sequence_ids])
        scored = inside.clone()
        if self.tokenizer.cls_token_id is not None:
            scored |= torch.tensor([token == self.tokenizer.cls_token_id for token in tokens])

        def softmax(logits: Any) -> Any:
            return logits[0].float().cpu().masked_fill(~scored, _MASKED).softmax(-1)

        return softmax(output["start_logits"]), softmax(output["end_logits"]), scored

    def _characters(self, encoding: Any, first: int, last: int, align: bool) -> tuple[int, int]:
        """Where in the context an answer begins and ends; align: widened to words, where the tokenizer knows them."""
        side = 1 if self._question_first else 0
        words = (encoding.word_ids[first], encoding.word_ids[last])
        if align and None not in words:
            begin, stop = (encoding.word_to_chars(word, side) for word in words)
            if begin and stop:
                return begin[0], stop[1]
        return encoding.offsets[first][0], encoding.offsets[last][1]


def _best(start: Any, end: Any, allowed: Any, longest: int, count: int) -> list[tuple[int, int, float]]:
    """The likeliest pairs of first and last token, at most longest tokens apart, with their probability."""
    import torch

    pairs = torch.outer(start, end).triu().tril(longest - 1)
    scores, places = pairs.flatten().topk(min(count, pairs.numel()))
    found = []
    for score, place in zip(scores.tolist(), places.tolist(), strict=True):
        first, last = divmod(place, pairs.shape[1])
        if allowed[first] and allowed[last]:
            found.append((first, last, score))
    return found


def _pairs(inputs: Any) -> list[tuple[str, str]]:
    """Questions with their contexts. Raises ValueError that says what is missing."""
    listed = inputs if isinstance(inputs, (list, tuple)) else [inputs]
    found: list[tuple[str, str]] = []
    for item in listed:
        if not isinstance(item, Mapping):
            raise ValueError("inputs must be {question, context}, or a list of such objects")
        for name in _NAMES:
            if not item.get(name):
                raise ValueError(f"inputs need a {name}, which must not be empty")
        questions, contexts = ([item[name]] if isinstance(item[name], str) else list(item[name]) for name in _NAMES)
        if len(contexts) == 1:
            contexts *= len(questions)
        if len(questions) != len(contexts):
            raise ValueError(f"there are {len(questions)} questions and {len(contexts)} contexts")
        found += zip(questions, contexts, strict=True)
    if not all(isinstance(text, str) for pair in found for text in pair):
        raise ValueError("question and context must be texts")
    return found
