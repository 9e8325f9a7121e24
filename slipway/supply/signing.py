"""Signatures and attestations with cosign, of images by their digest.

cosign keeps them in the image's repository, under tags made from its digest (`sha256-….sig`, `sha256-….att`); the image
and its own tags stay as they are, one manifest each. Secrets reach cosign by its environment and by a folder that is
gone afterwards, never by its command line.
"""

from __future__ import annotations

import base64
import contextlib
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from slipway import process
from slipway.errors import AuthError, Fault, ProgramError, RegistryError, SlipwayError, TrustError
from slipway.files import write_whole
from slipway.supply import programs
from slipway.supply.config import Access, Signing

# What may be attested: cosign's names, and the predicate types that they stand for.
KINDS: Mapping[str, str] = {
    "slsaprovenance1": "https://slsa.dev/provenance/v1",
    "cyclonedx": "https://cyclonedx.org/bom",
    "spdxjson": "https://spdx.dev/Document",
}
COSIGN_FIX = "install cosign 2 (Debian 13: `apt-get install cosign`) and see that it is on PATH"
TIMEOUT = 300.0  # seconds for one call


@dataclass(frozen=True)
class Subject:
    """`host/repository@sha256:…`, taken apart."""

    place: str
    digest: str

    @property
    def host(self) -> str:
        return self.place.partition("/")[0]

    def __str__(self) -> str:
        return f"{self.place}@{self.digest}"

    def tag(self, ending: str) -> str:
        """The reference under which cosign keeps what belongs to the image."""
        return f"{self.place}:{self.digest.replace(':', '-')}.{ending}"


def parse(subject: str) -> Subject:
    """Raises ValueError for a tag: only a digest is signed, since a tag may name another image a moment later."""
    place, _, digest = subject.partition("@")
    if "/" not in place or not digest.startswith("sha256:"):
        raise ValueError(f"{subject!r} is not host/repository@sha256:…")
    return Subject(place, digest)


def sign(subject: str, signing: Signing, access: Access) -> str:
    """Sign an image and return the reference of its signatures. One that is signed with this key already stays so."""
    image = parse(subject)
    with contextlib.suppress(TrustError):
        _verify_signature(image, signing, access)
        return image.tag("sig")
    _cosign("sign", [*_key(signing), *_log(signing), "--yes", str(image)], image, signing, access, private=True)
    return image.tag("sig")


def attest(subject: str, predicate: Path, kind: str, signing: Signing, access: Access) -> str:
    """Attest a predicate (a JSON file) of an image and return the reference of its attestations.

    `kind` is one of KINDS; one of the same kind that is there already is replaced.
    """
    image = parse(subject)
    given = ["--type", kind, "--predicate", str(predicate), "--replace", "--yes"]
    _cosign("attest", [*_key(signing), *_log(signing), *given, str(image)], image, signing, access, private=True)
    return image.tag("att")


def verify(subject: str, signing: Signing, access: Access, kinds: Sequence[str] = tuple(KINDS)) -> None:
    """Check an image's signature and its attestations with the public key alone.

    Raises TrustError that names everything which is missing or wrong.
    """
    faults = _faults(lambda: verify_signature(subject, signing, access))
    for kind in kinds:
        faults += _faults(lambda kind=kind: attested(subject, kind, signing, access))  # type: ignore[misc]
    if faults:
        raise TrustError(
            f"{subject} is not what it should be", faults=faults, fix="do not use it; release it anew, or check the key"
        )


def verify_signature(subject: str, signing: Signing, access: Access) -> None:
    """Raises TrustError when the image was not signed with this key."""
    _verify_signature(parse(subject), signing, access)


def attested(subject: str, kind: str, signing: Signing, access: Access) -> dict[str, Any]:
    """The predicate that was attested of an image, checked with the public key. Raises TrustError without one."""
    image = parse(subject)
    words = ["--type", kind, *_public_key(signing), *_ignoring_log(signing), str(image)]
    told = _cosign("verify-attestation", words, image, signing, access)
    for line in reversed(told.splitlines()):
        statement = _statement(line)
        digests = {one.get("digest", {}).get("sha256") for one in statement.get("subject", [])}
        if statement.get("predicateType") == KINDS[kind] and digests == {image.digest.removeprefix("sha256:")}:
            found: dict[str, Any] = statement["predicate"]
            return found
    raise TrustError(f"no {kind} attestation by this key speaks of this image")


def cosign() -> str:
    """The program's path. Raises ProgramError when it is not installed."""
    found = programs.find("cosign")
    if found is None:
        raise ProgramError("cosign, which signs images, is not installed", fix=COSIGN_FIX)
    return found


def _faults(check: Callable[[], object]) -> list[Fault]:
    try:
        check()
    except TrustError as error:
        return [Fault(error.message)]
    return []


def _verify_signature(image: Subject, signing: Signing, access: Access) -> None:
    words = [*_public_key(signing), *_ignoring_log(signing), "--output", "json", str(image)]
    _cosign("verify", words, image, signing, access)


def _key(signing: Signing) -> list[str]:
    return [] if signing.kind == "keyless" else ["--key", signing.key]


def _public_key(signing: Signing) -> list[str]:
    if signing.kind == "keyless":
        return ["--certificate-identity", signing.identity, "--certificate-oidc-issuer", signing.issuer]
    return ["--key", signing.public_key or signing.key]


def _log(signing: Signing) -> list[str]:
    """A key of one's own needs no public log, which would tell the world what is released when."""
    return [] if signing.kind == "keyless" else ["--tlog-upload=false"]


def _ignoring_log(signing: Signing) -> list[str]:
    return [] if signing.kind == "keyless" else ["--insecure-ignore-tlog=true"]


def _cosign(
    command: str, words: Sequence[str], image: Subject, signing: Signing, access: Access, *, private: bool = False
) -> str:
    """Run cosign and return what it printed. Raises the error that fits its complaint."""
    plain = ["--allow-http-registry"] if access.insecure else []
    with _secrets(image.host, signing, access, private=private) as environment:
        done = process.run(
            [cosign(), command, *plain, *_older_format(command), *words],
            env=environment,
            timeout=TIMEOUT,
            check=False,
            fix=COSIGN_FIX,
        )
    if done.code != 0:
        kind = words[words.index("--type") + 1] if "--type" in words else ""
        raise _complaint(command, kind, image, done.stderr or done.stdout)
    return done.stdout


@cache
def _older_format(command: str) -> tuple[str, ...]:
    """Flags that keep newer versions to the one form which every version and every registry can read."""
    told = process.run([cosign(), command, "--help"], timeout=60, check=False).stdout
    return tuple(f"--{name}=false" for name in ("use-signing-config", "new-bundle-format") if f"--{name}" in told)


@contextlib.contextmanager
def _secrets(host: str, signing: Signing, access: Access, *, private: bool) -> Iterator[dict[str, str]]:
    """The environment of one call: the registry's login, and the key's password where it is needed."""
    with logged_in(host, access) as environment:
        yield {**environment, **({"COSIGN_PASSWORD": _password(signing, access)} if private else {})}


@contextlib.contextmanager
def logged_in(host: str, access: Access) -> Iterator[dict[str, str]]:
    """The environment in which programs that read Docker's settings have the login of one registry and of no other."""
    with tempfile.TemporaryDirectory(prefix="slipway-login-") as folder:  # mode 0700
        write_whole(Path(folder, "config.json"), json.dumps({"auths": _login(host, access)}), mode=0o600)
        yield {"DOCKER_CONFIG": folder}


def _login(host: str, access: Access) -> dict[str, dict[str, str]]:
    if access.token:
        return {host: {"identitytoken": access.token}}
    if not access.username:
        return {}
    pair = base64.b64encode(f"{access.username}:{access.password}".encode()).decode()
    return {host: {"auth": pair}}


def _password(signing: Signing, access: Access) -> str:
    """The private key's password; empty for a key without one, so that cosign never asks a terminal."""
    if not signing.password_from:
        return ""
    if signing.password_from not in access.environment:
        raise AuthError(
            f"the variable {signing.password_from}, the password of the signing key, is not set",
            fix="set it for this command; release.yml only names it",
        )
    return access.environment[signing.password_from]


def _statement(line: str) -> dict[str, Any]:
    """The in-toto statement inside an envelope (DSSE); empty for a line that is none."""
    try:
        found = json.loads(base64.b64decode(json.loads(line)["payload"]))
    except (ValueError, KeyError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}


def _complaint(command: str, kind: str, image: Subject, said: str) -> SlipwayError:
    """What cosign's error means. What is not recognised counts against the image."""
    lines = [line for line in said.splitlines() if line.strip() and not line.startswith("WARNING")]
    reason = lines[-1].rpartition("error during command execution: ")[2][:500] if lines else "it does not say why"
    text = said.lower()
    doing = {"sign": "sign", "attest": "attest"}.get(command, "check")
    if any(word in text for word in ("unauthorized", "denied", "401")):
        return AuthError(f"{image.host} does not let cosign {doing} {image}: {reason}", fix="check the credentials")
    if any(word in text for word in ("connection refused", "no such host", "i/o timeout", "toomanyrequests", "tls:")):
        return RegistryError(f"{image.host} does not answer cosign: {reason}", fix="check that it can be reached")
    if "manifest_unknown" in text or "name_unknown" in text:
        return RegistryError(f"there is no {image}: {reason}", fix="check the digest and the repository")
    if command in ("sign", "attest"):
        return ProgramError(f"cosign could not {doing} {image}: {reason}", fix="check the key and its password")
    what = "signature" if command == "verify" else f"{kind} attestation"
    return TrustError(f"no {what} by this key: {reason}")
