"""ECR's scanning over HTTP, against moto: asked for, waited for, several pages, refusals."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from slipway.ecr import Ecr
from slipway.errors import AuthError, RegistryError, ScanError
from slipway.supply import ecr_scan, gate
from slipway.supply.config import Gate
from slipway.supply.gate import Target

pytestmark = pytest.mark.integration

ACCOUNT = "123456789012"
AT_ONCE = ecr_scan.Patience(limit=0, between=0)


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    from moto.server import ThreadedMotoServer

    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    address = f"http://127.0.0.1:{server.get_host_and_port()[1]}"
    urllib.request.urlopen(urllib.request.Request(f"{address}/moto-api/reset", method="POST")).close()
    yield address
    server.stop()


@pytest.fixture
def client(endpoint: str) -> Any:
    import boto3

    return boto3.client("ecr", region_name="us-east-1", endpoint_url=endpoint)


@pytest.fixture
def digest(client: Any) -> str:
    """An image in the repository `small`."""
    client.create_repository(repositoryName="small")
    kind = "application/vnd.oci.image.manifest.v1+json"
    config = {"digest": "sha256:" + "c" * 64, "size": 1}
    manifest = {"schemaVersion": 2, "mediaType": kind, "config": config, "layers": []}
    put = client.put_image(repositoryName="small", imageManifest=json.dumps(manifest), imageTag="1")
    return str(put["image"]["imageId"]["imageDigest"])


def test_a_scan_is_asked_for_and_its_findings_stop_the_image(endpoint: str, digest: str) -> None:
    ecr = Ecr(ACCOUNT, "us-east-1", "", endpoint, endpoint)
    assert ecr.image_scan("small", digest) is None
    target = Target(ecr=ecr, repository="small", digest=digest, patience=ecr_scan.Patience(limit=60, between=0.01))
    scan = gate.findings(target, Gate(scanner="ecr"))
    (found,) = scan.findings
    assert (found.severity, found.package, scan.covers) == ("high", "moto_fake", ("debian",))
    ecr.start_scan("small", digest)  # the second of a day, which ECR refuses: as good


def test_enhanced_findings_over_http(endpoint: str, digest: str) -> None:
    finding = {
        "severity": "CRITICAL",
        "status": "ACTIVE",
        "packageVulnerabilityDetails": {
            "vulnerabilityId": "CVE-2026-11",
            "vulnerablePackages": [{"name": "pillow", "version": "11.0.0", "packageManager": "PYTHONPKG"}],
        },
    }
    result = {
        "registryId": ACCOUNT,
        "repositoryName": "small",
        "imageId": {"imageDigest": digest},
        "imageScanStatus": {"status": "ACTIVE", "description": "looked at without end"},
        "imageScanFindings": {"enhancedFindings": [finding]},
    }
    asked = urllib.request.Request(
        f"{endpoint}/moto-api/static/ecr/scan-finding-results",
        data=json.dumps({"results": [result], "region": "us-east-1"}).encode(),
        headers={"Content-Type": "application/json"},
    )
    urllib.request.urlopen(asked).close()
    ecr = Ecr(ACCOUNT, "us-east-1", "", endpoint, endpoint)
    ecr.start_scan("small", digest)
    (found,), covers = ecr_scan.scan(ecr, "small", digest, AT_ONCE)
    assert (found.id, found.kind, "python" in covers) == ("CVE-2026-11", "python", True)


def test_pages_are_joined(endpoint: str, digest: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ecr = Ecr(ACCOUNT, "us-east-1", "", endpoint, endpoint)
    status = {"imageScanStatus": {"status": "COMPLETE"}}
    pages = {
        None: {**status, "imageScanFindings": {"findings": [{"name": "CVE-1"}]}, "nextToken": "t"},
        "t": {**status, "imageScanFindings": {"findings": [{"name": "CVE-2"}]}},
    }
    monkeypatch.setattr(ecr._client, "describe_image_scan_findings", lambda **asked: pages[asked.get("nextToken")])
    found, _ = ecr_scan.scan(ecr, "small", digest, AT_ONCE)
    assert [one.id for one in found] == ["CVE-1", "CVE-2"]


def test_what_is_not_there_or_not_allowed_is_no_clean_image(
    endpoint: str, digest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ecr = Ecr(ACCOUNT, "us-east-1", "", endpoint, endpoint)
    with pytest.raises(RegistryError):
        ecr_scan.scan(ecr, "other", digest, AT_ONCE)
    monkeypatch.setattr(Ecr, "start_scan", lambda *_: None)
    with pytest.raises(ScanError, match="did not end its scan"):
        ecr_scan.scan(ecr, "small", digest, AT_ONCE)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    with pytest.raises(AuthError):
        ecr_scan.scan(Ecr(ACCOUNT, "us-east-1", "", endpoint, endpoint), "small", digest, AT_ONCE)
