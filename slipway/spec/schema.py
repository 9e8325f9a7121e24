"""The form of a buildspec file, as pydantic models: the edge where YAML becomes data."""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

_VERSION = re.compile(r"\d+(\.\d+)+((a|b|rc)\d+)?(\.post\d+)?(\+[a-z0-9.]+)?")
_REQUIREMENT = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9,._-]+\])?\s*((==|~=|!=|<=|>=|<|>)\s*[^\s,;]+(\s*,\s*(==|~=|!=|<=|>=|<|>)\s*[^\s,;]+)*)?"
    r"(\s*;.+)?"
)


def _version(text: str) -> str:
    if not _VERSION.fullmatch(text):
        raise ValueError(f"{text!r} is not a version | write it as 2.13.0")
    return text


def _minor(text: str) -> str:
    if not re.fullmatch(r"\d+\.\d+", text):
        raise ValueError(f'{text!r} is not a major.minor version | write it in quotes, for example "3.11"')
    return text


def _requirement(text: str) -> str:
    if not _REQUIREMENT.fullmatch(text.strip()):
        raise ValueError(f"{text!r} is not a requirement | write it as name, name==1.2 or name>=1,<2")
    return text.strip()


def _library(text: str) -> str:
    name, _, version = text.partition("==")
    if not re.fullmatch(r"[a-z][a-z-]*", name) or not _VERSION.fullmatch(version):
        raise ValueError(f"{text!r} is not a package with its version | write it as transformers==5.24.0")
    return text


def _cuda_architecture(text: str) -> str:
    if not re.fullmatch(r"(sm|compute)_\d{2,3}[af]?", text):
        raise ValueError(f"{text!r} is not an architecture of CUDA code | write it as sm_80, or compute_90")
    return text


def _not_a_number(value: Any) -> Any:
    """YAML reads 2.10 as the number 2.1: a version that lost its quotes must not pass as another one."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        raise ValueError(f"{value!r} was read as a number | put it in quotes")
    return value


def _address(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or re.search(r"\s", text):
        raise ValueError(f"{text!r} is not the address of an index | write it as https://host/path")
    if parts.username or parts.password:
        raise ValueError("an address with a user name or password would stand in every render | use pip's settings")
    return text


def _date(value: Any) -> Any:
    """YAML reads 2027-07-31 as a date; pydantic would take a number for seconds since 1970."""
    if type(value) is not date:
        raise ValueError(f"{value!r} is not a date | write it as 2027-07-31, without quotes")
    return value


Version = Annotated[str, BeforeValidator(_not_a_number), AfterValidator(_version)]
Minor = Annotated[str, BeforeValidator(_not_a_number), AfterValidator(_minor)]
CudaArchitecture = Annotated[str, AfterValidator(_cuda_architecture)]
Requirement = Annotated[str, AfterValidator(_requirement)]
Library = Annotated[str, AfterValidator(_library)]
Address = Annotated[str, AfterValidator(_address)]
Date = Annotated[date, BeforeValidator(_date)]
Megabytes = Annotated[int, Field(gt=0, strict=True)]
Key = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Name = Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
SitePath = Annotated[str, Field(pattern=r"^[A-Za-z0-9_*][A-Za-z0-9_.*-]*(/[A-Za-z0-9_*][A-Za-z0-9_.*-]*)*$")]
Pattern = Annotated[str, Field(pattern=r"^[a-z0-9*]+(-[a-z0-9*]+)*$")]
Distribution = Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
Reason = Annotated[str, Field(min_length=10)]
VariableName = Annotated[str, Field(pattern=r"^[A-Z_][A-Z0-9_]*$")]
PlainText = Annotated[str, Field(pattern=r'^[^"$`\\\n]*$')]  # stands between double quotes in a Dockerfile
DebianName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.+-]+$")]
Scope = Literal["training", "inference"]
Weighed = Literal["training", "inference", "gpu-training", "gpu-inference"]
Processor = Literal["cpu", "gpu"]
Architecture = Literal["amd64", "arm64"]
OS = Literal["debian12", "debian13"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ProcessorPart(_Part):
    """A processor of a stack. GPU cells need both: `cuda`, the CUDA version of the framework's wheels, and
    `cuda-architectures`, what their CUDA code was compiled for."""

    architectures: list[Architecture] = Field(default=["amd64"], min_length=1)
    cuda: Minor | None = None
    cuda_architectures: list[CudaArchitecture] | None = Field(
        default=None,
        alias="cuda-architectures",
        min_length=1,
        description="what the framework was compiled for: GPUs (sm_80), intermediate code for later ones (compute_90)",
    )
    layers: list[list[Pattern]] = Field(
        default=[],
        description="packages that get a layer of their own below the others; * stands for any letters",
    )


class PackagesPart(_Part):
    """Requirements: `common` ones are in every image of the stack, the others in one processor's or one scope's."""

    common: list[Requirement] = []
    cpu: list[Requirement] = []
    gpu: list[Requirement] = []
    training: list[Requirement] = []
    inference: list[Requirement] = []


class SystemPackagesPart(_Part):
    """Debian packages of one scope, without versions: the archive decides (the setting `snapshot` freezes it)."""

    training: list[DebianName] = []
    inference: list[DebianName] = []


class GroundPart(_Part):
    """The stack of another framework that a stack stands on: its packages, system and processors are that one's."""

    framework: Name
    stack: Key


class StackPart(_Part):
    """One pinned set of framework and libraries.

    With `stands-on` it adds to another framework's stack and repeats none of it: version, os and processors are not
    given then, `python` only to name fewer.
    """

    stands_on: GroundPart | None = Field(default=None, alias="stands-on")
    library: Library | None = Field(
        default=None, description="the package whose version the tag names beside the framework's, and that version"
    )
    version: Version | None = None
    os: OS | None = None
    python: list[Minor] | None = Field(default=None, min_length=1)
    processors: dict[Processor, ProcessorPart] | None = Field(default=None, min_length=1)
    scopes: list[Scope] = Field(min_length=1)
    packages: PackagesPart
    system_packages: SystemPackagesPart = Field(default=SystemPackagesPart(), alias="system-packages")
    toolkit: Literal["slipway", "aws", "none"] = Field(
        default="slipway",
        description="what answers SageMaker: our toolkits, the reference packages named under packages, or nothing",
    )
    without: dict[Distribution, Reason] = Field(
        default={}, description="packages that people look for in such images and do not find, and why"
    )
    leave_out: dict[Distribution, list[SitePath]] = Field(
        default={},
        alias="leave-out",
        description="paths below site-packages that no image needs, by their package; * stands for any name",
    )
    ceiling_mb: dict[Weighed, Megabytes] = Field(
        default={},
        alias="ceiling-mb",
        description="MB (10^6 bytes), uncompressed; GPU images have the gpu- one, if given",
    )
    compressed_ceiling_mb: dict[Weighed, Megabytes] = Field(
        default={}, alias="compressed-ceiling-mb", description="MB (10^6 bytes), as pulled"
    )
    ceiling_reason: dict[Weighed, Reason] = Field(
        default={}, alias="ceiling-reason", description="why a ceiling was raised"
    )
    supported_until: Date | None = Field(default=None, alias="supported-until")


class ExcludedPart(_Part):
    """Cells that are declared but not built: every cell that fits all the given axes, and why."""

    stack: Key | None = None
    version: Version | None = None
    scope: Scope | None = None
    processor: Processor | None = None
    python: Minor | None = None
    architecture: Architecture | None = None
    reason: Reason


class ToolkitsPart(_Part):
    """Names of folders under toolkits/, in the order of installation."""

    training: list[Name] = []
    inference: list[Name] = []


class EnvironmentPart(_Part):
    """Environment variables of the images of one scope."""

    training: dict[VariableName, PlainText] = {}
    inference: dict[VariableName, PlainText] = {}


class BuildspecFile(_Part):
    """One file of buildspec/: everything about one framework."""

    framework: Name
    family: Name | None = Field(default=None, description="a name that means this framework and others together")
    wheel_index: dict[Processor, Address] = Field(default={}, alias="wheel-index")
    layers: list[list[Pattern]] = Field(
        default=[], description="as those of a processor, above them, in every stack that has such packages"
    )
    toolkits: ToolkitsPart = ToolkitsPart()
    environment: EnvironmentPart = EnvironmentPart()
    stacks: dict[Key, StackPart] = Field(min_length=1)
    excluded: list[ExcludedPart] = []


def json_schema() -> dict[str, Any]:
    """The JSON schema for editors (buildspec/schema.json)."""
    schema = BuildspecFile.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "A Slipway buildspec file"}


if __name__ == "__main__":
    import sys

    from slipway.files import canonical_json

    sys.stdout.write(canonical_json(json_schema()))
