"""What MXNet scripts import: where the scheduler is, and how a module's model is saved for serving.

Rules: docs/contract/mxnet-training.md, rows mxnet-utils-*.
"""

from __future__ import annotations

import json
import os
from typing import Any, Optional, Sequence

SYMBOL_FILE = "model-symbol.json"
PARAMETERS_FILE = "model-0000.params"
SHAPES_FILE = "model-shapes.json"


def scheduler_host(hosts: Sequence[str]) -> str:
    """The host of the scheduler, which is also the one that saves the model."""
    return hosts[0]


def save(model_dir: str, model: Any, current_host: Optional[str] = None, hosts: Optional[Sequence[str]] = None) -> None:
    """Saves a module (``mxnet.mod.Module``) for serving: symbol, parameters and the shapes of its inputs.

    Only the scheduler's host does. current_host, hosts: of the job, where not given.
    """
    current_host = current_host or os.environ["SM_CURRENT_HOST"]
    if current_host != scheduler_host(hosts or json.loads(os.environ["SM_HOSTS"])):
        return
    model.symbol.save(os.path.join(model_dir, SYMBOL_FILE))
    model.save_params(os.path.join(model_dir, PARAMETERS_FILE))
    shapes = [{"name": data.name, "shape": list(data.shape)} for data in model.data_shapes]
    with open(os.path.join(model_dir, SHAPES_FILE), "w", encoding="utf-8") as file:
        json.dump(shapes, file)
