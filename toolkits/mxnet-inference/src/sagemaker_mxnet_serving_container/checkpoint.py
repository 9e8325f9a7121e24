"""A module's three files in a model folder, and the module in them.

Rules: docs/contract/mxnet-inference.md, rows load-*.
"""

from __future__ import annotations

import os
from typing import Any

from sagemaker_mxnet_serving_container import utils

PREFIX = "model"
SYMBOL_FILE = "model-symbol.json"
PARAMETERS_FILE = "model-0000.params"
SHAPES_FILE = "model-shapes.json"
FILES = (SYMBOL_FILE, PARAMETERS_FILE, SHAPES_FILE)

#: Rows that a module takes at once.
BATCH_SIZE_ENV = "SAGEMAKER_DEFAULT_MODEL_FIRST_DIMENSION_SIZE"


def batch_size() -> int:
    """Rows in one pass of the default model: the variable, else 1. Raises ValueError."""
    text = os.environ.get(BATCH_SIZE_ENV, "").strip() or "1"
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise ValueError(f"{BATCH_SIZE_ENV}={text}: use a whole number from 1.")
    return int(text)


def load(model_dir: str, device: Any, rows: int) -> Any:
    """The mx.mod.Module of a folder, bound for prediction. rows: of one pass, at least 1.

    Raises ValueError, which names what is missing or wrong.
    """
    _require_files(model_dir)
    import mxnet as mx

    names, shapes = utils.read_data_shapes(os.path.join(model_dir, SHAPES_FILE), rows)
    symbol, arguments, states = mx.model.load_checkpoint(os.path.join(model_dir, PREFIX), 0)
    unknown = [name for name in names if name not in symbol.list_inputs()]
    if unknown:
        inputs = [name for name in symbol.list_inputs() if name not in arguments and name not in states]
        raise ValueError(
            f"{SHAPES_FILE} names inputs that {SYMBOL_FILE} does not have: {', '.join(unknown)}. "
            f"It has {', '.join(inputs)}."
        )
    module = mx.mod.Module(symbol=symbol, context=device, data_names=names, label_names=None)
    module.bind(for_training=False, data_shapes=shapes)
    # A loss layer may want a label that prediction never has.
    module.set_params(arguments, states, allow_missing=True)
    return module


def _require_files(model_dir: str) -> None:
    missing = [name for name in FILES if not os.path.isfile(os.path.join(model_dir, name))]
    if missing:
        there = sorted(os.listdir(model_dir)) if os.path.isdir(model_dir) else []
        raise ValueError(
            f"{model_dir} lacks {', '.join(missing)}. The default model_fn needs {', '.join(FILES)}; found: "
            f"{', '.join(there) or 'nothing'}. For another kind of model, give a model_fn in code/inference.py."
        )
