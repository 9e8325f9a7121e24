"""Models of sentence-transformers, and any encoder: one vector for each text.

``modules.json`` lists what follows the encoder: Pooling, Dense and Normalize are applied here. A model with any other
module is refused when it is loaded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sagemaker_huggingface_inference_toolkit.pipelines.source import Source, texts_of

_POOLINGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
_ACTIVATIONS = {"Identity", "Tanh", "ReLU", "GELU", "Sigmoid", "SiLU"}

Step = Callable[[Any, Any], Any]
"""Values and attention mask to values: [texts, tokens, size] or [texts, size] to [texts, size]."""


class SentenceEmbeddings:
    """Called with a text or a list of texts; gives a list of vectors, one for each text."""

    def __init__(self, task: str, source: Source) -> None:
        from transformers import AutoModel, AutoTokenizer

        self.task = task
        folder = Path(source.folder)
        modules = _modules(folder)
        first = folder / (modules[0]["path"] if modules else "")
        own = Source(str(first), source.device, source.device_map, source.trust_remote_code)
        self.tokenizer = own.part(AutoTokenizer)
        self.model = own.model(AutoModel)
        self._length = self._longest(_json(first / "sentence_bert_config.json"))
        self._prompts = _json(folder / "config_sentence_transformers.json")
        steps = [self._step(_kind(module), folder / module["path"]) for module in modules[1:]]
        self._steps: list[Step] = steps or [lambda values, mask: _pool(values, mask, ["mean"])]

    def __call__(
        self,
        inputs: str | Sequence[str],
        *,
        batch_size: int = 32,
        normalize: bool = False,
        prompt_name: str | None = None,
        truncation: bool = True,
    ) -> list[list[float]]:
        """normalize: to length 1, also where the model has no module that does. Raises ValueError and TypeError."""
        prompt = self._prompt(prompt_name)
        texts = [prompt + text for text in texts_of(inputs)]
        vectors: list[list[float]] = []
        for start in range(0, len(texts), max(batch_size, 1)):
            vectors += self._embed(texts[start : start + max(batch_size, 1)], normalize, truncation)
        return vectors

    def _embed(self, texts: list[str], normalize: bool, truncation: bool) -> list[list[float]]:
        import torch

        length = self._length if truncation else None
        encoded = self.tokenizer(texts, padding=True, truncation=truncation, max_length=length, return_tensors="pt")
        encoded = encoded.to(self.model.device)
        with torch.inference_mode():
            values = self.model(**encoded).last_hidden_state
            for step in self._steps:
                values = step(values, encoded["attention_mask"])
            if normalize:
                values = torch.nn.functional.normalize(values, dim=-1)
        rows: list[list[float]] = values.float().cpu().tolist()
        return rows

    def _longest(self, config: dict[str, Any]) -> int | None:
        lengths = (config.get("max_seq_length"), self.tokenizer.model_max_length)
        positions = getattr(self.model.config, "max_position_embeddings", None)
        known = [length for length in (*lengths, positions) if isinstance(length, int) and 0 < length < 1 << 30]
        return min(known, default=None)

    def _prompt(self, name: str | None) -> str:
        prompts = self._prompts.get("prompts") or {}
        name = name or self._prompts.get("default_prompt_name")
        if name and name not in prompts:
            raise ValueError(f"the model has no prompt {name!r}; it has: {', '.join(sorted(prompts)) or 'none'}")
        return str(prompts[name]) if name else ""

    def _step(self, kind: str, folder: Path) -> Step:
        import torch

        if kind not in ("Normalize", "Pooling", "Dense"):
            raise ValueError(
                f"modules.json names a {kind}, which this image does not know: name sentence-transformers in "
                "code/requirements.txt, and load the model with it in a model_fn in code/inference.py."
            )
        config = _json(folder / "config.json")
        if kind == "Normalize":
            return lambda values, mask: torch.nn.functional.normalize(values, dim=-1)
        if kind == "Pooling":
            modes = _pooling_modes(config)
            return lambda values, mask: _pool(values, mask, modes)
        dense = self._dense(config, folder)
        return lambda values, mask: dense(values)

    def _dense(self, config: dict[str, Any], folder: Path) -> Any:
        import torch

        activation = str(config.get("activation_function", "torch.nn.modules.activation.Tanh")).rpartition(".")[2]
        if activation not in _ACTIVATIONS:
            known = ", ".join(sorted(_ACTIVATIONS))
            raise ValueError(f"{folder}/config.json: the activation {activation} is none of {known}.")
        linear = torch.nn.Linear(config["in_features"], config["out_features"], bias=config.get("bias", True))
        weights = folder / "model.safetensors"
        if weights.is_file():
            from safetensors.torch import load_file

            state = load_file(weights)
        else:
            state = torch.load(folder / "pytorch_model.bin", map_location="cpu", weights_only=True)
        linear.load_state_dict({name.removeprefix("linear."): value for name, value in state.items()})
        dense = torch.nn.Sequential(linear, getattr(torch.nn, activation)()).eval()
        return dense.to(self.model.device, self.model.dtype)


def _modules(folder: Path) -> list[dict[str, Any]]:
    path = folder / "modules.json"
    listed = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    return sorted(listed, key=lambda module: int(module["idx"]))


def _kind(module: dict[str, Any]) -> str:
    return str(module["type"]).rpartition(".")[2]


def _json(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}


def _pooling_modes(config: dict[str, Any]) -> list[str]:
    named = config.get("pooling_mode")
    if named:
        return [named] if isinstance(named, str) else list(named)
    return [mode for name, mode in _POOLINGS.items() if config.get(name)] or ["mean"]


def _pool(values: Any, mask: Any, modes: list[str]) -> Any:
    """[texts, tokens, size] to [texts, size for each mode]; tokens that the mask leaves out do not count."""
    import torch

    kept = mask.unsqueeze(-1).to(values.dtype)
    pooled = []
    for mode in modes:
        if mode == "cls":
            first = mask.argmax(dim=1)
            pooled.append(values[torch.arange(len(values)), first])
        elif mode == "max":
            pooled.append(values.masked_fill(kept == 0, torch.finfo(values.dtype).min).amax(dim=1))
        elif mode == "lasttoken":
            last = mask.shape[1] - 1 - mask.flip(1).argmax(dim=1)
            pooled.append(values[torch.arange(len(values)), last])
        elif mode in ("mean", "mean_sqrt_len_tokens", "weightedmean"):
            weights = kept
            if mode == "weightedmean":
                weights = kept * torch.arange(1, mask.shape[1] + 1, device=mask.device).view(1, -1, 1)
            total = weights.sum(dim=1).clamp(min=1e-9)
            pooled.append((values * weights).sum(dim=1) / (total.sqrt() if mode == "mean_sqrt_len_tokens" else total))
        else:
            raise ValueError(f"the pooling mode {mode} is not known")
    return torch.cat(pooled, dim=-1)
