"""What ``serve`` calls in a TensorFlow image."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping

from sagemaker_inference import model_server as server
from sagemaker_inference import requirements
from sagemaker_inference.server import exits
from sagemaker_inference.settings import Settings as BaseSettings
from sagemaker_inference.settings import SettingsError as BaseSettingsError

from sagemaker_tensorflow_serving_container import model_server, ports, settings

HANDLER_SERVICE = "sagemaker_tensorflow_serving_container.handler_service"

# TensorFlow's own log: warnings and errors, not each start's description of the processor.
_LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
_PRELOAD = "SLIPWAY_PRELOAD"


def main() -> None:
    """Serves until the platform stops the container. The process ends with the server's exit status."""
    faults = check(os.environ)
    if faults:
        sys.stderr.write("\n".join(faults) + "\n")
        sys.exit(exits.SETTINGS)
    os.environ.update(variables(os.environ))
    server.start_model_server(handler_service=HANDLER_SERVICE)


def check(environ: Mapping[str, str]) -> list[str]:
    """What is wrong with the variables, TensorFlow's and the base toolkit's; nothing where all is right."""
    faults = []
    own = base = None
    try:
        own = settings.Settings.read(environ)
    except settings.SettingsError as error:
        faults.append(str(error))
    try:
        base = BaseSettings.read(environ)
    except BaseSettingsError as error:
        faults.append(str(error))
    if own and base and not base.multi_model and model_server.program():
        try:
            ports.pair(base.safe_port_range, (own.instances or 1) - 1)
        except ports.PortError as error:
            faults.append(str(error))
    return faults


def variables(environ: Mapping[str, str]) -> dict[str, str]:
    """What the base toolkit and TensorFlow are told beside what is given. Says in the log what has no effect."""
    own = settings.Settings.read(environ)
    logger = logging.getLogger(__name__)
    for note in settings.notes(environ):
        logger.warning(note)
    added = own.inherited(environ, model_server.program() is not None)
    for name, value in ((_LOG_LEVEL, "1"), (requirements.VENDORED, "lib")):
        if name not in environ:
            added[name] = value
    if BaseSettings.read(environ).preload:
        logger.warning("%s has no effect: TensorFlow's threads do not survive a fork.", _PRELOAD)
        added[_PRELOAD] = "false"
    return added
