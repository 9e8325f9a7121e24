"""How releases are signed and which vulnerabilities stop them, as plain frozen data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date

SEVERITIES = ("unknown", "negligible", "low", "medium", "high", "critical")
SCANNERS = ("ecr", "trivy", "grype", "pip-audit", "osv-file", "none")


@dataclass(frozen=True, kw_only=True)
class Signing:
    """How images are signed.

    `kind`: key | kms | keyless. `key`: path of the private key, or a KMS URI; `public_key`: path or KMS URI, all that
    verification needs. `password_from`: the variable that holds the private key's password. `identity` and `issuer`:
    what a keyless certificate must say.
    """

    kind: str
    key: str = ""
    public_key: str = ""
    password_from: str = ""
    identity: str = ""
    issuer: str = ""


@dataclass(frozen=True, kw_only=True)
class Allow:
    """One allowed finding. After `review_by` it fails. `package` empty: in any; `where`: file and line of the entry."""

    id: str
    reason: str
    review_by: date
    package: str = ""
    where: str = ""


@dataclass(frozen=True, kw_only=True)
class Gate:
    """The vulnerability gate. `fail_on`: lowest severity that fails. `source`: of OSV data, a file or a server.

    What cannot be mended yet fails with `unfixed` only. A severity that nobody has told counts as the highest.
    """

    scanner: str
    fail_on: str = "critical"
    allow: tuple[Allow, ...] = ()
    source: str = ""
    unfixed: bool = False


@dataclass(frozen=True, kw_only=True)
class Access:
    """How a registry is reached. `insecure`: it has no TLS. `token`: an identity token instead of a password.

    `environment` holds the variable that `Signing.password_from` names. Secrets are handed to programs in a private
    folder or by their environment, never on a command line.
    """

    username: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    insecure: bool = False
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
