"""Turns one Keras file into a SavedModel. A program of its own::

    python -m sagemaker_tensorflow_serving_container.keras_export FILE FOLDER

The user's module is imported before, where it can be, so that classes that it registers with Keras are known. Keras'
own safe mode stays on: a file cannot bring code along.
"""

from __future__ import annotations

import importlib
import os
import sys


def main(source: str, target: str) -> None:
    module = os.environ.get("SAGEMAKER_PROGRAM", "inference.py").removesuffix(".py").replace("/", ".")
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
    import keras

    model = keras.saving.load_model(source, compile=False)
    model.export(target, format="tf_saved_model", verbose=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
