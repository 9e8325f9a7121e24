"""Releases to ECR in two regions, as moto plays it, with the ledger in a bucket."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slipway.errors import AuthError
from tests.support.project import Project
from tests.support.proxy import Harm, Proxy, Request, proxying
from tests.support.registries import PasswordRegistry, make

pytestmark = pytest.mark.integration

TRAINING, INFERENCE = "pytorch-training-2.13.0-cpu-py311", "pytorch-inference-2.13.0-cpu-py311"
TAG = "2.13.0-cpu-py311-debian12"
TOKEN = ("AWS", "123456789012-auth-token")  # the pair inside every token that moto's ECR gives
REGIONS = ("us-east-1", "eu-west-1")


@dataclass
class Aws:
    """moto over HTTP, a registry for each region behind a proxy, and a project that releases there."""

    project: Project
    endpoint: str
    regions: dict[str, PasswordRegistry]
    proxies: dict[str, Proxy]
    bucket: str

    def client(self, service: str, region: str = "us-east-1") -> Any:
        import boto3

        return boto3.client(service, region_name=region, endpoint_url=self.endpoint)

    @property
    def ledger(self) -> list[dict[str, Any]]:
        s3 = self.client("s3")
        keys = [item["Key"] for item in s3.list_objects_v2(Bucket=self.bucket).get("Contents", [])]
        found = (s3.get_object(Bucket=self.bucket, Key=key)["Body"].read() for key in keys if key.endswith(".json"))
        return [json.loads(body) for body in found]


@pytest.fixture
def aws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Aws]:
    from moto.server import ThreadedMotoServer

    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with ExitStack() as stack:
        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        stack.callback(server.stop)
        regions = {name: make(tmp_path / name, *TOKEN) for name in REGIONS}
        for registry in regions.values():
            registry.start()
            stack.callback(registry.kill)
        proxies = {name: stack.enter_context(proxying(registry.port)) for name, registry in regions.items()}
        endpoint = f"http://127.0.0.1:{server.get_host_and_port()[1]}"
        bucket = f"ledger-{secrets.token_hex(4)}"  # all of moto's servers share what they hold
        project = Project(tmp_path / "project")
        stack.callback(project.close)
        project.environment = {"AWS_ENDPOINT_URL": endpoint, "SLIPWAY_LEDGER": f"s3://{bucket}/ml"}
        account = {
            "kind": "ecr",
            "account": "123456789012",
            "regions": list(REGIONS),
            "role": "arn:aws:iam::123456789012:role/release",
            "hosts": {name: proxy.host for name, proxy in proxies.items()},
        }
        project.configure({"production": account})
        aws = Aws(project, endpoint, regions, proxies, bucket)
        aws.client("s3").create_bucket(Bucket=aws.bucket)
        yield aws


def test_a_release_to_ecr_in_two_regions_with_its_ledger_in_a_bucket(aws: Aws) -> None:
    shared = os.urandom(1 << 20)
    builds = [aws.project.build(image, image.encode(), below=shared) for image in (TRAINING, INFERENCE)]
    aws.project.told("release", "--framework", "pytorch")
    for build, scope in zip(builds, ("training", "inference"), strict=True):
        repository = f"{aws.project.prefix}/pytorch-{scope}"
        for region, registry in aws.regions.items():
            assert registry.digest(repository, f"{TAG}-v1") == build.engine_id
            assert registry.digest(repository, "2.13-cpu-py311") == build.engine_id
            (made,) = aws.client("ecr", region).describe_repositories(repositoryNames=[repository])["repositories"]
            assert made["imageTagMutability"] == "IMMUTABLE_WITH_EXCLUSION"
    (entry,) = aws.ledger
    assert [place["region"] for place in entry["images"][0]["places"]] == list(REGIONS)
    uri = aws.project.invoke("image-uri", "--framework", "pytorch", "--region", "eu-west-1")
    host = aws.proxies["eu-west-1"].host
    assert uri.stdout.strip() == f"{host}/{aws.project.prefix}/pytorch-training:{TAG}-v1"
    aws.project.build(TRAINING, b"two")
    aws.project.told("release", "--only", TRAINING)
    aws.project.told("rollback", TRAINING, "--reason", "crashes")
    assert [entry["kind"] for entry in aws.ledger] == ["release", "release", "rollback"]
    assert aws.regions["eu-west-1"].digest(f"{aws.project.prefix}/pytorch-training", TAG) == builds[0].engine_id
    # No token is left on disk.
    files = [path for path in (aws.project.folder / ".slipway").rglob("*") if path.is_file()]
    assert files and not any(TOKEN[1].encode() in path.read_bytes() for path in files)


def test_a_bucket_that_cannot_be_written_moves_no_tag(aws: Aws) -> None:
    aws.project.build(TRAINING, b"one")
    aws.project.environment["SLIPWAY_LEDGER"] = "s3://nowhere"
    done = aws.project.invoke("release", "--only", TRAINING)
    assert done.returncode == 17 and "NoSuchBucket" in done.stderr
    assert not any(request.writes for proxy in aws.proxies.values() for request in proxy.asked)


def test_an_upload_that_meets_failures_goes_on(aws: Aws) -> None:
    """The engine's own upload is refused once in the middle, and once with an error that passes."""
    build = aws.project.build(TRAINING, os.urandom(1 << 20))
    seen = []

    def harm(request: Request) -> Harm | None:
        seen.append(request.method)
        if request.method == "PUT" and seen.count("PUT") == 1:
            return Harm(status=500, code="UNKNOWN", message="on fire")
        return None

    aws.proxies["us-east-1"].harm = harm
    (released,) = aws.project.told("release", "--only", TRAINING)
    assert released["manifest_digest"] == build.engine_id
    assert aws.regions["eu-west-1"].digest(f"{aws.project.prefix}/pytorch-training", f"{TAG}-v1") == build.engine_id


def test_a_failed_promotion_in_ecr_is_taken_back(aws: Aws) -> None:
    aws.project.build(TRAINING, b"one")
    repository = f"{aws.project.prefix}/pytorch-training"
    aws.proxies["eu-west-1"].harm = lambda request: (
        Harm(403, "DENIED", "not today") if request.names_a_tag and request.path.endswith("/2.13-cpu-py311") else None
    )
    done = aws.project.invoke("release", "--only", TRAINING)
    assert done.returncode == AuthError.exit_code and "every tag is where it was" in done.stderr
    for registry in aws.regions.values():
        assert {tag for tag in registry.tags(repository) if not tag.startswith("sha256-")} == set()
    assert aws.ledger == []
