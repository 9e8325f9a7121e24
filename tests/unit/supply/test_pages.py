"""docs/supply-chain.md: its policies are policies, its actions exist, and none that the code needs is missing."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from slipway.release.schema import ScanPart, SigningPart
from slipway.supply import signing
from slipway.supply.config import SCANNERS
from tests.unit.conftest import ROOT

PAGE = (ROOT / "docs/supply-chain.md").read_text(encoding="utf-8")
POLICIES = [json.loads(text) for text in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]


def operations(service: str) -> set[str]:
    import botocore.session

    return set(botocore.session.get_session().get_service_model(service).operation_names)


@pytest.mark.parametrize("service", ["ecr", "sts", "kms"])
def test_every_action_is_one(service: str) -> None:
    named = set(re.findall(rf"\b{service}:([A-Z][a-z]\w+)", PAGE))
    assert named
    assert named <= operations(service)


def test_every_call_of_the_code_is_allowed_by_some_row() -> None:
    source = (ROOT / "slipway/ecr.py").read_text(encoding="utf-8")
    called = {name.title().replace("_", "") for name in re.findall(r"self\._client\.([a-z]+(?:_[a-z]+)+)\(", source)}
    assert len(called) > 5
    assert {f"ecr:{name}" for name in called} <= set(re.findall(r"`(ecr:\w+)`", PAGE))


def test_policies_are_policies() -> None:
    assert len(POLICIES) == 3
    for policy in POLICIES:
        assert policy["Version"] == "2012-10-17"
        for statement in policy["Statement"]:
            assert statement["Effect"] == "Allow"
            assert ("Resource" in statement) != ("Principal" in statement), "of an identity, or of a resource"


def test_its_examples_are_what_release_yml_takes() -> None:
    kinds = [yaml.safe_load(text)["signing"] for text in re.findall(r"^    (signing: \{.*?\})$", PAGE, re.M | re.S)]
    assert [SigningPart.model_validate(given).kind for given in kinds] == ["key", "kms", "keyless"]
    (block,) = re.findall(r"^    scan:\n(?:     .*\n)+", PAGE, re.MULTILINE)
    scan = ScanPart.model_validate(yaml.safe_load(block)["scan"])
    assert scan.allow[0].package == "pillow"


def test_every_scanner_and_attestation_is_told() -> None:
    told = re.findall(r"^\| `([a-z-]+)` \|", PAGE, re.MULTILINE)
    assert {name for name in SCANNERS if name != "none"} <= set(told)
    for kind in signing.KINDS:
        assert kind in PAGE
