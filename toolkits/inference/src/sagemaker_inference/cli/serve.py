"""The ``serve`` command, which SageMaker gives to the container as its only argument."""

from __future__ import annotations

import importlib
import os

#: Names the function that serves, as ``module:function``; an image with a framework sets it.
SERVING_MODULE = "SAGEMAKER_SERVING_MODULE"


def main() -> None:
    """Hands over to the framework's ``serving.main``, or serves with the base's own handler."""
    name = os.environ.get(SERVING_MODULE, "").strip()
    if name:
        module, _, function = name.partition(":")
        getattr(importlib.import_module(module), function or "main")()
        return
    from sagemaker_inference import model_server

    model_server.start_model_server()


if __name__ == "__main__":
    main()
