"""Defaults for the functions that a user's module does not have; toolkits of frameworks override them."""

from __future__ import annotations

from typing import Any

from sagemaker_inference import decoder, encoder


class DefaultInferenceHandler:
    """Knows how to read requests and write answers, and nothing about models."""

    def default_model_fn(self, model_dir: str, context: Any = None) -> Any:
        """Loads the model. Raises NotImplementedError here, since only frameworks know how."""
        from sagemaker_inference import modules
        from sagemaker_inference.settings import Settings

        why = modules.explain(Settings.read(), model_dir)
        raise NotImplementedError(f"Please provide a model_fn: this image has no default for it. {why}")

    def default_input_fn(self, input_data: Any, content_type: str | None, context: Any = None) -> Any:
        """An array of the body; no content type means JSON."""
        return decoder.decode(input_data, content_type)

    def default_predict_fn(self, data: Any, model: Any, context: Any = None) -> Any:
        """The prediction. Raises NotImplementedError here."""
        raise NotImplementedError("Please provide a predict_fn: this image has no default for it.")

    def default_output_fn(self, prediction: Any, accept: str, context: Any = None) -> Any:
        """The body in the type that the client likes best."""
        return encoder.encode(prediction, accept)
