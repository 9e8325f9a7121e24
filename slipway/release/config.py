"""release.yml -> what is released where and under which gates, as plain frozen data."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipway import documents
from slipway.documents import Document
from slipway.errors import Fault, SpecError, UsageError, nearest
from slipway.spec.model import Image
from slipway.supply.config import Allow, Gate, Signing

if TYPE_CHECKING:
    from slipway.release.schema import EcrPart, OciPart, ReleaseFile, ScanPart, SigningPart

FILE = "release.yml"


@dataclass(frozen=True)
class EcrRegistry:
    """Amazon ECR in one account. `hosts` says, by region, where a registry answers that has an address of its own.

    `untagged_days`: how long ECR keeps images without a tag; 0: what its repositories say of that is left alone.
    `pulled_by`: other accounts that their policies are to let pull.
    """

    name: str
    account: str
    regions: tuple[str, ...]
    role: str = ""
    domain: str = ""
    hosts: Mapping[str, str] = field(default_factory=dict)
    untagged_days: int = 0
    pulled_by: tuple[str, ...] = ()

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
class Allowance:
    """A finding that is allowed for the images that fit; empty fits every one."""

    allow: Allow
    framework: str = ""
    version: str = ""
    image: str = ""

    def fits(self, framework: str, version: str, image: str) -> bool:
        return (
            self.framework in ("", framework)
            and (self.version in ("", version) or version.startswith((self.version + ".", self.version + "-")))
            and self.image in ("", image)
        )


@dataclass(frozen=True)
class Downgrade:
    """A package that may be older than in the release before."""

    package: str
    reason: str
    framework: str = ""


@dataclass(frozen=True)
class ReleaseConfig:
    """The whole file. Without registries, images go to a registry of the project's own on loopback.

    `scan` has no allowances of its own: they depend on the image, see `gate`.
    """

    registries: Mapping[str, EcrRegistry | OciRegistry] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    prefix: str = ""
    aliases: bool = True
    sbom: bool = True
    signing: Signing | None = None
    scan: Gate | None = None
    allowances: tuple[Allowance, ...] = ()
    downgrades: tuple[Downgrade, ...] = ()
    notes: str = ""

    def gate(self, framework: str, version: str, image: str) -> Gate | None:
        """The vulnerability gate of one image with the allowances that fit it; None: none was configured."""
        if self.scan is None:
            return None
        fitting = (one.allow for one in self.allowances if one.fits(framework, version, image))
        return replace(self.scan, allow=tuple(fitting))

    def may_go_back(self, framework: str) -> Mapping[str, str]:
        """Packages of a framework that may be older than before -> why."""
        return {one.package: one.reason for one in self.downgrades if one.framework in ("", framework)}

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

    `known` gives the values that exist for `framework`, `version` and `image`, to find selectors that fit nothing.
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
    return _frozen(document, parsed, project)


def known(images: Iterable[Image]) -> dict[str, set[str]]:
    """The values that a matrix has, for `load`."""
    found: dict[str, set[str]] = {"framework": set(), "version": set(), "image": set()}
    for image in images:
        found["framework"].add(image.framework)
        found["version"].add(image.version)
        found["image"].add(image.id)
    return found


def _frozen(document: Document, parsed: ReleaseFile, project: Path) -> ReleaseConfig:
    rules = (
        Rule(tuple(rule.to), rule.framework or "", rule.version or "", rule.scope or "", rule.processor or "")
        for rule in parsed.images
    )
    registries = {name: _registry(name, part) for name, part in parsed.registries.items()}
    return ReleaseConfig(
        registries,
        tuple(rules),
        parsed.prefix,
        parsed.aliases,
        parsed.sbom,
        _signing(parsed.signing, project) if parsed.signing else None,
        _scan(parsed.scan, project) if parsed.scan else None,
        tuple(_allowances(document, parsed.scan)) if parsed.scan else (),
        tuple(Downgrade(one.package, one.reason, one.framework or "") for one in parsed.downgrades),
        parsed.notes.strip(),
    )


def _signing(part: SigningPart, project: Path) -> Signing:
    def key(text: str) -> str:
        return text if "://" in text or not text else str(project / text)

    return Signing(
        kind=part.kind,
        key=key(part.key),
        public_key=key(part.public_key),
        password_from=part.password_from or "",
        identity=part.identity,
        issuer=part.issuer,
    )


def _scan(part: ScanPart, project: Path) -> Gate:
    source = str(project / part.source) if part.scanner == "osv-file" else part.source
    return Gate(scanner=part.scanner, fail_on=part.fail_on, source=source, unfixed=part.unfixed)


def _allowances(document: Document, part: ScanPart) -> Iterator[Allowance]:
    for at, one in enumerate(part.allow):
        where = f"{document.name}:{document.line(('scan', 'allow', at))}"
        allow = Allow(id=one.id, reason=one.reason, review_by=one.review_by, package=one.package, where=where)
        yield Allowance(allow, one.framework or "", one.version or "", one.image or "")


def _registry(name: str, part: EcrPart | OciPart) -> EcrRegistry | OciRegistry:
    if part.kind == "ecr":
        return EcrRegistry(
            name,
            part.account,
            tuple(part.regions),
            part.role or "",
            part.domain or "",
            part.hosts,
            part.untagged_days or 0,
            tuple(part.pulled_by),
        )
    given = part.credentials
    return (
        OciRegistry(name, part.host, given.username_from, given.password_from)
        if given
        else OciRegistry(name, part.host)
    )


# What each kind of signing needs, and what has no meaning with it.
_KEYS = {
    "key": (("key", "public-key"), ("identity", "issuer")),
    "kms": (("key",), ("password-from", "identity", "issuer")),
    "keyless": (("identity", "issuer"), ("key", "public-key", "password-from")),
}


def _supply_faults(document: Document, parsed: ReleaseFile) -> list[Fault]:
    faults = []
    if parsed.signing:
        given = {name for name, value in parsed.signing.model_dump(by_alias=True).items() if value}
        needed, strange = _KEYS[parsed.signing.kind]
        kind = f"kind: {parsed.signing.kind}"
        faults += [
            document.fault(("signing",), f"{kind} needs {name}", f"add `{name}:`")
            for name in needed
            if name not in given
        ]
        faults += [
            document.fault(("signing", name), f"{name} has no meaning with {kind}", "remove it")
            for name in strange
            if name in given
        ]
    if parsed.scan:
        takes = {"osv-file": True, "pip-audit": None}.get(parsed.scan.scanner, False)
        if takes and not parsed.scan.source:
            faults.append(document.fault(("scan",), "osv-file needs a source", "add `source:` with the file's path"))
        if takes is False and parsed.scan.source:
            what = f"source has no meaning with scanner: {parsed.scan.scanner}"
            faults.append(document.fault(("scan", "source"), what, "remove it"))
    return faults


def _cross_faults(document: Document, parsed: ReleaseFile) -> list[Fault]:
    faults = _supply_faults(document, parsed)
    faults += [
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
    parts: list[tuple[tuple[str | int, ...], Any]] = [(("images", at), rule) for at, rule in enumerate(parsed.images)]
    parts += [(("scan", "allow", at), one) for at, one in enumerate(parsed.scan.allow if parsed.scan else ())]
    parts += [(("downgrades", at), one) for at, one in enumerate(parsed.downgrades)]
    for place, part in parts:
        for axis, values in known.items():
            value = getattr(part, axis, None)
            if value and not any(value == name or name.startswith((value + ".", value + "-")) for name in values):
                what = f"{axis} {value!r} is in no file of buildspec/"
                faults.append(document.fault((*place, axis), what, nearest(value, values)))
    return faults
