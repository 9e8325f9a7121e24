"""What ``serve`` calls in a TensorFlow image."""

from __future__ import annotations

import logging
import os
import sys

from sagemaker_inference import model_server as server
from sagemaker_inference import requirements

from sagemaker_tensorflow_serving_container import model_server, settings

HANDLER_SERVICE = "sagemaker_tensorflow_serving_container.handler_service"

# TensorFlow's own log: warnings and errors, not each start's description of the processor.
_LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"


def main() -> None:
    """Serves until the platform stops the container. The process ends with the server's exit status."""
    try:
        own = settings.Settings.read(os.environ)
    except settings.SettingsError as error:
        sys.exit(str(error))
    for note in settings.notes(os.environ):
        logging.getLogger(__name__).warning(note)
    os.environ.update(own.inherited(os.environ, model_server.program() is not None))
    os.environ.setdefault(_LOG_LEVEL, "1")
    os.environ.setdefault(requirements.VENDORED, "lib")
    server.start_model_server(handler_service=HANDLER_SERVICE)
