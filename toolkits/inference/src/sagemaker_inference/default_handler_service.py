"""The class that a model server of old calls; subclasses give it another transformer, or a ``handle`` of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sagemaker_inference.transformer import Transformer


class DefaultHandlerService:
    """Loads one model at ``initialize`` and answers groups of requests in ``handle``."""

    def __init__(self, transformer: Any = None) -> None:
        self._service = transformer or Transformer()

    def initialize(self, context: Any) -> None:
        """Loads the model of ``context.system_properties["model_dir"]``."""
        self._service.validate_and_initialize(model_dir=context.system_properties.get("model_dir"), context=context)

    def handle(self, data: Sequence[Any], context: Any) -> Any:
        """A list with one body for each request."""
        return self._service.transform(data, context)
