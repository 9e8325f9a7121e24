"""release.yml -> what is pushed where, as plain frozen data."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from slipway import documents
from slipway.documents import Document
from slipway.errors import Fault, SpecError, UsageError, nearest

if TYPE_CHECKING:
    from slipway.release.schema import EcrPart, OciPart, ReleaseFile

FILE = "release.yml"


@dataclass(frozen=True)
class EcrRegistry:
    """Amazon ECR in one account. `hosts` says, by region, where a registry answers that has an address of its own."""

    name: str
    account: str
    regions: tuple[str, ...]
    role: str = ""
    domain: str = ""
    hosts: Mapping[str, str] = field(default_factory=dict)

    def host(self, region: str) -> str:
        domain = self.domain or ("amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com")
        return self.hosts.get(region) or f"{self.account}.dkr.ecr.{region}.{domain}"


@dataclass(frozen=True)
class OciRegistry:
    """Any other registry; the two variables are empty where the engine's own login is used."""

    name: str
    host: str
    username_from: str = ""
    password_from: str = ""


@dataclass(frozen=True)
class Rule:
    """Images that fit go to the registries named in `to`. An empty selector fits every image."""

    to: tuple[str, ...]
    framework: str = ""
    version: str = ""
    scope: str = ""
    processor: str = ""

    def fits(self, framework: str, version: str, scope: str, processor: str) -> bool:
        return (
            self.framework in ("", framework)
            and (self.version in ("", version) or version.startswith(self.version + "."))
            and self.scope in ("", scope)
            and self.processor in ("", processor)
        )


@dataclass(frozen=True)
class ReleaseConfig:
    """The whole file. Without registries, images go to a registry of the project's own on loopback."""

    registries: Mapping[str, EcrRegistry | OciRegistry] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    prefix: str = ""
    aliases: bool = True

    def repository(self, name: str) -> str:
        return f"{self.prefix}/{name}" if self.prefix else name

    def registry(self, name: str) -> EcrRegistry | OciRegistry:
        """A registry by its name. Raises UsageError for an unknown one."""
        if name not in self.registries:
            raise UsageError(f"{FILE} has no registry {name!r}", fix=nearest(name, self.registries))
        return self.registries[name]

    def registries_of(
        self, framework: str, version: str, scope: str, processor: str
    ) -> tuple[EcrRegistry | OciRegistry, ...]:
        """Where an image goes, in the order of the file."""
        if not self.rules:
            return tuple(self.registries.values())
        named = {name for rule in self.rules if rule.fits(framework, version, scope, processor) for name in rule.to}
        return tuple(registry for name, registry in self.registries.items() if name in named)


def load(project: Path, known: Mapping[str, Collection[str]] | None = None) -> ReleaseConfig:
    """Read release.yml; a project without one pushes to loopback. Raises SpecError that lists every fault.

    `known` gives the values that exist for `framework` and `version`, to find selectors that fit nothing.
    """
    from slipway.release.schema import ReleaseFile

    path = project / FILE
    if not path.exists():
        return ReleaseConfig()
    document = documents.read(path, project)
    parsed, faults = document.validate(ReleaseFile)
    if parsed is not None:
        faults = [*_cross_faults(document, parsed), *_unknown_values(document, parsed, known or {})]
    if parsed is None or faults:
        raise SpecError(f"{FILE} has {len(faults)} fault{'s' if len(faults) > 1 else ''}", faults=faults)
    return _frozen(parsed)


def _frozen(parsed: ReleaseFile) -> ReleaseConfig:
    rules = (
        Rule(tuple(rule.to), rule.framework or "", rule.version or "", rule.scope or "", rule.processor or "")
        for rule in parsed.images
    )
    registries = {name: _registry(name, part) for name, part in parsed.registries.items()}
    return ReleaseConfig(registries, tuple(rules), parsed.prefix, parsed.aliases)


def _registry(name: str, part: EcrPart | OciPart) -> EcrRegistry | OciRegistry:
    if part.kind == "ecr":
        return EcrRegistry(name, part.account, tuple(part.regions), part.role or "", part.domain or "", part.hosts)
    given = part.credentials
    return (
        OciRegistry(name, part.host, given.username_from, given.password_from)
        if given
        else OciRegistry(name, part.host)
    )


def _cross_faults(document: Document, parsed: ReleaseFile) -> list[Fault]:
    faults = [
        document.fault(("images", at, "to"), f"there is no registry {name!r}", nearest(name, parsed.registries))
        for at, rule in enumerate(parsed.images)
        for name in rule.to
        if name not in parsed.registries
    ]
    first_at: dict[str, str] = {}
    for name, part in parsed.registries.items():
        faults += _stray_hosts(document, name, part)
        for host in _hosts(_registry(name, part)):
            first = first_at.setdefault(host, name)
            if first != name:
                what = f"{name} is the same registry as {first}: {host}"
                faults.append(document.fault(("registries", name), what, "keep one"))
    return faults


def _stray_hosts(document: Document, name: str, part: EcrPart | OciPart) -> list[Fault]:
    if part.kind == "oci":
        return []
    return [
        document.fault(("registries", name, "hosts", region), f"{region} is not among its regions", "add it there")
        for region in part.hosts
        if region not in part.regions
    ]


def _hosts(registry: EcrRegistry | OciRegistry) -> list[str]:
    if isinstance(registry, EcrRegistry):
        return [registry.host(region) for region in registry.regions]
    return [registry.host]


def _unknown_values(document: Document, parsed: ReleaseFile, known: Mapping[str, Collection[str]]) -> list[Fault]:
    faults = []
    for at, rule in enumerate(parsed.images):
        for axis, values in known.items():
            value = getattr(rule, axis)
            if value and not any(value == name or name.startswith(value + ".") for name in values):
                what = f"{axis} {value!r} is in no file of buildspec/"
                faults.append(document.fault(("images", at, axis), what, nearest(value, values)))
    return faults
