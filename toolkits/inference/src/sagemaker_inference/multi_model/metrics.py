"""The metrics of all models on one page: each unit's own, with the model's name on every line."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping

from sagemaker_inference.multi_model.model import Model

_SAMPLE = re.compile(r"(\w+)(?:\{(.*)\})? (.*)")


async def page(models: Iterable[Model], path: str) -> bytes:
    """The page, from those models that serve; one that does not answer soon is left out."""
    asked = list(models)
    pages = await asyncio.gather(*(model.get(path) for model in asked))
    return joined({model.source.name: text for model, text in zip(asked, pages, strict=True) if text}).encode()


def joined(pages: Mapping[str, str]) -> str:
    """Pages of Prometheus's text format as one: a metric's lines stand together, under its description."""
    families: dict[str, list[str]] = {}
    for model, text in pages.items():
        label = 'model="{}"'.format(model.replace("\\", r"\\").replace('"', r"\""))
        samples: list[str] = []
        for line in text.splitlines():
            if line.startswith("#"):
                samples = families.setdefault(line.split()[2], [])
                if line not in samples:
                    samples.append(line)
            elif sample := _SAMPLE.fullmatch(line):
                name, labels, value = sample.groups()
                samples.append(f"{name}{{{label}{',' + labels if labels else ''}}} {value}")
    return "".join(f"{line}\n" for lines in families.values() for line in lines)
