"""Where things are: the tree under ``/opt/ml``.

``SAGEMAKER_BASE_DIR`` moves the tree. Where neither it nor ``/opt/ml`` exists (a
notebook, a laptop) a private tree with configs for one host is made, so that user code
which imports the toolkit works there too.
"""

from __future__ import annotations

import os
from contextlib import suppress

from sagemaker_training import params

_PLATFORM_BASE = "/opt/ml"


def _base() -> str:
    chosen = os.environ.get(params.BASE_PATH_ENV)
    if chosen:
        return chosen
    if os.path.isdir(_PLATFORM_BASE):
        return _PLATFORM_BASE
    return _private_tree()


def _private_tree() -> str:
    import json
    import socket
    import time

    base = os.path.join(os.path.expanduser("~"), "sagemaker_local", "jobs", str(time.time()), "opt", "ml")
    host = socket.gethostname()
    configs = {
        "hyperparameters.json": {},
        "inputdataconfig.json": {},
        "resourceconfig.json": {"current_host": host, "hosts": [host]},
    }
    with suppress(OSError):
        folder = os.path.join(base, "input", "config")
        os.makedirs(folder)
        for name in ("model", os.path.join("output", "data")):
            os.makedirs(os.path.join(base, name))
        for name, content in configs.items():
            with open(os.path.join(folder, name), "w") as file:
                json.dump(content, file)
    return base


base_dir = _base()
code_dir = os.path.join(base_dir, "code")
model_dir = os.path.join(base_dir, "model")
input_dir = os.path.join(base_dir, "input")
input_data_dir = os.path.join(input_dir, "data")
input_config_dir = os.path.join(input_dir, "config")
output_dir = os.path.join(base_dir, "output")
output_data_dir = os.path.join(output_dir, "data")
output_intermediate_dir = os.path.join(output_dir, "intermediate")
success_file = os.path.join(output_dir, "success")
failure_file = os.path.join(output_dir, "failure")

HYPERPARAMETERS_FILE = "hyperparameters.json"
RESOURCE_CONFIG_FILE = "resourceconfig.json"
INPUT_DATA_CONFIG_FILE = "inputdataconfig.json"
CHECKPOINT_CONFIG_FILE = "checkpointconfig.json"

# A read-only image may forbid it; whoever needs the folder then fails with its name.
with suppress(OSError):
    os.makedirs(code_dir, exist_ok=True)


def channel_path(channel: str) -> str:
    """The folder of a channel. In Pipe mode nothing exists there: see ``<path>_<epoch>``."""
    return os.path.join(input_data_dir, channel)
