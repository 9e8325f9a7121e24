"""A private package index in AWS CodeArtifact."""

from __future__ import annotations

import os
import re
from typing import Dict

from sagemaker_training import aws, errors, masking, params

_ARN = re.compile(
    r"arn:[^:]+:codeartifact:(?P<region>[^:]+):(?P<account>[^:]+):repository/(?P<domain>[^/]+)/(?P<repository>[^/]+)"
)


def index_variables() -> Dict[str, str]:
    """Variables that point pip and uv at the repository of ``CA_REPOSITORY_ARN``; none when it is not set.

    The token is in the variables only: a command line is visible to everyone.
    Raises ClientError when the ARN is malformed or the token cannot be had.
    """
    arn = os.environ.get(params.CODEARTIFACT_REPOSITORY_ARN_ENV)
    if not arn:
        return {}
    match = _ARN.fullmatch(arn)
    if not match:
        raise errors.ClientError(
            f"{params.CODEARTIFACT_REPOSITORY_ARN_ENV}={arn!r} is no repository ARN: "
            "use arn:PARTITION:codeartifact:REGION:ACCOUNT:repository/DOMAIN/REPOSITORY."
        )
    domain = {"domain": match["domain"], "domainOwner": match["account"]}
    try:
        client = aws.client("codeartifact", "Installing from CodeArtifact", match["region"])
        token = client.get_authorization_token(**domain)["authorizationToken"]
        masking.remember([token])
        endpoint = client.get_repository_endpoint(**domain, repository=match["repository"], format="pypi")
    except errors.ClientError:
        raise
    except Exception as error:
        raise errors.ClientError(f"CodeArtifact gives no access to {arn}: {type(error).__name__}: {error}") from error
    scheme, _, address = endpoint["repositoryEndpoint"].rstrip("/").partition("://")
    index = f"{scheme}://aws:{token}@{address}/simple/"
    return {"PIP_INDEX_URL": index, "UV_DEFAULT_INDEX": index}
