"""The AWS services that a launch needs, through boto3, with what they refuse put into words.

Credentials are those of the profile, else those that the AWS tools would find. Endpoints that the environment names are
honoured by boto3 itself.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from slipway.errors import AuthError, InputError, ServiceError, nearest

_NOT_ACCEPTED = re.compile(
    "AccessDenied.*|ExpiredToken.*|InvalidAccessKeyId|InvalidClientTokenId|SignatureDoesNotMatch|IncompleteSignature"
    "|UnrecognizedClient.*|MissingAuthenticationToken|InvalidSignature.*|NotAuthorized|403"
)
_WHO = "run `aws sts get-caller-identity` to see whose credentials are in use"


@dataclass(frozen=True)
class Aws:
    """One account as seen with one profile (empty: the default credentials) in one region."""

    region: str
    profile: str = ""

    @cached_property
    def account(self) -> str:
        """The account's twelve digits."""
        with self.speaking("tell the account"):
            return str(self._client("sts").get_caller_identity()["Account"])

    @property
    def bucket(self) -> str:
        """The bucket that the SageMaker SDK uses where none is named."""
        return f"sagemaker-{self.region}-{self.account}"

    def role(self, name: str) -> str:
        """A role's ARN."""
        if name.startswith("arn:"):
            return name
        with self.speaking(f"find the role {name}"):
            found = self._client("iam")
            try:
                return str(found.get_role(RoleName=name.rpartition("/")[2])["Role"]["Arn"])
            except found.exceptions.NoSuchEntityException:
                raise InputError(
                    f"there is no role {name} in account {self.account}", fix="correct iam_role_name"
                ) from None

    def upload(self, file: Path, location: str, kms_key: str = "") -> None:
        """Put a file to `s3://bucket/key`, encrypted. The account's own default bucket is made where it is missing."""
        bucket, _, key = location.removeprefix("s3://").partition("/")
        extra = {"ServerSideEncryption": "aws:kms", **({"SSEKMSKeyId": kms_key} if kms_key else {})}
        with self.speaking(f"upload to {location}"):
            client = self._client("s3")
            if bucket == self.bucket:
                self._ensure_bucket(client, bucket)
                extra["ExpectedBucketOwner"] = self.account
            with file.open("rb") as body:
                client.put_object(Bucket=bucket, Key=key, Body=body, **extra)

    def remove(self, location: str) -> None:
        """Take back what was uploaded; where that fails, it stays."""
        bucket, _, key = location.removeprefix("s3://").partition("/")
        with contextlib.suppress(AuthError, ServiceError), self.speaking(f"remove {location}"):
            self._client("s3").delete_object(Bucket=bucket, Key=key)

    def create(self, request: Mapping[str, Any]) -> str:
        """Start a training job; its ARN."""
        with self.speaking(f"start the job {request['TrainingJobName']}"):
            return str(self._client("sagemaker").create_training_job(**request)["TrainingJobArn"])

    def describe(self, job: str) -> dict[str, Any]:
        """What DescribeTrainingJob says. Raises InputError for a job that does not exist."""
        with self.speaking(f"describe the job {job}", missing=f"there is no training job {job} in {self.region}"):
            return dict(self._client("sagemaker").describe_training_job(TrainingJobName=job))

    def log_streams(self, job: str) -> list[str]:
        """The log streams of a job's hosts; none while it has not begun to print."""
        client = self._client("logs")
        with self.speaking("list the job's logs"):
            try:
                pages = client.get_paginator("describe_log_streams").paginate(
                    logGroupName=LOG_GROUP, logStreamNamePrefix=f"{job}/"
                )
                return sorted(stream["logStreamName"] for page in pages for stream in page["logStreams"])
            except client.exceptions.ResourceNotFoundException:
                return []

    def log_events(self, stream: str, token: str) -> tuple[list[str], str]:
        """The events of a stream behind `token` (empty: from the start), and the token of what comes next."""
        with self.speaking("read the job's log"):
            given = self._client("logs").get_log_events(
                logGroupName=LOG_GROUP,
                logStreamName=stream,
                startFromHead=True,
                **({"nextToken": token} if token else {}),
            )
        return [str(event["message"]) for event in given["events"]], str(given["nextForwardToken"])

    @contextlib.contextmanager
    def speaking(self, action: str, missing: str = "") -> Iterator[None]:
        """Translate what boto3 raises. `missing`: what it means when the service does not know what was asked for."""
        from botocore.exceptions import (
            BotoCoreError,
            ClientError,
            HTTPClientError,
            NoCredentialsError,
            PartialCredentialsError,
            ProfileNotFound,
        )
        from botocore.exceptions import ConnectionError as NoConnection

        try:
            yield
        except (NoCredentialsError, PartialCredentialsError) as error:
            raise AuthError(f"no AWS credentials to {action}: {error}", fix="log in, or set profile") from None
        except ProfileNotFound as error:
            raise AuthError(f"{error}", fix="correct profile, or run `aws configure --profile NAME`") from None
        except ClientError as error:
            told = error.response.get("Error", {})
            code, text = str(told.get("Code", "")), str(told.get("Message", ""))
            if missing and ("not found" in text.lower() or "ValidationException" in code or "NotFound" in code):
                raise InputError(missing, fix="check the job's name and the region") from None
            if _NOT_ACCEPTED.fullmatch(code):
                raise AuthError(f"AWS does not let these credentials {action}: {text} ({code})", fix=_WHO) from None
            raise ServiceError(f"AWS could not {action}: {text} ({code})") from None
        except (NoConnection, HTTPClientError) as error:
            raise ServiceError(f"AWS does not answer, asked to {action}: {error}", fix=self._hint()) from None
        except BotoCoreError as error:
            raise ServiceError(f"AWS could not {action}: {error}", fix=_WHO) from None

    @cached_property
    def _session(self) -> Any:
        import boto3

        return boto3.session.Session(profile_name=self.profile or None, region_name=self.region)

    @cached_property
    def _clients(self) -> dict[str, Any]:
        return {}

    def _client(self, service: str) -> Any:
        from botocore.config import Config

        if service not in self._clients:
            config = Config(connect_timeout=10, read_timeout=60, retries={"mode": "standard", "max_attempts": 5})
            self._clients[service] = self._session.client(service, config=config)
        return self._clients[service]

    def _ensure_bucket(self, client: Any, bucket: str) -> None:
        from botocore.exceptions import ClientError

        try:
            client.head_bucket(Bucket=bucket, ExpectedBucketOwner=self.account)
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") not in ("404", "NoSuchBucket"):
                raise
            # us-east-1 is the place that must not be named.
            where = {} if self.region == "us-east-1" else {"LocationConstraint": self.region}
            client.create_bucket(Bucket=bucket, **({"CreateBucketConfiguration": where} if where else {}))

    def _hint(self) -> str:
        regions = self._session.get_available_regions("sagemaker")
        if self.region in regions or not regions:
            return "check the network, the proxy and the endpoint"
        return f"is {self.region} a region? {nearest(self.region, regions)}"


LOG_GROUP = "/aws/sagemaker/TrainingJobs"
