"""Released images looked at again: what is known today may not have been known when they were released."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from slipway.errors import AuthError, ProgramError, RegistryError, ScanError, SlipwayError, TrustError, UsageError
from slipway.files import canonical_json, write_whole
from slipway.records import Push
from slipway.release import access
from slipway.release.config import ReleaseConfig
from slipway.release.ledger import History
from slipway.settings import Settings
from slipway.supply import gate, signing
from slipway.supply.config import Gate
from slipway.supply.gate import Judgement, Target
from slipway.supply.sbom import Package, recorded

CLEAN, REBUILD, UNSEEN = "clean", "rebuild", "unseen"


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A released image and the places that hold it. `packages`: versions by name, as the ledger has them."""

    image: str
    framework: str
    version: str
    tag: str
    manifest_digest: str
    config_digest: str
    places: tuple[tuple[str, str], ...]  # host, repository
    packages: tuple[Package, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What a new look at an image gave. `trouble`: why there was none; then nothing is known of it."""

    subject: Subject
    state: str
    judgement: Judgement | None = None
    trouble: SlipwayError | None = None
    scanner: str = ""


def subjects(history: History, pushes: Iterable[Push], *, every: bool = False) -> list[Subject]:
    """What the aliases name; with `every` all that was not taken back. Without a ledger: what was pushed."""
    released = [one.image for one in history.standings if not one.withdrawn]
    found = [
        Subject(
            image=one.image,
            framework=one.framework,
            version=one.version,
            tag=one.tag,
            manifest_digest=one.manifest_digest,
            config_digest=one.config_digest,
            places=tuple((place.registry, place.repository) for place in one.places),
            packages=tuple(recorded(name, version) for name, version in one.packages.items()),
        )
        for one in released
    ] or [_of_push(push) for push in pushes if not push.yanked]
    return found if every else list({one.image: one for one in found}.values())  # oldest first: the newest stays


def look(subject: Subject, release: ReleaseConfig, settings: Settings, today: date) -> Seen:
    """Have the gate's scanner look at one image again. What keeps it from looking is told, never taken for clean."""
    asked = release.gate(subject.framework, subject.version, subject.image)
    if asked is None or asked.scanner == "none":
        raise UsageError("release.yml names no scanner", fix="say under `scan:` there which one looks at images")
    try:
        scan = _scan(subject, asked, release, settings)
    except (ScanError, RegistryError, AuthError, TrustError, ProgramError) as error:
        return Seen(subject=subject, state=UNSEEN, trouble=error, scanner=asked.scanner)
    found = gate.judge(scan, asked, today)
    return Seen(subject=subject, state=CLEAN if found.passed else REBUILD, judgement=found, scanner=asked.scanner)


def _scan(subject: Subject, asked: Gate, release: ReleaseConfig, settings: Settings) -> gate.Scan:
    clouds = ((host, repository, access.ecr(host, release, settings)) for host, repository in subject.places)
    _, repository, cloud = next((one for one in clouds if one[2] is not None), ("", "", None))
    host, at = subject.places[0]
    target = Target(
        image=f"{host}/{at}@{subject.manifest_digest}",
        ecr=cloud,
        repository=repository,
        digest=subject.manifest_digest,
        packages=subject.packages,
    )
    if asked.scanner == "trivy":  # reads the image from its registry
        with signing.logged_in(host, access.access(host, release, settings)) as environment:
            return gate.findings(replace(target, environment=environment), asked)
    if asked.scanner == "grype" or (asked.scanner in ("pip-audit", "osv-file") and not subject.packages):
        target = replace(target, sbom=_sbom(subject, release, settings))
    return gate.findings(target, asked)


def _sbom(subject: Subject, release: ReleaseConfig, settings: Settings) -> Path:
    """The SBOM that was kept here, else the one that was attested, whose signature is checked first."""
    path = settings.state / "sboms" / subject.config_digest.removeprefix("sha256:") / "cyclonedx.json"
    if path.is_file():
        return path
    if release.signing is None:
        raise ScanError(
            f"there is no SBOM of {subject.image} here, and none is attested", fix="sign releases, or scan with ECR"
        )
    host, repository = subject.places[0]
    image = f"{host}/{repository}@{subject.manifest_digest}"
    reach = access.access(host, release, settings)
    # Beside the files that a release keeps: alone, without its SPDX form, it would pass for half of them.
    fetched = path.with_name("attested.json")
    write_whole(fetched, canonical_json(signing.attested(image, "cyclonedx", release.signing, reach)))
    return fetched


def _of_push(push: Push) -> Subject:
    return Subject(
        image=push.image,
        framework=push.framework,
        version=push.version,
        tag=push.tag,
        manifest_digest=push.manifest_digest,
        config_digest=push.config_digest,
        places=((push.registry, push.repository),),
    )
