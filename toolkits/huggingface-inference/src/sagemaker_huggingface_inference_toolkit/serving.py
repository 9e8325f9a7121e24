"""What ``serve`` calls in a Hugging Face image."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import MutableMapping

from sagemaker_inference import model_server
from sagemaker_inference.server import exits
from sagemaker_inference.settings import SettingsError

from sagemaker_huggingface_inference_toolkit import download, neuron, places
from sagemaker_huggingface_inference_toolkit.settings import HuggingFaceSettings

HANDLER_SERVICE = "sagemaker_huggingface_inference_toolkit.handler_service"

_WORKERS = "SAGEMAKER_MODEL_SERVER_WORKERS"
# Defaults only: what the image or the user set holds.
_QUIET = {
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DISABLE_TELEMETRY": "1",
    "TRANSFORMERS_VERBOSITY": "warning",
}


def main() -> None:
    """Serves until the platform stops the container. The process ends with the server's exit status."""
    try:
        settings = HuggingFaceSettings.read()
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(exits.SETTINGS)
    prepare_environment(settings, os.environ)
    model_server.start_model_server(handler_service=HANDLER_SERVICE, prepare=preparation(settings, os.environ))


def prepare_environment(settings: HuggingFaceSettings, environ: MutableMapping[str, str]) -> None:
    """Sets what workers and the download must find in the environment."""
    for name, value in {**_QUIET, **places.variables(environ)}.items():
        environ.setdefault(name, value)
    if neuron.is_there():
        environ.update(neuron.worker_variables(environ))
    elif not environ.get(_WORKERS) and _spreads(settings):
        environ[_WORKERS] = "1"


def preparation(settings: HuggingFaceSettings, environ: MutableMapping[str, str]) -> list[list[str]]:
    """What has to end well before the first worker starts: the download of a model, if there is one to download."""
    if settings.repository is None or environ.get("SAGEMAKER_MULTI_MODEL", "").lower() == "true":
        return []
    link = os.path.join(
        places.temporary(environ), "huggingface-models", places.link_name(settings.repository, settings.revision)
    )
    environ[places.LOADED_FOLDER] = link
    return [download.command(link)]


def _spreads(settings: HuggingFaceSettings) -> bool:
    """Whether one model takes all GPUs, so that a second worker would have none."""
    if settings.device_map is not None:
        return True
    return settings.trust_remote_code and settings.repository is not None and bool(glob.glob("/dev/nvidia[0-9]*"))
