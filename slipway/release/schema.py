"""The form of release.yml, as pydantic models: the edge where YAML becomes data."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag

from slipway.spec import naming

_ADDRESS = re.compile(r".+\.(com|cn|io|net|org|dev|local|internal)|.+\.dkr\.ecr.*|.*:.*|localhost")


def _account(value: Any) -> Any:
    """YAML reads 012345678901 as an octal number: an account that lost its quotes must not pass as another one."""
    if isinstance(value, int) and not isinstance(value, bool):
        raise ValueError(f"{value!r} was read as a number | put the 12 digits in quotes")
    if isinstance(value, str) and not re.fullmatch(r"\d{12}", value):
        raise ValueError(f"{value!r} is not an AWS account | give its 12 digits, in quotes")
    return value


def _region(text: str) -> str:
    if not re.fullmatch(r"[a-z]{2,3}(-[a-z]+){1,3}-\d", text):
        raise ValueError(f"{text!r} is not an AWS region | write it as us-east-1")
    return text


def _role(text: str) -> str:
    if not re.fullmatch(r"arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]+", text):
        raise ValueError(f"{text!r} is not a role | write it as arn:aws:iam::123456789012:role/NAME")
    return text


def _host(text: str) -> str:
    if "/" in text or not re.fullmatch(r"(\[[0-9a-f:]+\]|[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?)(:\d{1,5})?", text):
        raise ValueError(f"{text!r} is not a host | write HOST or HOST:PORT, without https:// and without a path")
    return text


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


def _variable(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text):
        raise ValueError("this is not the name of an environment variable | name the variable, never the secret itself")
    return text


def _version(value: Any) -> Any:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        raise ValueError(f"{value!r} was read as a number | put it in quotes")
    return value


def _kind(value: Any) -> str:
    kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
    # Tags begin with a capital so that the reader of documents takes them for no key of the file.
    return {"ecr": "Ecr", "oci": "Oci"}.get(str(kind), "")


def _unique(values: list[str]) -> list[str]:
    twice = sorted({value for value in values if values.count(value) > 1})
    if twice:
        raise ValueError(f"{', '.join(twice)} is given twice | keep one")
    return values


Account = Annotated[str, BeforeValidator(_account)]
Region = Annotated[str, AfterValidator(_region)]
Host = Annotated[str, AfterValidator(_host)]
Variable = Annotated[str, AfterValidator(_variable)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
NamedOnce = Annotated[list[Name], AfterValidator(_unique), Field(min_length=1)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class EcrPart(_Part):
    """Amazon ECR, private: one account, one or more regions."""

    kind: Literal["ecr"]
    account: Account
    regions: Annotated[list[Region], AfterValidator(_unique)] = Field(min_length=1)
    role: Annotated[str, AfterValidator(_role)] | None = Field(default=None, description="assumed for every call")
    domain: Host | None = Field(default=None, description="default: amazonaws.com, in China amazonaws.com.cn")
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
    version: Annotated[str, BeforeValidator(_version)] | None = Field(
        default=None, description="a full version, or its beginning such as 2.13"
    )
    scope: Literal["training", "inference"] | None = None
    processor: Literal["cpu", "gpu"] | None = None
    to: NamedOnce


class ReleaseFile(_Part):
    """What is pushed where."""

    registries: dict[Name, Registry] = {}
    prefix: Annotated[str, AfterValidator(_prefix)] = Field(
        default="", description="path before each repository's name, such as ml"
    )
    aliases: bool = Field(default=True, description="whether short tags follow the newest release")
    images: list[RulePart] = Field(default=[], description="empty: every image goes to every registry")


def json_schema() -> dict[str, Any]:
    """The JSON schema for editors (release.schema.json)."""
    schema = ReleaseFile.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Slipway's release.yml"}
