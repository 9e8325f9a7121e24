"""Signing with the keys of release.yml, as whoever the registry's client is logged in as."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slipway.registry import Credentials, Registry, is_loopback
from slipway.supply import signing
from slipway.supply.config import Access, Signing


@dataclass(frozen=True)
class CosignSigner:
    """cosign, by digest. `environment` holds the variable with the key's password."""

    signing: Signing
    environment: Mapping[str, str]

    def sign(self, registry: Registry, subject: str) -> str:
        return signing.sign(subject, self.signing, self._access(registry))

    def attest(self, registry: Registry, subject: str, predicate: Path, kind: str) -> str:
        return signing.attest(subject, predicate, kind, self.signing, self._access(registry))

    def verify(self, registry: Registry, subject: str, kinds: Sequence[str]) -> None:
        signing.verify(subject, self.signing, self._access(registry), kinds)

    def _access(self, registry: Registry) -> Access:
        given = registry.credentials or Credentials()
        return Access(
            username=given.username,
            password=given.password,
            token=given.identity_token,
            insecure=is_loopback(registry.host),
            environment=self.environment,
        )
