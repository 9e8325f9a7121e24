"""The form of release.yml, as pydantic models: the edge where YAML becomes data."""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, WithJsonSchema

from slipway.spec import naming

_ACCOUNT = r"[0-9]{12}"
_REGION = r"[a-z]{2,3}(-[a-z]+){1,3}-[0-9]"
_ROLE = r"arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9_+=,.@/-]+"
_HOST = r"(\[[0-9a-f:]+\]|[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?)(:[0-9]{1,5})?"
_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
_ADDRESS = re.compile(r".+\.(com|cn|io|net|org|dev|local|internal)|.+\.dkr\.ecr.*|.*:.*|localhost")


def _matches(pattern: str, refusal: str) -> AfterValidator:
    """A check that the whole text matches; `refusal` follows the text in the fault, or stands alone after `!`."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            # A variable's name may be a secret that was written in its place: it is not shown.
            raise ValueError(refusal[1:] if refusal.startswith("!") else f"{text!r} {refusal}")
        return text

    return AfterValidator(check)


def _shown(pattern: str) -> WithJsonSchema:
    """The pattern, for editors."""
    return WithJsonSchema({"type": "string", "pattern": f"^{pattern}$"})


def _quoted(value: Any) -> Any:
    """YAML reads 2.10 as 2.1 and 012345678901 as octal: what lost its quotes must not pass as something else."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        raise ValueError(f"{value!r} was read as a number | put it in quotes")
    return value


def _prefix(text: str) -> str:
    first = text.partition("/")[0]
    if _ADDRESS.fullmatch(first):
        rest = text.partition("/")[2] or "leave prefix out"
        raise ValueError(
            f"{text!r} begins with a registry's address, which is added by itself: an image would be named "
            f"{text.rstrip('/')}/{text.rstrip('/')}/pytorch-training | keep the path alone: {rest}"
        )
    if text and not naming.REPOSITORY.fullmatch(f"{text}/x"):
        raise ValueError(
            f"{text!r} cannot begin a repository's name | use a-z, 0-9 and . _ - between them, / for levels"
        )
    return text


def _kind(value: Any) -> str:
    kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
    # Tags begin with a capital so that the reader of documents takes them for no key of the file.
    return {"ecr": "Ecr", "oci": "Oci"}.get(str(kind), "")


def _unique(values: list[str]) -> list[str]:
    twice = sorted({value for value in values if values.count(value) > 1})
    if twice:
        raise ValueError(f"{', '.join(twice)} is given twice | keep one")
    return values


Account = Annotated[
    str,
    BeforeValidator(_quoted),
    _matches(_ACCOUNT, "is not an AWS account | give its 12 digits, in quotes"),
    _shown(_ACCOUNT),
]
Region = Annotated[str, _matches(_REGION, "is not an AWS region | write it as us-east-1"), _shown(_REGION)]
Role = Annotated[str, _matches(_ROLE, "is not a role | write it as arn:aws:iam::123456789012:role/NAME"), _shown(_ROLE)]
Host = Annotated[
    str, _matches(_HOST, "is not a host | write HOST or HOST:PORT, without https:// and without a path"), _shown(_HOST)
]
Variable = Annotated[
    str,
    _matches(_VARIABLE, "!this is no name of an environment variable | name the variable, never write the secret"),
    _shown(_VARIABLE),
]
Name = Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
NamedOnce = Annotated[list[Name], AfterValidator(_unique), Field(min_length=1)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class EcrPart(_Part):
    """Amazon ECR, private: one account, one or more regions."""

    kind: Literal["ecr"]
    account: Account
    regions: Annotated[list[Region], AfterValidator(_unique)] = Field(min_length=1)
    role: Role | None = Field(default=None, description="assumed for every call")
    domain: Host | None = Field(default=None, description="default: amazonaws.com, in China amazonaws.com.cn")
    untagged_days: Annotated[int, Field(strict=True, ge=1, le=36500)] | None = Field(
        default=None,
        alias="untagged-days",
        description="days after which ECR removes images without a tag, such as those of releases that were given up",
    )
    pulled_by: Annotated[list[Account], AfterValidator(_unique)] = Field(
        default=[],
        alias="pulled-by",
        description="other accounts whose jobs pull: `invoke doctor` looks whether the repositories let them",
    )
    hosts: dict[Region, Host] = Field(
        default={}, description="by region: where its registry answers, if not at its own address (VPC endpoints)"
    )


class CredentialsPart(_Part):
    """Names of the environment variables that hold a user and a password."""

    username_from: Variable = Field(alias="username-from")
    password_from: Variable = Field(alias="password-from")


class OciPart(_Part):
    """Any other registry. Without `credentials` those of `docker login` are used."""

    kind: Literal["oci"]
    host: Host
    credentials: CredentialsPart | None = None


Registry = Annotated[
    Annotated[EcrPart, Tag("Ecr")] | Annotated[OciPart, Tag("Oci")],
    Discriminator(
        _kind,
        custom_error_type="kind",
        custom_error_message="A registry needs a kind that is known | write `kind: ecr` or `kind: oci`",
    ),
]


class RulePart(_Part):
    """Images that fit every given selector go to these registries; without selectors, all images."""

    framework: Name | None = None
    version: Annotated[str, BeforeValidator(_quoted)] | None = Field(
        default=None, description="a full version, or its beginning such as 2.13"
    )
    scope: Literal["training", "inference"] | None = None
    processor: Literal["cpu", "gpu"] | None = None
    to: NamedOnce


class SigningPart(_Part):
    """How images are signed. `key`: a key pair of files; `kms`: a key that never leaves AWS KMS or its like; `keyless`:
    by the identity of a CI job, on record in a public log."""

    kind: Literal["key", "kms", "keyless"]
    key: str = Field(default="", description="the private key: a file, or the URI of a KMS key")
    public_key: str = Field(default="", alias="public-key", description="all that verification needs: a file or a URI")
    password_from: Variable | None = Field(
        default=None, alias="password-from", description="the variable that holds the private key's password"
    )
    identity: str = Field(default="", description="keyless: who a certificate must name")
    issuer: str = Field(default="", description="keyless: who must have issued the identity")


class AllowPart(_Part):
    """A finding that does not stop a release until a day. Without framework, version and image it holds for all."""

    id: Annotated[str, Field(min_length=1, description="CVE-2026-1234, GHSA-…")]
    reason: Annotated[str, Field(min_length=1)]
    review_by: date = Field(description="after this day the finding fails again")
    package: str = Field(default="", description="only in this package")
    framework: Name | None = None
    version: Annotated[str, BeforeValidator(_quoted)] | None = Field(
        default=None, description="a full version, or its beginning such as 2.13"
    )
    image: Annotated[str, Field(pattern=r"^[a-z0-9]+([.-][a-z0-9]+)*$", description="an image's ID")] | None = None


class ScanPart(_Part):
    """What looks for vulnerabilities, and which of them stop a release."""

    scanner: Literal["ecr", "trivy", "grype", "pip-audit", "osv-file"]
    fail_on: Literal["unknown", "negligible", "low", "medium", "high", "critical"] = Field(
        default="critical", alias="fail-on", description="the lowest severity that stops a release"
    )
    unfixed: bool = Field(default=False, description="whether findings without a fix stop a release too")
    source: str = Field(default="", description="of OSV data: a file (osv-file), or a server (pip-audit)")
    allow: list[AllowPart] = []


class DowngradePart(_Part):
    """A package that may be older than in the release before."""

    package: Annotated[str, Field(min_length=1)]
    reason: Annotated[str, Field(min_length=1)]
    framework: Name | None = None


class ReleaseFile(_Part):
    """What is released where, and what stops a release."""

    registries: dict[Name, Registry] = {}
    prefix: Annotated[str, AfterValidator(_prefix)] = Field(
        default="", description="path before each repository's name, such as ml"
    )
    aliases: bool = Field(default=True, description="whether short tags follow the newest release")
    images: list[RulePart] = Field(default=[], description="empty: every image goes to every registry")
    sbom: bool = Field(default=True, description="whether a release lists what is inside its images (with syft)")
    signing: SigningPart | None = Field(default=None, description="without it nothing is signed")
    scan: ScanPart | None = Field(default=None, description="without it nothing looks for vulnerabilities")
    downgrades: list[DowngradePart] = Field(default=[], description="packages that may go back")
    notes: str = Field(default="", description="a text for the ledger: what changed; `--notes` goes before it")


def json_schema() -> dict[str, Any]:
    """The JSON schema for editors (release.schema.json)."""
    schema = ReleaseFile.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Slipway's release.yml"}
