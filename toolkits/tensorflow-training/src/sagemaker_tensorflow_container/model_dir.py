"""The two places of a model: the ``model_dir`` hyperparameter, which is the script's, and the folder that is uploaded.

Rules: docs/contract/tensorflow-training.md, rows tf-model-*.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping

from sagemaker_training import layout, params
from sagemaker_training.logs import logger

KEY = "model_dir"

_NOT_SERVABLE = "TensorFlow Serving will not find a model in it."


def of_job(hyperparameters: Mapping[str, Any], job_name: str) -> Dict[str, Any]:
    """The hyperparameters, and in them a ``model_dir`` of this job's own.

    The jobs of a tuning job are sent the same address; each gets a folder in it, so that they do not overwrite each
    other. A local folder is each job's own already.
    """
    given = hyperparameters.get(KEY)
    if params.TUNING_METRIC_PARAM not in hyperparameters or not isinstance(given, str) or given.startswith("/opt/ml"):
        return dict(hyperparameters)
    own = f"{given.rstrip('/')}/{job_name}/model"
    logger.info("%s of this job of the tuning job: %s", KEY, own)
    return {**hyperparameters, KEY: own}


def warn_if_not_servable(folder: str = layout.model_dir) -> None:
    """Says what is missing for TensorFlow Serving in the folder that is uploaded."""
    files = _files(folder)
    bundles = [path for path in files if os.path.basename(path) in ("saved_model.pb", "saved_model.pbtxt")]
    if not files:
        logger.warning("%s is empty: the job leaves no model. %s", folder, _NOT_SERVABLE)
    elif not bundles:
        logger.warning("%s holds no saved_model.pb. %s", folder, _NOT_SERVABLE)
    elif not any(os.path.basename(os.path.dirname(path)).isdigit() for path in bundles):
        logger.warning("%s is in no folder with a number as its name (…/1). %s", bundles[0], _NOT_SERVABLE)


def _files(folder: str) -> List[str]:
    return sorted(os.path.join(place, name) for place, _, names in os.walk(folder) for name in names)
