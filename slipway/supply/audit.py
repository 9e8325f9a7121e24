"""What a registry can prove of an image: its signature, its attestations, and whether they agree with each other.

A public key is all that is needed. Where the image is on record here too, what was attested must say the same.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from slipway.errors import RegistryError, TrustError
from slipway.records import Build
from slipway.registry import Manifest, Registry
from slipway.supply import provenance, sbom, signing
from slipway.supply.config import Access, Signing

OK, WRONG, UNKNOWN = "ok", "wrong", "unknown"
_REVISION = "org.opencontainers.image.revision"


@dataclass(frozen=True)
class Line:
    """One thing that was looked at. `status`: ok | wrong | unknown (there is nothing here to compare it with)."""

    check: str
    status: str
    told: str


@dataclass(frozen=True, kw_only=True)
class Known:
    """What is on record of an image here. `packages`: their versions by name, `name (Debian)` for Debian's."""

    manifest_digest: str = ""
    build: Build | None = None
    packages: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Audit:
    """Everything that was looked at of one image. `facts`: what its provenance says, for people."""

    subject: str
    lines: tuple[Line, ...]
    facts: Mapping[str, str]

    @property
    def passed(self) -> bool:
        return all(line.status != WRONG for line in self.lines)


def audit(
    registry: Registry,
    repository: str,
    reference: str,
    how: Signing,
    access: Access,
    known: Callable[[Manifest], Known] = lambda manifest: Known(),
) -> Audit:
    """Look at an image under a tag or digest. `known` is told its manifest, and tells what is on record of it.

    Raises RegistryError when there is no such image, and what a registry or a missing cosign raises.
    """
    place = f"{registry.host}/{repository}"
    manifest = registry.manifest(repository, reference)
    if manifest is None:
        raise RegistryError(f"{place} has no {reference}", fix="check the name, the tag and the region")
    subject = f"{place}@{manifest.digest}"
    on_record = known(manifest)
    lines = [_manifest(manifest), _recorded(manifest, on_record)]
    lines.append(_line("signature", lambda: _signature(subject, how, access)))
    found: dict[str, dict[str, Any]] = {}
    for kind in signing.KINDS:
        with _wrong_in(lines, kind):
            found[kind] = signing.attested(subject, kind, how, access)
    if "slsaprovenance1" in found:
        labels = _labels(registry, repository, manifest) if manifest.is_image else {}
        lines += _provenance(found["slsaprovenance1"], manifest, labels, on_record)
    lines += _sboms(found, on_record)
    return Audit(subject=subject, lines=tuple(lines), facts=_facts(found.get("slsaprovenance1", {})))


def _line(check: str, work: Callable[[], str]) -> Line:
    try:
        return Line(check, OK, work())
    except TrustError as error:
        return Line(check, WRONG, error.message)


@contextlib.contextmanager
def _wrong_in(lines: list[Line], check: str) -> Iterator[None]:
    try:
        yield
    except TrustError as error:
        lines.append(Line(check, WRONG, error.message))


def _signature(subject: str, how: Signing, access: Access) -> str:
    signing.verify_signature(subject, how, access)
    return f"by {how.identity or how.public_key or how.key}"


def _manifest(manifest: Manifest) -> Line:
    if manifest.is_image:
        return Line("manifest", OK, "one image")
    return Line("manifest", WRONG, f"{manifest.media_type}, not one image: SageMaker wants a single manifest")


def _recorded(manifest: Manifest, known: Known) -> Line:
    if not known.manifest_digest:
        return Line("record", UNKNOWN, "this image was not pushed or released from here")
    if known.manifest_digest != manifest.digest:
        return Line("record", WRONG, f"here it is on record as {known.manifest_digest}")
    return Line("record", OK, "the digest that is on record here")


def _provenance(found: Mapping[str, Any], manifest: Manifest, labels: Mapping[str, str], known: Known) -> list[Line]:
    """The attested provenance against the image itself, and against the record of its build."""
    faults = []
    if (config := provenance.config_digest_of(found)) != manifest.config_digest:
        faults.append(f"speaks of {config}, the image is {manifest.config_digest}")
    commit, label = provenance.commit_of(found), labels.get(_REVISION, "")
    if commit and label and commit != label:
        faults.append(f"names the commit {commit}, the image {label}")
    lines = [
        Line("slsaprovenance1", WRONG if faults else OK, "; ".join(faults) or f"source {commit or 'not a commit'}")
    ]
    if known.build is None:
        return [*lines, Line("build record", UNKNOWN, "this image was not built here")]
    differences = provenance.disagreements(found, known.build)
    told = "; ".join(differences) or "says what the provenance says"
    return [*lines, Line("build record", WRONG if differences else OK, told)]


def _sboms(found: Mapping[str, Mapping[str, Any]], known: Known) -> list[Line]:
    """Each SBOM against the other, and against the packages on record."""
    listed: dict[str, set[sbom.Package]] = {}
    lines = []
    for kind in ("cyclonedx", "spdxjson"):
        if kind in found:
            line = _line(kind, lambda kind=kind: _count(listed, kind, found[kind]))  # type: ignore[misc]
            lines.append(line)
    if len(listed) == 2:
        apart = listed["cyclonedx"] ^ listed["spdxjson"]
        told = f"differ in {_some(str(one.name) for one in apart)}" if apart else "name the same packages"
        lines.append(Line("both SBOMs", WRONG if apart else OK, told))
    if "cyclonedx" in listed and (known.packages or known.build):
        lines.append(_packages(listed["cyclonedx"], known))
    return lines


def _count(listed: dict[str, set[sbom.Package]], kind: str, document: Mapping[str, Any]) -> str:
    packages = set(sbom.packages(document))
    if not packages:
        raise TrustError("names no package")
    listed[kind] = packages
    return f"{len(packages)} packages"


def _packages(listed: Iterable[sbom.Package], known: Known) -> Line:
    """Every package on record must be in the SBOM, in its version where that is on record too."""
    held: dict[str, set[str]] = {}
    for one in listed:
        held.setdefault(one.called, set()).add(one.version)
    names = known.packages or (known.build.packages if known.build else {})
    lacking = [name for name in names if name not in held]
    other = [name for name, version in known.packages.items() if name in held and version not in held[name]]
    if lacking or other:
        told = [f"lacks {_some(lacking)}"] if lacking else []
        told += [f"has other versions of {_some(other)}"] if other else []
        return Line("packages on record", WRONG, "; ".join(told))
    return Line("packages on record", OK, f"all {len(names)} are in the SBOM")


def _some(names: Iterable[str]) -> str:
    every = sorted(names)
    return ", ".join(every[:5]) + (f" and {len(every) - 5} more" if len(every) > 5 else "")


def _labels(registry: Registry, repository: str, manifest: Manifest) -> dict[str, str]:
    body = registry.blob(repository, manifest.config_digest, manifest.blobs[manifest.config_digest])
    labels: dict[str, str] = json.loads(body).get("config", {}).get("Labels") or {}
    return labels


def _facts(found: Mapping[str, Any]) -> dict[str, str]:
    if not found:
        return {}
    definition, run = found.get("buildDefinition", {}), found.get("runDetails", {})
    outer, inner = definition.get("externalParameters", {}), definition.get("internalParameters", {})
    told = {
        "image": outer.get("image", ""),
        "source commit": provenance.commit_of(found),
        "base": inner.get("base", ""),
        "input hash": inner.get("inputHash", ""),
        "lock hash": inner.get("lockHash", ""),
        "builder": run.get("builder", {}).get("id", ""),
        "run": run.get("metadata", {}).get("invocationId", ""),
        "built": run.get("metadata", {}).get("finishedOn", ""),
    }
    return {name: str(value) for name, value in told.items() if value}
