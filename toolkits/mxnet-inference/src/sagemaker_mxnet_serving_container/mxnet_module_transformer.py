"""The transformer of MXNet's handler service; scripts subclass it by this name."""

from __future__ import annotations

from typing import Any

from sagemaker_inference import modules
from sagemaker_inference.transformer import Transformer

from sagemaker_mxnet_serving_container.default_inference_handler import DefaultMXNetInferenceHandler
from sagemaker_mxnet_serving_container.mxnet_model import MXNetModel


class MXNetModuleTransformer(Transformer):
    """Serves modules and Gluon blocks: the kind of the loaded model chooses the defaults."""

    def __init__(self) -> None:
        super().__init__(default_inference_handler=DefaultMXNetInferenceHandler())

    def validate_and_initialize(self, model_dir: str | None = None, context: Any = None) -> None:
        """Imports and checks the user's functions and loads the model, once."""
        if self._initialized:
            return
        model_dir = model_dir or self._settings.model_dir
        module, _ = modules.load(self._settings, model_dir)
        served = MXNetModel(module)
        served.load(model_dir, context)
        self._served, self._model = served, served.value
        self._transform_fn = getattr(module, "transform_fn", None) or self._default_transform_fn
        self._input_fn, self._predict_fn, self._output_fn = (
            hook.call for hook in (served.input, served.predict, served.output)
        )
        self._initialized = True
