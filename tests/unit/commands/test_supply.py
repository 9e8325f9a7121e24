"""What the commands of the supply chain make of their words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from invoke.exceptions import Exit

from slipway.commands import supply
from slipway.errors import UsageError
from slipway.records import Records
from slipway.release.config import ReleaseConfig
from slipway.release.ledger import History
from slipway.spec.select import Selector
from slipway.supply.config import Signing
from tests.unit.release.entries import digest, history, released

ROOT = Path(__file__).parents[3]
TOLD = history(released(1, "a", "a"), released(2, "a", "b"))


def located(image: str, tmp_path: Path, told: History = TOLD) -> tuple[str, str, str]:
    return supply._located(image, told, Records(tmp_path))


@pytest.mark.parametrize(
    "name",
    [
        "a",
        "1.2.0-cpu-py311-debian12-v2",
        digest("b"),
        "small-training:1.2.0-cpu-py311-debian12-v2",
        "registry.example/small-training:1.2.0-cpu-py311-debian12-v2",
        f"registry.example/small-training@{digest('b')}",
    ],
)
def test_what_was_released_is_found_by_any_of_its_names(name: str, tmp_path: Path) -> None:
    assert located(name, tmp_path) == ("registry.example", "small-training", digest("b"))


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("other.example/ml/x:1.2", ("other.example", "ml/x", "1.2")),
        ("127.0.0.1:5000/x:1.2", ("127.0.0.1:5000", "x", "1.2")),
        (f"localhost/x:1@{digest('c')}", ("localhost", "x", digest("c"))),
    ],
)
def test_any_other_image_is_found_by_its_uri(name: str, found: tuple[str, str, str], tmp_path: Path) -> None:
    assert located(name, tmp_path) == found


@pytest.mark.parametrize("name", ["x", "x:1", "ml/x:1", "other.example/x", ""])
def test_what_is_neither_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nor a URI"):
        located(name, tmp_path)


def test_the_key_is_the_one_given_else_that_of_release_yml(tmp_path: Path) -> None:
    key = tmp_path / "cosign.pub"
    key.touch()
    own = Signing(kind="key", key="k", public_key="p")
    release = ReleaseConfig(signing=own)
    assert supply._signing("", "", "", release) == own
    assert supply._signing(str(key), "", "", release).public_key == str(key)
    assert supply._signing("awskms:///alias/x", "", "", release).kind == "kms"
    keyless = supply._signing("", "me", "https://token.example", release)
    assert (keyless.kind, keyless.identity, keyless.issuer) == ("keyless", "me", "https://token.example")


@pytest.mark.parametrize(
    ("key", "identity", "issuer", "told"),
    [
        ("", "", "", "no key to check with"),
        ("/nowhere/cosign.pub", "", "", "no public key"),
        ("", "me", "", "go together"),
        ("", "", "https://token.example", "go together"),
        ("awskms:///alias/x", "me", "https://token.example", "in place of --key"),
    ],
)
def test_keys_that_make_no_sense_are_refused(key: str, identity: str, issuer: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        supply._signing(key, identity, issuer, ReleaseConfig())


def test_the_matrix_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    supply.ci_matrix(Selector(framework="pytorch"))
    (line,) = capsys.readouterr().out.splitlines()
    (job,) = json.loads(line)["include"]
    assert set(job) == {"name", "select", "images", "runner", "processor"}


def test_known_goes_with_an_index(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    with pytest.raises(Exit) as caught:
        supply.wheels("dist", "https://index.example/simple/", False)
    assert caught.value.code == UsageError.exit_code
    assert "goes with an index" in capsys.readouterr().err
