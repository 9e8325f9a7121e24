"""What TensorFlow's S3 file system must be told, by environment variables.

Rules: docs/contract/tensorflow-training.md, rows tf-s3-*.
"""

from __future__ import annotations

import os
from typing import Any, Optional

from sagemaker_training import aws
from sagemaker_training.logs import logger

# A container without a way to S3 is not to wait for long.
_SECONDS = 5


def configure(model_dir: Any) -> None:
    """Sets ``S3_REGION`` and ``S3_USE_HTTPS`` where the user has not. Whatever fails here is a warning."""
    os.environ.setdefault("S3_USE_HTTPS", "1")
    if os.environ.get("S3_REGION"):
        return
    region = _bucket_region(model_dir) if isinstance(model_dir, str) and model_dir.startswith("s3://") else None
    region = region or aws.region()
    if region:
        os.environ["S3_REGION"] = region


def _bucket_region(url: str) -> Optional[str]:
    try:
        bucket, _ = aws.split(url)
        from botocore.config import Config

        client = _client(Config(connect_timeout=_SECONDS, read_timeout=_SECONDS, retries={"total_max_attempts": 1}))
        location = client.get_bucket_location(Bucket=bucket).get("LocationConstraint")
    except Exception as error:
        logger.warning("the region of %s cannot be looked up (%s): taking the job's", url, error)
        return None
    # The two historical names.
    return {None: "us-east-1", "EU": "eu-west-1"}.get(location, str(location))


def _client(config: Any) -> Any:
    import boto3

    endpoint = os.environ.get("S3_ENDPOINT_URL") or None
    return boto3.client("s3", region_name=aws.region(), endpoint_url=endpoint, config=config)
