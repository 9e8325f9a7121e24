"""What ``serve`` calls in a PyTorch image."""

from __future__ import annotations

from sagemaker_inference import model_server

HANDLER_SERVICE = "sagemaker_pytorch_serving_container.handler_service"


def main() -> None:
    """Serves until the platform stops the container. The process ends with the server's exit status."""
    model_server.start_model_server(handler_service=HANDLER_SERVICE)
