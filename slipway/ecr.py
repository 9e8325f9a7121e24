"""Amazon ECR in one account and region: repositories and fresh tokens, through boto3."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from slipway.errors import AuthError, RegistryError, nearest
from slipway.registry import Credentials

if TYPE_CHECKING:
    from mypy_boto3_ecr import ECRClient

MUTABILITY: Final = "IMMUTABLE_WITH_EXCLUSION"

_NOT_ACCEPTED = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "KMSAccessDeniedException",
        "MissingAuthenticationToken",
        "UnrecognizedClientException",
    }
)


@dataclass(frozen=True)
class Repository:
    """What ECR says of a repository. `filters`: wildcards of the tags that are excluded from its mutability.

    `encryption`: AES256, or KMS and the key's ARN.
    """

    name: str
    mutability: str
    filters: tuple[str, ...]
    encryption: str = "AES256"


@dataclass(frozen=True)
class Ecr:
    """One account's registry in one region. Endpoints are AWS's own where None; `role` is assumed if given."""

    account: str
    region: str
    role: str = ""
    endpoint: str | None = None
    sts_endpoint: str | None = None

    def token(self) -> Credentials:
        """A fresh token: twelve hours' access, asked for anew by each push and kept nowhere."""
        with self._speaking("get a token"):
            given = self._client.get_authorization_token()["authorizationData"][0]["authorizationToken"]
        user, _, password = base64.b64decode(given).decode().partition(":")
        return Credentials(user, password)

    def repository(self, name: str) -> Repository | None:
        """A repository as it is, or None."""
        with self._speaking(f"describe the repository {name}"):
            try:
                answer = self._client.describe_repositories(registryId=self.account, repositoryNames=[name])
            except self._client.exceptions.RepositoryNotFoundException:
                return None
        found: dict[str, Any] = {**answer["repositories"][0]}
        filters = tuple(item["filter"] for item in found.get("imageTagMutabilityExclusionFilters", []))
        encrypted = found.get("encryptionConfiguration", {})
        encryption = " ".join(filter(None, (encrypted.get("encryptionType", "AES256"), encrypted.get("kmsKey"))))
        return Repository(name, found.get("imageTagMutability", "MUTABLE"), filters, encryption)

    def policy(self, name: str) -> dict[str, Any] | None:
        """Who else may do what with a repository; None where it has no policy."""
        with self._speaking(f"tell the policy of {name}"):
            try:
                answer = self._client.get_repository_policy(registryId=self.account, repositoryName=name)
            except self._client.exceptions.RepositoryPolicyNotFoundException:
                return None
        policy: dict[str, Any] = json.loads(answer["policyText"])
        return policy

    def create_repository(self, name: str, filters: Sequence[str]) -> None:
        """Make a repository that scans on push and lets only tags move that match a filter."""
        # Someone else may create it at the same moment; that is as good.
        taken = contextlib.suppress(self._client.exceptions.RepositoryAlreadyExistsException)
        with self._speaking(f"create the repository {name}"), taken:
            self._client.create_repository(
                registryId=self.account,
                repositoryName=name,
                imageTagMutability=MUTABILITY,
                imageTagMutabilityExclusionFilters=[{"filterType": "WILDCARD", "filter": one} for one in filters],
                imageScanningConfiguration={"scanOnPush": True},
            )

    def set_filters(self, name: str, filters: Sequence[str]) -> None:
        with self._speaking(f"let aliases of {name} move"):
            self._client.put_image_tag_mutability(
                registryId=self.account,
                repositoryName=name,
                imageTagMutability=MUTABILITY,
                imageTagMutabilityExclusionFilters=[{"filterType": "WILDCARD", "filter": one} for one in filters],
            )

    def lifecycle(self, name: str) -> dict[str, Any] | None:
        """The lifecycle policy of a repository; None where it has none."""
        with self._speaking(f"tell the lifecycle policy of {name}"):
            try:
                answer = self._client.get_lifecycle_policy(registryId=self.account, repositoryName=name)
            except self._client.exceptions.LifecyclePolicyNotFoundException:
                return None
        policy: dict[str, Any] = json.loads(answer["lifecyclePolicyText"])
        return policy

    def set_lifecycle(self, name: str, policy: dict[str, Any]) -> None:
        with self._speaking(f"set the lifecycle policy of {name}"):
            self._client.put_lifecycle_policy(
                registryId=self.account, repositoryName=name, lifecyclePolicyText=json.dumps(policy)
            )

    def image_scan(self, repository: str, digest: str) -> dict[str, Any] | None:
        """What ECR's scanning says of an image (DescribeImageScanFindings, every page joined); None before a scan."""
        asked: dict[str, Any] = {"registryId": self.account, "repositoryName": repository}
        with self._speaking(f"tell the scan of {repository}@{digest}"):
            whole: dict[str, Any] = {}
            token = ""
            while True:
                more: dict[str, Any] = {"nextToken": token} if token else {}
                try:
                    page: dict[str, Any] = {
                        **self._client.describe_image_scan_findings(**asked, imageId={"imageDigest": digest}, **more)
                    }
                except self._client.exceptions.ScanNotFoundException:
                    return None
                whole = _joined(whole, page)
                token = page.get("nextToken", "")
                if not token:
                    return whole

    def start_scan(self, repository: str, digest: str) -> None:
        """Ask for a basic scan. One asked for today is as good, and so is enhanced scanning, always at work."""
        from botocore.exceptions import ClientError

        asked: dict[str, Any] = {"registryId": self.account, "repositoryName": repository}
        with self._speaking(f"scan {repository}@{digest}"):
            try:
                self._client.start_image_scan(**asked, imageId={"imageDigest": digest})
            except ClientError as error:
                if error.response.get("Error", {}).get("Code") not in ("LimitExceededException", "ValidationException"):
                    raise

    def remove_tag(self, repository: str, tag: str) -> None:
        """Take a tag away; the image stays, unless that was its only one."""
        with self._speaking(f"take {tag} of {repository} away"):
            self._client.batch_delete_image(
                registryId=self.account, repositoryName=repository, imageIds=[{"imageTag": tag}]
            )

    @cached_property
    def mounts_blobs(self) -> bool | None:
        """Whether a layer of one repository may be mounted into another; None where ECR does not say."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            found = self._client.get_account_setting(name="BLOB_MOUNTING")
        except (BotoCoreError, ClientError):  # older regions, and credentials that may not ask: no reason to stop
            return None
        return found.get("value", "").upper() == "ENABLED"

    @cached_property
    def _client(self) -> ECRClient:
        import boto3
        from botocore.config import Config

        config = Config(connect_timeout=10, read_timeout=30, retries={"mode": "standard", "max_attempts": 5})
        with self._speaking("log in to AWS"):
            session = boto3.session.Session(region_name=self.region)
            if not self.role:
                return session.client("ecr", endpoint_url=self.endpoint, config=config)
            sts = session.client("sts", endpoint_url=self.sts_endpoint, config=config)
            granted = sts.assume_role(RoleArn=self.role, RoleSessionName="slipway")["Credentials"]
            return session.client(
                "ecr",
                endpoint_url=self.endpoint,
                config=config,
                aws_access_key_id=granted["AccessKeyId"],
                aws_secret_access_key=granted["SecretAccessKey"],
                aws_session_token=granted["SessionToken"],
            )

    @contextlib.contextmanager
    def _speaking(self, action: str) -> Iterator[None]:
        """Translate what boto3 raises."""
        from botocore.exceptions import (
            BotoCoreError,
            ClientError,
            ConnectionError,
            HTTPClientError,
            NoCredentialsError,
            PartialCredentialsError,
            ProfileNotFound,
        )

        where = f"ECR of account {self.account} in {self.region}"
        check = "run `aws sts get-caller-identity` to see whose credentials are in use"
        try:
            yield
        except (NoCredentialsError, PartialCredentialsError, ProfileNotFound) as error:
            raise AuthError(
                f"no AWS credentials to {action} at {where}: {error}",
                fix="log in, for example with `aws sso login`, and set AWS_PROFILE",
            ) from None
        except ClientError as error:
            told = error.response.get("Error", {})
            code, text = told.get("Code", ""), told.get("Message", "")
            if code in _NOT_ACCEPTED:
                raise AuthError(
                    f"{where} does not let these credentials {action}: {text} ({code})",
                    fix=f"{check}; account and regions stand in release.yml",
                ) from None
            raise RegistryError(f"{where} could not {action}: {text} ({code})") from None
        except (ConnectionError, HTTPClientError) as error:
            raise RegistryError(
                f"{where} does not answer, asked to {action}: {error}", fix=self._region_hint()
            ) from None
        except BotoCoreError as error:
            raise RegistryError(f"{where} could not {action}: {error}", fix=check) from None

    def _region_hint(self) -> str:
        import boto3

        regions = boto3.session.Session().get_available_regions("ecr")
        if self.region in regions or not regions:
            return "check the network, the proxy and the endpoint"
        return f"is {self.region} a region? {nearest(self.region, regions)}"


def _joined(whole: dict[str, Any], page: dict[str, Any]) -> dict[str, Any]:
    """Two pages of a scan as one: the lists of findings follow each other."""
    lists = ("findings", "enhancedFindings")
    before, after = whole.get("imageScanFindings", {}), page.get("imageScanFindings", {})
    found = {name: [*before.get(name, []), *after.get(name, [])] for name in lists if name in before or name in after}
    return {**page, "imageScanFindings": {**after, **found}}
