"""Runs one training job with an estimator of the SageMaker SDK v2 in containers of this machine.

The argument is a JSON file with the fields of `sdk.Job`. Prints the containers' log; what the SDK raises stands in
the last line, on stderr.
"""

import json
import sys
from pathlib import Path

import boto3
from sagemaker.estimator import Estimator
from sagemaker.local import LocalSession
from sagemaker.pytorch import PyTorch

job = json.loads(Path(sys.argv[1]).read_text())
session = LocalSession(boto3.Session())
session.config = {"local": {"container_root": job["root"], "local_code": job["local_code"]}}
arguments = {
    "image_uri": job["image"],
    "role": "arn:aws:iam::123456789012:role/training",
    "instance_type": "local",
    "instance_count": job["hosts"],
    "entry_point": job["entry"],
    "source_dir": job["source"],
    "hyperparameters": job["hyperparameters"],
    "environment": job["environment"],
    "output_path": job["output"],
    "sagemaker_session": session,
}
if job["distribution"]:
    estimator = PyTorch(distribution=job["distribution"], **arguments)
else:
    estimator = Estimator(**arguments)
try:
    estimator.fit({name: f"file://{folder}" for name, folder in job["channels"].items()} or None)
except RuntimeError as error:
    sys.exit(f"raised {error}")
print("model data: " + estimator.model_data)
