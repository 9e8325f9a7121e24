"""What an audit compares, with registry and cosign stood in for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slipway.errors import RegistryError, TrustError
from slipway.registry import Manifest
from slipway.supply import audit, provenance, signing
from slipway.supply.audit import OK, UNKNOWN, WRONG, Known
from slipway.supply.config import Access, Signing

from .builds import COMMIT, build, hexed
from .conftest import URLS, cyclonedx, spdx

CONFIG = json.dumps({"config": {"Labels": {"org.opencontainers.image.revision": COMMIT}}}).encode()
BUILD = build(packages={"pillow": 1, "torch": 1, "libc6 (Debian)": 1})
VERSIONS = {"pillow": "11.0.0", "torch": "2.13.0+cpu", "libc6 (Debian)": "2.36-9+deb12u13"}


def manifest(kind: str = "application/vnd.oci.image.manifest.v1+json", config: str = BUILD.config_digest) -> Manifest:
    return Manifest(kind, json.dumps({"config": {"digest": config, "size": len(CONFIG)}, "layers": []}).encode())


class Registry:
    host = "registry.example"

    def __init__(self, held: Manifest | None = None) -> None:
        self.held = held

    def manifest(self, repository: str, reference: str) -> Manifest | None:
        return self.held

    def blob(self, repository: str, digest: str, size: int) -> bytes:
        return CONFIG


@pytest.fixture
def attested(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What cosign vouches for; a kind that is taken out is missing, and so is the signature."""
    predicate = provenance.predicate(BUILD, source="", builder="urn:b")
    found = {"signature": True, "slsaprovenance1": predicate, "cyclonedx": cyclonedx(*URLS), "spdxjson": spdx(*URLS)}

    def give(subject: str, kind: str, how: Signing, access: Access) -> Any:
        if kind not in found:
            raise TrustError(f"no {kind} by this key")
        return found[kind]

    monkeypatch.setattr(signing, "attested", give)
    monkeypatch.setattr(
        signing, "verify_signature", lambda subject, how, access: give(subject, "signature", how, access)
    )
    return found


def audited(held: Manifest | None = None, known: Known | None = None) -> dict[str, audit.Line]:
    how, reach = Signing(kind="key", public_key="cosign.pub"), Access()
    registry: Any = Registry(held or manifest())
    found = audit.audit(registry, "small", "1", how, reach, lambda one: known or Known())
    assert found.passed == all(line.status != WRONG for line in found.lines)
    return {line.check: line for line in found.lines}


def known(**changes: Any) -> Known:
    return Known(**{"manifest_digest": manifest().digest, "build": BUILD, "packages": VERSIONS, **changes})


def test_everything_that_agrees_passes(attested: dict[str, Any]) -> None:
    lines = audited(known=known())
    assert {line.status for line in lines.values()} == {OK}, lines
    assert len(lines) == 9


def test_a_stranger_needs_no_records(attested: dict[str, Any]) -> None:
    lines = audited()
    assert [name for name, line in lines.items() if line.status == UNKNOWN] == ["record", "build record"]
    assert {line.status for line in lines.values()} == {OK, UNKNOWN}


@pytest.mark.parametrize("missing", ["signature", *signing.KINDS])
def test_each_missing_part_is_wrong(attested: dict[str, Any], missing: str) -> None:
    del attested[missing]
    lines = audited(known=known())
    assert [name for name, line in lines.items() if line.status == WRONG] == [missing]


@pytest.mark.parametrize(
    ("check", "changes"),
    [
        ("record", {"manifest_digest": "sha256:" + hexed("0")}),
        ("build record", {"build": build(packages=BUILD.packages, lock_hash=hexed("0"))}),
        ("packages on record", {"packages": {**VERSIONS, "torch": "2.12.0"}}),
        ("packages on record", {"packages": {**VERSIONS, "numpy": "2.4.0"}}),
        ("packages on record", {"packages": {}, "build": build(packages={**BUILD.packages, "numpy": 1})}),
    ],
)
def test_each_disagreement_with_the_records_is_wrong(
    attested: dict[str, Any], check: str, changes: dict[str, Any]
) -> None:
    lines = audited(known=known(**changes))
    assert [name for name, line in lines.items() if line.status == WRONG] == [check]


def test_an_index_is_not_one_image(attested: dict[str, Any]) -> None:
    index = manifest(kind="application/vnd.oci.image.index.v1+json")
    assert audited(index)["manifest"].status == WRONG


def test_provenance_of_another_image_is_wrong(attested: dict[str, Any]) -> None:
    assert audited(manifest(config="sha256:" + hexed("0")))["slsaprovenance1"].status == WRONG
    attested["slsaprovenance1"] = provenance.predicate(build(revision="5b" * 20), source="", builder="urn:b")
    assert audited()["slsaprovenance1"].status == WRONG, "the label names another commit"


def test_sboms_that_differ_or_name_nothing_are_wrong(attested: dict[str, Any]) -> None:
    attested["spdxjson"] = spdx(*URLS[1:])
    assert audited()["both SBOMs"].status == WRONG
    attested["spdxjson"] = spdx()
    assert audited()["spdxjson"].status == WRONG
    attested["spdxjson"] = {}
    assert audited()["spdxjson"].status == WRONG


def test_an_image_that_is_not_there_is_said_to_be_so(attested: dict[str, Any]) -> None:
    registry: Any = Registry(None)
    with pytest.raises(RegistryError, match="has no 1"):
        audit.audit(registry, "small", "1", Signing(kind="key"), Access())
