"""Models that read an image: captions, answers to questions about it, and images from images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sagemaker_huggingface_inference_toolkit.pipelines import generation
from sagemaker_huggingface_inference_toolkit.pipelines.source import Source

_USUAL = {"max_new_tokens": 256}


class _ImageModel:
    def __init__(self, task: str, source: Source) -> None:
        from transformers import AutoImageProcessor

        self.task = task
        self.image_processor = source.part(AutoImageProcessor)

    def _pixels(self, image: Any, timeout: float | None) -> dict[str, Any]:
        """The tensors that the model takes for an image, a PIL image or the address of one."""
        from transformers.image_utils import load_image

        processed = self.image_processor(images=load_image(image, timeout=timeout), return_tensors="pt")
        return {name: self._placed(value) for name, value in processed.items()}

    def _placed(self, value: Any) -> Any:
        if not hasattr(value, "to"):
            return value
        model = self.model  # type: ignore[attr-defined]
        return value.to(model.device, model.dtype) if value.is_floating_point() else value.to(model.device)


class ImageToText(_ImageModel):
    """Called with an image, its address, or a list of them; gives ``[{generated_text}]`` for each."""

    def __init__(self, task: str, source: Source) -> None:
        import transformers
        from transformers import AutoTokenizer

        super().__init__(task, source)
        self.tokenizer = source.part(AutoTokenizer)
        auto = getattr(transformers, "AutoModelForImageTextToText", None) or transformers.AutoModelForVision2Seq
        self.model = source.model(auto)
        self._standing = generation.arguments(self.model, self.tokenizer, _USUAL, source.task_parameters(task))

    def __call__(
        self,
        inputs: Any,
        *,
        prompt: str | None = None,
        timeout: float | None = None,
        generate_kwargs: Mapping[str, Any] | None = None,
        batch_size: int = 1,
        **asked: Any,
    ) -> Any:
        """asked: arguments of the model's ``generate``, which generate_kwargs may hold as well."""
        wanted = generation.merged(self._standing, {**(generate_kwargs or {}), **asked})
        if isinstance(inputs, (list, tuple)):
            return [self._caption(image, prompt, timeout, wanted) for image in inputs]
        return self._caption(inputs, prompt, timeout, wanted)

    def _caption(
        self, image: Any, prompt: str | None, timeout: float | None, wanted: dict[str, Any]
    ) -> list[dict[str, str]]:
        import torch

        batch = {**self._pixels(image, timeout), **({} if prompt is None else self._prompt(prompt))}
        with torch.inference_mode():
            generated = self.model.generate(**batch, **wanted)
        texts = self.tokenizer.batch_decode(generated, skip_special_tokens=True)
        return [{"generated_text": text} for text in texts]

    def _prompt(self, prompt: str) -> dict[str, Any]:
        if self.model.config.model_type == "vision-encoder-decoder":
            raise ValueError("this model takes no prompt: it is a vision-encoder-decoder")
        git = self.model.config.model_type == "git"  # its texts begin with the class token and have no end
        encoded = self.tokenizer(prompt, return_tensors="pt", add_special_tokens=not git)
        if git:
            import torch

            start = torch.tensor([[self.tokenizer.cls_token_id]])
            encoded = {"input_ids": torch.cat([start, encoded["input_ids"]], dim=1)}
        return {name: self._placed(value) for name, value in encoded.items() if name != "token_type_ids"}


class VisualQuestionAnswering(_ImageModel):
    """Called with ``{image, question}``, a list of such dicts, or both as keywords.

    Gives a list of ``{score, answer}``, best first, or of ``{answer}`` where the model generates it.
    """

    def __init__(self, task: str, source: Source) -> None:
        from transformers import AutoModelForVisualQuestionAnswering, AutoTokenizer

        super().__init__(task, source)
        self.tokenizer = source.part(AutoTokenizer)
        self.model = source.model(AutoModelForVisualQuestionAnswering)
        self._standing: dict[str, Any] = {}
        if self.model.can_generate():
            self._standing = generation.arguments(self.model, self.tokenizer, _USUAL, source.task_parameters(task))

    def __call__(
        self,
        inputs: Any = None,
        *,
        image: Any = None,
        question: str | list[str] | None = None,
        top_k: int = 5,
        padding: Any = False,
        truncation: Any = False,
        timeout: float | None = None,
        batch_size: int = 1,
    ) -> Any:
        """Raises ValueError where the image or the question is missing."""
        if question is not None:
            inputs = {"image": inputs if image is None else image, "question": question}
        pairs = _pairs(inputs)
        answers = []
        for picture, asked in pairs:
            encoded = self.tokenizer(asked, return_tensors="pt", padding=padding, truncation=truncation)
            batch = {**{name: self._placed(value) for name, value in encoded.items()}, **self._pixels(picture, timeout)}
            answers.append(self._answers(batch, top_k))
        return answers if isinstance(inputs, (list, tuple)) or len(answers) > 1 else answers[0]

    def _answers(self, batch: dict[str, Any], top_k: int) -> list[dict[str, Any]]:
        import torch

        with torch.inference_mode():
            if self.model.can_generate():
                generated = self.model.generate(**batch, **self._standing)
                texts = self.tokenizer.batch_decode(generated, skip_special_tokens=True)
                return [{"answer": text.strip()} for text in texts]
            scores, ids = self.model(**batch).logits[0].float().sigmoid().topk(min(top_k, self.model.config.num_labels))
        names = self.model.config.id2label
        return [
            {"score": score, "answer": names[place]} for score, place in zip(scores.tolist(), ids.tolist(), strict=True)
        ]


class ImageToImage(_ImageModel):
    """Called with an image, its address, or a list of them; gives a PIL image for each."""

    def __init__(self, task: str, source: Source) -> None:
        from transformers import AutoModelForImageToImage

        super().__init__(task, source)
        self.model = source.model(AutoModelForImageToImage)

    def __call__(self, inputs: Any, *, timeout: float | None = None, batch_size: int = 1) -> Any:
        if isinstance(inputs, (list, tuple)):
            return [self._changed(image, timeout) for image in inputs]
        return self._changed(inputs, timeout)

    def _changed(self, image: Any, timeout: float | None) -> Any:
        import torch
        from PIL import Image

        with torch.inference_mode():
            output = self.model(**self._pixels(image, timeout)).reconstruction[0]
        pixels = output.float().cpu().clamp(0, 1).mul(255).round().to(torch.uint8)
        return Image.fromarray(pixels.permute(1, 2, 0).numpy())


def _pairs(inputs: Any) -> list[tuple[Any, str]]:
    """Images with their questions; one image may have several. Raises ValueError."""
    found: list[tuple[Any, str]] = []
    for item in inputs if isinstance(inputs, (list, tuple)) else [inputs]:
        if not isinstance(item, Mapping) or item.get("image") is None or not item.get("question"):
            raise ValueError("inputs must be {image, question}, or a list of such objects")
        questions = item["question"] if isinstance(item["question"], list) else [item["question"]]
        if not all(isinstance(question, str) for question in questions):
            raise ValueError("question must be a text")
        found += [(item["image"], question) for question in questions]
    return found
