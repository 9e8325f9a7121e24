"""What cosign is told and in what way, and what its complaints mean. The real cosign: tests/integration."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from slipway.errors import AuthError, ProgramError, RegistryError, SlipwayError, TrustError
from slipway.supply import signing
from slipway.supply.config import Access, Signing

DIGEST = "sha256:" + "ab" * 32
SUBJECT = f"registry.example:5000/ml/small@{DIGEST}"
KEY = Signing(kind="key", key="/keys/cosign.key", public_key="/keys/cosign.pub", password_from="KEY_PASSWORD")
ACCESS = Access(username="robot", password="s3cret", environment={"KEY_PASSWORD": "0pen"})

# Writes down what it is given; unsigned until told otherwise.
COSIGN = """
case "$2" in --help) echo "--new-bundle-format=false"; exit 0 ;; esac
here=$(dirname "$0")
env >"$here/$1.environment"
cp "$DOCKER_CONFIG/config.json" "$here/$1.login"
stat -c %a "$DOCKER_CONFIG" >"$here/$1.mode"
if [ "$1" = verify ] && ! [ -e "$here/signed" ]; then echo "Error: no signatures found" >&2; exit 10; fi
if [ "$1" = verify-attestation ]; then cat "$here/envelope"; fi
"""


@pytest.fixture
def cosign(program: Callable[[str, str], Path]) -> Path:
    """The stand-in's folder; what it was called with is in cosign.calls beside it."""
    signing._older_format.cache_clear()
    return program("cosign", COSIGN).parent / "bin"


def calls(cosign: Path, command: str) -> list[str]:
    lines = (cosign.parent / "cosign.calls").read_text().splitlines()
    return [line for line in lines if line.startswith(f"{command} ") and "--help" not in line]


def envelope(statement: object) -> str:
    payload = base64.b64encode(json.dumps(statement).encode()).decode()
    return json.dumps({"payloadType": "application/vnd.in-toto+json", "payload": payload, "signatures": []})


def statement(kind: str, digest: str = DIGEST, predicate: object = None) -> dict[str, object]:
    subject = [{"name": "x", "digest": {"sha256": digest.removeprefix("sha256:")}}]
    return {"predicateType": signing.KINDS[kind], "subject": subject, "predicate": predicate or {"a": 1}}


def test_a_digest_is_signed_without_a_public_log_and_no_secret_is_an_argument(cosign: Path) -> None:
    assert signing.sign(SUBJECT, KEY, ACCESS) == f"registry.example:5000/ml/small:sha256-{'ab' * 32}.sig"
    (call,) = calls(cosign, "sign")
    assert "--key /keys/cosign.key" in call
    assert "--tlog-upload=false" in call
    assert "--new-bundle-format=false" in call
    assert call.endswith(SUBJECT)
    assert "allow-http" not in call
    every = (cosign.parent / "cosign.calls").read_text()
    assert "s3cret" not in every
    assert "0pen" not in every
    environment = (cosign / "sign.environment").read_text()
    assert "COSIGN_PASSWORD=0pen" in environment
    assert "s3cret" not in environment
    login = json.loads((cosign / "sign.login").read_text())
    assert base64.b64decode(login["auths"]["registry.example:5000"]["auth"]) == b"robot:s3cret"
    assert (cosign / "sign.mode").read_text() == "700\n"
    folder = next(line for line in environment.splitlines() if line.startswith("DOCKER_CONFIG=")).partition("=")[2]
    assert not Path(folder).exists()


def test_checking_gets_no_password_and_the_public_key_alone(cosign: Path) -> None:
    (cosign / "signed").touch()
    signing.verify_signature(SUBJECT, KEY, ACCESS)
    (call,) = calls(cosign, "verify")
    assert "--key /keys/cosign.pub" in call
    assert "cosign.key" not in call
    assert "COSIGN_PASSWORD" not in (cosign / "verify.environment").read_text()


def test_what_is_signed_is_not_signed_again(cosign: Path) -> None:
    (cosign / "signed").touch()
    signing.sign(SUBJECT, KEY, ACCESS)
    assert calls(cosign, "sign") == []


def test_keys_in_kms_and_keyless_identities(cosign: Path) -> None:
    kms = Signing(kind="kms", key="awskms:///alias/release", public_key="/keys/cosign.pub")
    signing.sign(SUBJECT, kms, ACCESS)
    assert "--key awskms:///alias/release" in calls(cosign, "sign")[0]
    keyless = Signing(kind="keyless", identity="https://ci.example/w@main", issuer="https://token.example")
    signing.sign(SUBJECT, keyless, ACCESS)
    assert "--key" not in calls(cosign, "sign")[1]
    assert "--tlog-upload" not in calls(cosign, "sign")[1]
    checked = calls(cosign, "verify")[1]
    assert "--certificate-identity https://ci.example/w@main --certificate-oidc-issuer https://token.example" in checked
    assert "insecure-ignore-tlog" not in checked


def test_attestations_replace_those_of_their_kind(cosign: Path, tmp_path: Path) -> None:
    plain = Access(insecure=True, environment=ACCESS.environment)
    assert signing.attest(SUBJECT, tmp_path / "p.json", "cyclonedx", KEY, plain).endswith(".att")
    (call,) = calls(cosign, "attest")
    assert f"--type cyclonedx --predicate {tmp_path}/p.json --replace" in call
    assert "--allow-http-registry" in call
    assert json.loads((cosign / "attest.login").read_text()) == {"auths": {}}


def test_an_attestation_must_speak_of_this_image_and_this_kind(cosign: Path) -> None:
    def attested(*given: dict[str, object]) -> dict[str, object]:
        (cosign / "envelope").write_text("".join(envelope(one) + "\n" for one in given) + "no envelope\n")
        return signing.attested(SUBJECT, "cyclonedx", KEY, ACCESS)

    assert attested(statement("spdxjson"), statement("cyclonedx", predicate={"b": 2})) == {"b": 2}
    for wrong in (statement("spdxjson"), statement("cyclonedx", digest="sha256:" + "0" * 64)):
        with pytest.raises(TrustError, match="no cyclonedx attestation"):
            attested(wrong)
    with pytest.raises(TrustError):
        attested()


def test_everything_that_is_missing_is_named_at_once(cosign: Path) -> None:
    (cosign / "envelope").write_text(envelope(statement("cyclonedx")))
    with pytest.raises(TrustError) as caught:
        signing.verify(SUBJECT, KEY, ACCESS)
    told = [fault.what for fault in caught.value.faults]
    assert len(told) == 3
    assert ["signature" in told[0], "slsaprovenance1" in told[1], "spdxjson" in told[2]] == [True] * 3


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("GET https://r/v2/: UNAUTHORIZED: authentication required", AuthError),
        ("PUT https://r/v2/: DENIED: not you", AuthError),
        ("dial tcp 127.0.0.1:1: connect: connection refused", RegistryError),
        ("MANIFEST_UNKNOWN: manifest unknown", RegistryError),
        ("invalid signature when validating ASN.1 encoded signature", TrustError),
        ("something of a later version", TrustError),
    ],
)
def test_complaints_when_checking(program: Callable[[str, str], Path], said: str, error: type[SlipwayError]) -> None:
    signing._older_format.cache_clear()
    program("cosign", f"echo 'WARNING: x' >&2; echo 'main.go:1: error during command execution: {said}' >&2; exit 1")
    with pytest.raises(error, match=said[:20]):
        signing.verify_signature(SUBJECT, KEY, ACCESS)


def test_a_failed_signature_is_the_keys_trouble_not_the_images(program: Callable[[str, str], Path]) -> None:
    signing._older_format.cache_clear()
    program("cosign", "echo 'reading key: decrypt: encrypted' >&2; exit 1")
    with pytest.raises(ProgramError, match="decrypt"):
        signing.sign(SUBJECT, KEY, ACCESS)


def test_a_password_that_is_not_set_is_named(cosign: Path) -> None:
    with pytest.raises(AuthError, match="KEY_PASSWORD"):
        signing.sign(SUBJECT, KEY, Access())


def test_without_cosign_the_next_step_is_told(program: Callable[[str, str], Path]) -> None:
    with pytest.raises(ProgramError, match="cosign") as caught:
        signing.sign(SUBJECT, KEY, ACCESS)
    assert "install" in caught.value.fix


@pytest.mark.parametrize("subject", ["registry.example/small:1.2", "small@sha256:00", "registry.example/small"])
def test_only_digests_are_signed(subject: str) -> None:
    with pytest.raises(ValueError, match="sha256"):
        signing.sign(subject, KEY, ACCESS)
