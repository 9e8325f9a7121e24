"""What a worker of a Hugging Face image serves with. It is imported in workers only."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from sagemaker_inference import logging, modules
from sagemaker_inference.context import Context
from sagemaker_inference.default_handler_service import DefaultHandlerService
from sagemaker_inference.function_service import FunctionService
from sagemaker_inference.model import Model
from sagemaker_inference.service import Place, Service
from sagemaker_inference.settings import Settings
from sagemaker_inference.transformer import Transformer

from sagemaker_huggingface_inference_toolkit import places
from sagemaker_huggingface_inference_toolkit.default_inference_handler import HuggingFaceInferenceHandler
from sagemaker_huggingface_inference_toolkit.settings import HuggingFaceSettings

_log = logging.get_logger(__name__)


def service(settings: Settings, place: Place) -> Service:
    """The loaded service. User code comes from the model archive, also where the model comes from the hub."""
    own = HuggingFaceSettings.read()
    module, _ = modules.load(settings, place.model_dir)
    model_dir = place.model_dir if settings.multi_model else model_folder(own) or place.model_dir
    place = replace(place, model_dir=model_dir)
    served = Model(module, HuggingFaceInferenceHandler(own, alone=settings.workers == 1))
    _log.info(served.describe())
    served.load(model_dir, Context(place))
    return FunctionService(served, settings, place)


def model_folder(settings: HuggingFaceSettings) -> str | None:
    """Where the model of HF_MODEL_ID lies; None where the model is that of the archive."""
    return settings.local_folder or (os.environ.get(places.LOADED_FOLDER) if settings.repository else None)


class HuggingFaceHandlerService(DefaultHandlerService):
    """The same as a class that handler code makes and subclasses: each method is the default of one function."""

    def __init__(self) -> None:
        self._handler = HuggingFaceInferenceHandler()
        super().__init__(Transformer(_Defaults(self)))

    def load(self, model_dir: str, context: Any = None) -> Any:
        """The model of a folder."""
        return self._handler.default_model_fn(model_dir, context)

    def preprocess(self, input_data: Any, content_type: str | None, context: Any = None) -> Any:
        """A request out of a body."""
        return self._handler.default_input_fn(input_data, content_type, context)

    def predict(self, data: Any, model: Any, context: Any = None) -> Any:
        """The prediction for a request."""
        return self._handler.default_predict_fn(data, model, context)

    def postprocess(self, prediction: Any, accept: str, context: Any = None) -> Any:
        """The body of an answer, or body and content type."""
        return self._handler.default_output_fn(prediction, accept, context)


class _Defaults:
    """A handler service's methods under the names that the base toolkit calls."""

    def __init__(self, owner: HuggingFaceHandlerService) -> None:
        self.default_model_fn = owner.load
        self.default_input_fn = owner.preprocess
        self.default_predict_fn = owner.predict
        self.default_output_fn = owner.postprocess
