"""The name under which TorchServe was started. There is none in these images: our own server answers."""

from __future__ import annotations

from sagemaker_inference import model_server

from sagemaker_pytorch_serving_container.serving import HANDLER_SERVICE

DEFAULT_HANDLER_SERVICE = HANDLER_SERVICE


def start_torchserve(handler_service: str = DEFAULT_HANDLER_SERVICE) -> None:
    """Serves with a handler service, a module or a file, until the platform stops the container."""
    model_server.start_model_server(handler_service=handler_service)
