"""Objects of S3 brought to this machine the way a File-mode channel gets them, and files brought there."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any

from slipway.errors import AuthError, Fault, InputError, SlipwayError
from slipway.files import naming_full_disk

Take = Callable[[str, IO[bytes]], None]
"""Stores content under a name."""

_MAKING = threading.Lock()
"""Clients may be used by many threads, but are made by one at a time."""

_NOT_ACCEPTED = ("AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "403")


def download(location: str, target: Path, endpoint: str | None, *, may_be_empty: bool = False) -> None:
    """Bring every object whose key begins with the prefix of `location` into the new folder `target`.

    The part of the key below the prefix is kept as sub-folders. `endpoint` None: AWS's own. Raises InputError when
    there is nothing at the location or it cannot be kept in a folder, AuthError when the credentials do not suffice.
    """
    bucket, _, prefix = location.removeprefix("s3://").partition("/")
    with _client(location, endpoint, "read") as client:
        objects = _objects(client, bucket, prefix)
        names = {} if may_be_empty and not objects else _names(location, prefix, objects)
        target.mkdir(parents=True)
        for key, name in names.items():
            _fetch(client, bucket, key, target / name)


def download_object(location: str, target: Path, endpoint: str | None) -> None:
    """Bring one object here, as the file `target`. Raises as `download` does."""
    bucket, _, key = location.removeprefix("s3://").partition("/")
    with _client(location, endpoint, "read") as client:
        _fetch(client, bucket, key, target)


def read_object(location: str, endpoint: str | None, most: int) -> bytes:
    """One object's content. Raises as `download` does, and InputError when it has more than `most` bytes."""
    bucket, _, key = location.removeprefix("s3://").partition("/")
    with _client(location, endpoint, "read") as client:
        found = client.get_object(Bucket=bucket, Key=key)
        with contextlib.closing(found["Body"]) as body:
            if found["ContentLength"] > most:
                raise InputError(f"{location} has {found['ContentLength']:,} bytes; {most:,} are taken")
            content: bytes = body.read()
            return content


@contextlib.contextmanager
def uploading(location: str, endpoint: str | None) -> Iterator[Take]:
    """A way to store files below the prefix of `location`. Raises as `download` does."""
    bucket, _, prefix = location.removeprefix("s3://").partition("/")
    folder = prefix.rstrip("/") + "/" if prefix else ""
    with _client(location, endpoint, "written") as client:
        yield lambda name, content: client.upload_fileobj(content, bucket, folder + name)


def _fetch(client: Any, bucket: str, key: str, path: Path) -> None:
    with naming_full_disk(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        client.download_file(bucket, key, str(path))


@contextlib.contextmanager
def _client(location: str, endpoint: str | None, done: str) -> Iterator[Any]:
    """A client of S3, what goes wrong with it told of the location. `done`: what is done there (read, written)."""
    import boto3
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

    try:
        with _MAKING:
            client = boto3.client("s3", endpoint_url=endpoint)
        yield client
    except ClientError as error:
        raise _refused(location, error.response["Error"], done) from None
    except NoCredentialsError:
        fix = "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        raise AuthError(f"{location} cannot be {done}: there are no AWS credentials", fix=fix) from None
    except (BotoCoreError, Boto3Error) as error:
        fix = "check the network, and AWS_ENDPOINT_URL_S3 if it is set"
        raise InputError(f"{location} cannot be {done}: {error}", fix=fix) from None


def _objects(client: Any, bucket: str, prefix: str) -> list[str]:
    """The keys with that prefix. A key that ends with a slash is a folder's marker of some tools, not data."""
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    return [item["Key"] for page in pages for item in page.get("Contents", []) if not item["Key"].endswith("/")]


def _names(location: str, prefix: str, keys: list[str]) -> dict[str, str]:
    """The relative file name of each key."""
    if not keys:
        raise InputError(f"there is no object at {location}", fix="check bucket and prefix")
    # The prefix `data/tr` also means data/train.csv: names begin after its last slash, unless it is a folder itself.
    parent = prefix[: prefix.rfind("/") + 1]
    names = {key: key[len(prefix) + 1 if key.startswith(f"{prefix}/") else len(parent) :] for key in keys}
    taken = {str(folder) for name in names.values() for folder in PurePosixPath(name).parents}
    faults = []
    for key, name in names.items():
        if re.search(r"(^|/)\.{0,2}(/|$)", name):
            faults.append(Fault(f"{location}: no file can be named as the key {key!r} asks", "rename the object"))
        elif name in taken:
            faults.append(Fault(f"{location}: {key!r} is an object and a folder of others", "rename one of them"))
    if faults:
        raise InputError(f"{location} has keys that cannot be files", faults=faults)
    return names


def _refused(location: str, error: Any, done: str) -> SlipwayError:
    code, message = error.get("Code", ""), error.get("Message", "")
    if code in _NOT_ACCEPTED:
        return AuthError(f"AWS did not allow {location} to be {done}: {code} {message}", fix="check the credentials")
    if code == "NoSuchBucket":
        return InputError(f"there is no bucket for {location}", fix="check its name and region")
    if code in ("404", "NoSuchKey"):
        return InputError(f"there is no object at {location}", fix="check bucket and key")
    return InputError(f"{location} cannot be {done}: {code} {message}", fix="check the location")
