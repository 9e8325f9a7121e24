"""What the doctor finds out from AWS before a release, over HTTP, against moto."""

from __future__ import annotations

import json
import shutil
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slipway import settings
from slipway.doctor import Finding
from slipway.ecr import Ecr
from slipway.errors import AuthError
from slipway.registry import Registry
from slipway.release import checkup
from slipway.release.cloud import PULLING
from tests.support.project import ROOT

pytestmark = pytest.mark.integration

US, THEM = "111122223333", "444455556666"
MADE, ABSENT = "ml/pytorch-training", "ml/pytorch-inference"


@dataclass
class Account:
    """An account of moto's, and a project that releases PyTorch there."""

    endpoint: str
    project: Path

    def client(self, service: str) -> Any:
        import boto3

        return boto3.client(service, region_name="us-east-1", endpoint_url=self.endpoint)

    def examine(self, **given: Any) -> dict[str, Finding]:
        ecr = {"kind": "ecr", "account": "123456789012", "regions": ["us-east-1"], "pulled-by": [US, THEM]}
        images = [{"framework": "pytorch", "to": ["production"]}]
        told = {"registries": {"production": ecr}, "prefix": "ml", "images": images, **given}
        (self.project / "release.yml").write_text(json.dumps(told))
        read = settings.read(project=self.project, environment={"AWS_ENDPOINT_URL": self.endpoint})
        return {one.check: one for one in checkup.examine(read)}


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    from moto.server import ThreadedMotoServer

    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setattr(Registry, "ping", lambda self: None)  # moto has no registry
    for name in ("buildspec", "dockerfiles", "toolkits"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", ".*_cache"))
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    endpoint = f"http://127.0.0.1:{server.get_host_and_port()[1]}"
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/moto-api/reset", method="POST")).close()
    yield Account(endpoint, tmp_path)
    server.stop()


def policy(*accounts: str, actions: Any = PULLING, but: str = "", **more: Any) -> str:
    """Lets these accounts do `actions`, and none of them do `but`."""
    principal = {"AWS": [f"arn:aws:iam::{one}:root" for one in accounts]}
    statement = {"Effect": "Allow", "Principal": principal, "Action": actions, **more}
    refusal = {"Effect": "Deny", "Principal": "*", "Action": but}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement, *([refusal] if but else [])]})


def test_who_may_pull_and_how_images_are_encrypted(account: Account) -> None:
    found = account.examine()["repositories"]
    assert found.status == "warn" and f"not made yet: {ABSENT}, {MADE}" in found.told
    ecr, key = account.client("ecr"), account.client("kms").create_key()["KeyMetadata"]["Arn"]
    ecr.create_repository(repositoryName=MADE, encryptionConfiguration={"encryptionType": "KMS", "kmsKey": key})
    ecr.create_repository(repositoryName=ABSENT)
    found = account.examine()["repositories"]
    assert f"{MADE}: encrypted with KMS {key}" in found.told and f"{ABSENT}: encrypted with AES256" in found.told
    assert found.told.count(f"no policy lets {US}, {THEM} pull") == 2
    assert f"aws ecr set-repository-policy --region us-east-1 --repository-name {ABSENT}" in found.fix
    ecr.set_repository_policy(repositoryName=ABSENT, policyText=policy(US, THEM, actions="ecr:*"))
    for text, out in (
        (policy(US), THEM),
        (policy(US, THEM, actions=PULLING[:2]), f"{US}, {THEM}"),
        (policy(US, THEM, Condition={"StringEquals": {"aws:PrincipalTag/team": "ml"}}), f"{US}, {THEM}"),
        (policy(US, THEM, but="ecr:BatchGet*"), f"{US}, {THEM}"),
    ):
        ecr.set_repository_policy(repositoryName=MADE, policyText=text)
        found = account.examine()["repositories"]
        assert (found.status, found.told.count(" pull")) == ("warn", 1)
        assert f"{MADE}: its policy does not let {out} pull" in found.told
    ecr.set_repository_policy(repositoryName=MADE, policyText=policy(US, THEM))
    found = account.examine()["repositories"]
    assert (found.status, found.fix) == ("ok", "")


def test_what_may_not_be_looked_at_is_said(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Ecr, name: str) -> None:
        raise AuthError(f"may not describe {name}", fix="ask")

    monkeypatch.setattr(Ecr, "repository", refuse)
    found = account.examine()["repositories"]
    assert found.status == "warn" and found.fix.startswith("ask; ") and "ecr:GetRepositoryPolicy" in found.fix


def test_a_signing_key_in_kms(account: Account) -> None:
    kms = account.client("kms")
    signs = kms.create_key(KeyUsage="SIGN_VERIFY", KeySpec="ECC_NIST_P256")["KeyMetadata"]
    kms.create_alias(AliasName="alias/release", TargetKeyId=signs["KeyId"])
    encrypts = kms.create_key(KeyUsage="ENCRYPT_DECRYPT")["KeyMetadata"]["Arn"]

    def look(key: str) -> Finding:
        return account.examine(registries={}, images=[], signing={"kind": "kms", "key": key})["signing key"]

    for key in ("awskms:///alias/release", f"awskms:///{signs['Arn']}"):
        found = look(key)
        assert (found.status, found.told) == ("ok", f"{key}: ECC_NIST_P256, enabled, SIGN_VERIFY")
    found = look("awskms:///alias/releese")
    assert found.status == "warn" and "AWS KMS has no awskms:///alias/releese" in found.told
    assert "correct key: under signing:" in found.fix
    found = look(f"awskms:///{encrypts}")
    assert found.status == "warn" and "is for ENCRYPT_DECRYPT" in found.told and found.fix
    kms.disable_key(KeyId=signs["KeyId"])
    found = look("awskms:///alias/release")
    assert found.status == "warn" and "is Disabled" in found.told and signs["KeyId"] in found.fix
