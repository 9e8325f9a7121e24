"""What the server's workers load for PyTorch; the name under which scripts subclass it."""

from __future__ import annotations

from sagemaker_inference.default_handler_service import DefaultHandlerService
from sagemaker_inference.settings import Settings
from sagemaker_inference.transformer import Transformer

from sagemaker_pytorch_serving_container import threads
from sagemaker_pytorch_serving_container.default_pytorch_inference_handler import DefaultPytorchInferenceHandler


class HandlerService(DefaultHandlerService):
    """Serves one PyTorch model by the user's functions and PyTorch's defaults."""

    def __init__(self) -> None:
        if Settings.read().preload:
            threads.wait_for_fork()
        super().__init__(transformer=Transformer(default_inference_handler=DefaultPytorchInferenceHandler()))
