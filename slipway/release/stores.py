"""Where a ledger's documents lie: a folder of the repository, or a bucket. Neither ever overwrites one."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from slipway.errors import AuthError, ServiceError, UsageError
from slipway.files import naming_full_disk, write_whole
from slipway.settings import Settings

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


class Store(Protocol):
    """Documents by name."""

    @property
    def place(self) -> str:
        """What people call it."""

    def names(self) -> list[str]:
        """Every document's name, sorted."""

    def read(self, name: str) -> bytes: ...

    def create(self, name: str, data: bytes) -> bool:
        """Write a document, whole; False, and nothing written, where one of that name is there."""

    def replace(self, name: str, data: bytes) -> None:
        """Write something that is made from the documents, such as a listing."""


@dataclass(frozen=True)
class Folder:
    """A folder; the repository's history keeps what is in it."""

    path: Path
    shown: str

    @property
    def place(self) -> str:
        return self.shown

    def names(self) -> list[str]:
        return sorted(path.name for path in self.path.glob("*.json")) if self.path.is_dir() else []

    def read(self, name: str) -> bytes:
        return (self.path / name).read_bytes()

    def create(self, name: str, data: bytes) -> bool:
        with naming_full_disk(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            handle, scratch = tempfile.mkstemp(prefix=f".{name}.", dir=self.path)
            try:
                with os.fdopen(handle, "wb") as stream:
                    stream.write(data)
                    stream.flush()
                    os.fsync(stream.fileno())
                Path(scratch).chmod(0o644)
                try:
                    os.link(scratch, self.path / name)  # fails where the name is taken, unlike a rename
                except FileExistsError:
                    return False
                return True
            finally:
                Path(scratch).unlink()

    def replace(self, name: str, data: bytes) -> None:
        write_whole(self.path / name, data)


@dataclass(frozen=True)
class Bucket:
    """An S3 bucket. Writes are conditional (`If-None-Match: *`), so that of two writers one is told."""

    bucket: str
    prefix: str
    endpoint: str | None = None

    @property
    def place(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")

    def names(self) -> list[str]:
        with self._speaking("list the ledger"):
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=self._key(""))
            keys = [item["Key"] for page in pages for item in page.get("Contents", [])]
        found = (key[len(self._key("")) :] for key in keys)
        return sorted(name for name in found if name.endswith(".json") and "/" not in name)

    def read(self, name: str) -> bytes:
        with self._speaking(f"read {name}"):
            return self._client.get_object(Bucket=self.bucket, Key=self._key(name))["Body"].read()

    def create(self, name: str, data: bytes) -> bool:
        from botocore.exceptions import ClientError

        with self._speaking(f"write {name}"):
            try:
                self._client.put_object(
                    Bucket=self.bucket,
                    Key=self._key(name),
                    Body=data,
                    IfNoneMatch="*",
                    ContentType="application/json",
                )
            except ClientError as error:
                if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") in (409, 412):
                    return False
                raise
        return True

    def replace(self, name: str, data: bytes) -> None:
        with self._speaking(f"write {name}"):
            self._client.put_object(Bucket=self.bucket, Key=self._key(name), Body=data)

    def _key(self, name: str) -> str:
        return f"{self.prefix}/{name}" if self.prefix else name

    @cached_property
    def _client(self) -> S3Client:
        import boto3
        from botocore.config import Config

        config = Config(connect_timeout=10, read_timeout=30, retries={"mode": "standard", "max_attempts": 5})
        return boto3.session.Session().client("s3", endpoint_url=self.endpoint, config=config)

    @contextlib.contextmanager
    def _speaking(self, action: str) -> Iterator[None]:
        from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError

        try:
            yield
        except (NoCredentialsError, PartialCredentialsError) as error:
            raise AuthError(f"no AWS credentials to {action} in {self.place}: {error}", fix="log in to AWS") from None
        except ClientError as error:
            told = error.response.get("Error", {})
            kind = AuthError if told.get("Code", "") in ("AccessDenied", "403", "ExpiredToken") else ServiceError
            said = f"{told.get('Message', '')} ({told.get('Code', '')})"
            raise kind(f"{self.place} could not {action}: {said}", fix="check the setting ledger and who may") from None
        except BotoCoreError as error:
            raise ServiceError(f"{self.place} could not {action}: {error}") from None


def of(settings: Settings) -> Store:
    """The store that the setting `ledger` names: `s3://BUCKET/PREFIX`, or a folder relative to the project's root."""
    text = settings.text("ledger")
    if text.startswith("s3://"):
        bucket, _, prefix = text.removeprefix("s3://").partition("/")
        if not bucket:
            raise UsageError(f"the setting ledger names no bucket: {text}", fix="write it as s3://BUCKET/PREFIX")
        return Bucket(bucket, prefix.strip("/"), settings.aws_endpoint("s3"))
    if "://" in text or not text:
        raise UsageError(f"the setting ledger is no place: {text!r}", fix="name a folder, or s3://BUCKET/PREFIX")
    return Folder(settings.project / text, text)
