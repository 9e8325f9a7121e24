"""AWS, by boto3 on first use."""

from __future__ import annotations

import os
from typing import Any, Optional, Tuple

from sagemaker_training import errors, params


def region() -> Optional[str]:
    """The region of the job: the platform's variable, then the toolkit's."""
    for name in ("AWS_REGION", params.REGION_NAME_ENV, "AWS_DEFAULT_REGION"):
        if os.environ.get(name):
            return os.environ[name]
    return None


def client(service: str, purpose: str, service_region: Optional[str] = None) -> Any:
    """A boto3 client. Raises ClientError that names the purpose where boto3 is missing."""
    import importlib

    try:
        boto3 = importlib.import_module("boto3")
    except ImportError as error:
        raise errors.ClientError(f"{purpose} needs boto3, which is not in this image: install boto3.") from error
    # Local mode names its own S3 by this variable; AWS_ENDPOINT_URL_S3 is read by boto3 itself.
    endpoint = os.environ.get("S3_ENDPOINT_URL") if service == "s3" else None
    return boto3.client(service, region_name=service_region or region(), endpoint_url=endpoint or None)


def split(url: str) -> Tuple[str, str]:
    """Bucket and key of an ``s3://`` address."""
    scheme, _, rest = url.partition("://")
    bucket, _, key = rest.partition("/")
    if scheme != "s3" or not bucket:
        raise ValueError(f"Expected s3://BUCKET/KEY, got {url!r}.")
    return bucket, key.lstrip("/")


def download(url: str, path: str) -> None:
    """One object to a file. Raises ClientError that names the address when it cannot be had."""
    bucket, key = split(url)
    try:
        client("s3", f"Fetching {url}").download_file(bucket, key, path)
    except errors.ClientError:
        raise
    except Exception as error:
        raise errors.ClientError(f"{url} cannot be downloaded: {type(error).__name__}: {error}") from error
