"""What the doctor says of releasing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slipway import settings
from slipway.doctor import Finding
from slipway.errors import AuthError
from slipway.registry import Registry
from slipway.release import checkup
from tests.unit.conftest import ROOT

ECR = {"kind": "ecr", "account": "123456789012", "regions": ["us-east-1"]}
KEY = {"kind": "key", "key": "keys/cosign.key", "public-key": "keys/cosign.pub"}


def examine(folder: Path, given: dict[str, Any]) -> list[Finding]:
    (folder / "release.yml").write_text(json.dumps(given))
    return checkup.examine(settings.read(project=folder, environment={"HOME": str(folder)}))


@pytest.fixture
def accepting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup.access, "credentials", lambda *_: None)
    monkeypatch.setattr(Registry, "ping", lambda self: None)


def test_a_sound_configuration_is_ok(tmp_path: Path, accepting: None) -> None:
    (tmp_path / "keys").mkdir()
    for name in ("cosign.key", "cosign.pub"):
        (tmp_path / "keys" / name).touch()
    found = examine(tmp_path, {"registries": {"production": ECR}, "signing": KEY})
    assert [one.status for one in found] == ["ok", "ok"]
    assert examine(tmp_path, {"registries": {}}) == []


def test_refused_credentials_are_a_warning_that_names_the_permissions(
    tmp_path: Path, accepting: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Registry) -> None:
        raise AuthError("not accepted", fix="log in")

    monkeypatch.setattr(Registry, "ping", refuse)
    team = {"kind": "oci", "host": "registry.example"}
    ecr, other = examine(tmp_path, {"registries": {"production": ECR, "team": team}})
    assert (ecr.status, ecr.told) == ("warn", "not accepted")
    assert "ecr:PutImage" in ecr.fix and "docs/supply-chain.md" in ecr.fix
    assert other.fix == "log in"


def test_a_missing_key_is_a_warning_and_a_faulty_file_a_failure(tmp_path: Path, accepting: None) -> None:
    (found,) = examine(tmp_path, {"signing": KEY})
    assert (found.check, found.status) == ("signing key", "warn")
    (found,) = examine(tmp_path, {"no-such-key": 1})
    assert (found.status, found.code) == ("fail", 3)


def test_the_permissions_are_those_of_the_page() -> None:
    page = (ROOT / "docs/supply-chain.md").read_text(encoding="utf-8")
    policy = page.split("The least that a releaser needs:")[1].split("```json")[1].split("```")[0]
    (actions,) = [one["Action"] for one in json.loads(policy)["Statement"] if "repository" in one["Resource"]]
    assert sorted(actions) == [f"ecr:{name}" for name in checkup.ACTIONS]
