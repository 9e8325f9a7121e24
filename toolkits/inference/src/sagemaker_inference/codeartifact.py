"""A private package index in AWS CodeArtifact."""

from __future__ import annotations

import importlib
import re

from sagemaker_inference import masking

VARIABLE = "CA_REPOSITORY_ARN"

_ARN = re.compile(
    r"arn:[^:]+:codeartifact:(?P<region>[^:]+):(?P<account>[^:]+):repository/(?P<domain>[^/]+)/(?P<repository>[^/]+)"
)


class CodeArtifactError(Exception):
    """The repository's name is malformed, or it gives no access."""


def index_url(arn: str) -> str:
    """The address of a repository's package index, with a fresh token in it; the token is masked from here on.

    Raises CodeArtifactError.
    """
    match = _ARN.fullmatch(arn)
    if not match:
        raise CodeArtifactError(
            f"{VARIABLE}={arn!r} is no repository ARN: "
            "use arn:PARTITION:codeartifact:REGION:ACCOUNT:repository/DOMAIN/REPOSITORY"
        )
    try:
        boto3 = importlib.import_module("boto3")
    except ImportError as error:
        raise CodeArtifactError(
            f"{VARIABLE} needs boto3, which is not in this image: add it, or unset {VARIABLE}"
        ) from error
    domain = {"domain": match["domain"], "domainOwner": match["account"]}
    try:
        client = boto3.client("codeartifact", region_name=match["region"])
        token = client.get_authorization_token(**domain)["authorizationToken"]
        masking.remember([token])
        endpoint = client.get_repository_endpoint(**domain, repository=match["repository"], format="pypi")
    except Exception as error:
        raise CodeArtifactError(f"{arn} gives no access: {type(error).__name__}: {error}") from error
    scheme, _, address = endpoint["repositoryEndpoint"].rstrip("/").partition("://")
    return f"{scheme}://aws:{token}@{address}/simple/"
