"""What the server's workers load for MXNet; the name under which scripts subclass it."""

from __future__ import annotations

from sagemaker_inference.default_handler_service import DefaultHandlerService

from sagemaker_mxnet_serving_container.mxnet_module_transformer import MXNetModuleTransformer


class HandlerService(DefaultHandlerService):
    """Serves one MXNet model by the user's functions and the defaults of its kind."""

    def __init__(self) -> None:
        super().__init__(transformer=MXNetModuleTransformer())
