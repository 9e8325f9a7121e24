"""Deploys a model with the SageMaker SDK v2 in a container of this machine, asks it, and runs a batch transform.

The argument is a JSON file: image, port, source, model (file:// of a model.tar.gz), root, inputs and output (folders).
Prints one JSON document behind `told `; what the SDK raises stands in the last line, on stderr.
"""

import json
import sys
from pathlib import Path

import boto3
from sagemaker.deserializers import JSONDeserializer
from sagemaker.local import LocalSession
from sagemaker.model import Model
from sagemaker.predictor import Predictor
from sagemaker.serializers import JSONSerializer

job = json.loads(Path(sys.argv[1]).read_text())
boto3.client("s3").create_bucket(Bucket="models")
# With a bucket of its own the SDK asks nobody which account this is.
session = LocalSession(boto3.Session(), default_bucket="models")
session.config = {"local": {"container_root": job["root"], "local_code": True, "serving_port": job["port"]}}
model = Model(
    image_uri=job["image"],
    model_data=job["model"],
    role="arn:aws:iam::123456789012:role/serving",
    source_dir=job["source"],
    entry_point="inference.py",
    env={"SAGEMAKER_MODEL_SERVER_WORKERS": "1"},
    predictor_cls=Predictor,
    sagemaker_session=session,
)
told = {}
try:
    # Waiting means half a minute more, after /ping has answered.
    predictor = model.deploy(1, "local", serializer=JSONSerializer(), deserializer=JSONDeserializer(), wait=False)
    try:
        told["answer"] = predictor.predict({"rows": [[1, 2], [3, 4]]})
    finally:
        predictor.delete_endpoint()
    transformer = model.transformer(
        1,
        "local",
        strategy="MultiRecord",
        assemble_with="Line",
        output_path=f"file://{job['output']}",
        accept="text/csv",
    )
    transformer.transform(f"file://{job['inputs']}", content_type="text/csv", split_type="Line")
    transformer.wait()
except RuntimeError as error:
    sys.exit(f"raised {error}")
print("told " + json.dumps(told))
