"""Whether a release could be made from here: registries that accept the credentials, and keys that are there.

Building goes without any of it, so that what is amiss is a warning of the doctor's, not a failure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from slipway.doctor import FAIL, OK, WARN, Finding
from slipway.errors import SlipwayError, SpecError
from slipway.registry import Registry, ecr_region
from slipway.release import access, cloud, config, destinations
from slipway.release.config import EcrRegistry, ReleaseConfig
from slipway.settings import Settings
from slipway.spec import load
from slipway.spec.model import Image

# The least for `release` (docs/supply-chain.md has a policy for each command).
ACTIONS = (
    "BatchCheckLayerAvailability",
    "BatchDeleteImage",
    "BatchGetImage",
    "CompleteLayerUpload",
    "DescribeImageScanFindings",
    "DescribeRepositories",
    "GetDownloadUrlForLayer",
    "InitiateLayerUpload",
    "ListImages",
    "PutImage",
    "StartImageScan",
    "UploadLayerPart",
)
_NEEDED = (
    "a release needs ecr:GetAuthorizationToken and ecr:GetAccountSetting on *, and on the repositories ecr:"
    f"{', ecr:'.join(ACTIONS)}; the least for each command: docs/supply-chain.md"
)
_LOOKING = "to look needs ecr:DescribeRepositories and ecr:GetRepositoryPolicy on the repositories"


def examine(settings: Settings) -> list[Finding]:
    """One finding a registry of release.yml, one for its repositories where that is ECR, and one for a signing key."""
    try:
        release = config.load(settings.project)
    except SpecError as error:
        return [
            Finding(
                "release.yml", FAIL, "\n".join([error.message, *map(str, error.faults)]), error.fix, error.exit_code
            )
        ]
    hosts = [one.host for registry in release.registries.values() for one in destinations.of(registry, settings)]
    found = [_registry(host, release, settings) for host in hosts]
    accepting = {host for host, one in zip(hosts, found, strict=True) if one.status == OK}
    return [*found, *_repositories(release, settings, accepting), *_key(release, settings)]


def _registry(host: str, release: ReleaseConfig, settings: Settings) -> Finding:
    cloud = access.ecr(host, release, settings) is not None or bool(ecr_region(host))
    try:
        Registry(host, access.credentials(host, release, settings)).ping()
    except SlipwayError as error:
        told = "\n".join([error.message, *map(str, error.faults)])
        return Finding("registry", WARN, told, "; ".join(filter(None, (error.fix, _NEEDED if cloud else ""))))
    return Finding("registry", OK, f"{host} accepts the credentials")


def _repositories(release: ReleaseConfig, settings: Settings, accepting: Collection[str]) -> Iterator[Finding]:
    """Of each region that accepts the credentials, as far as these may look."""
    images = _images(settings)
    for registry in release.registries.values():
        if not isinstance(registry, EcrRegistry):
            continue
        names = sorted(
            {
                release.repository(one.repository)
                for one in images
                if registry in release.registries_of(one.framework, one.version, one.scope, one.processor)
            }
        )
        for region in registry.regions if names else ():
            ecr = access.ecr(registry.host(region), release, settings)
            if ecr is None or registry.host(region) not in accepting:
                continue
            try:
                yield cloud.repositories(ecr, names, registry.pulled_by)
            except SlipwayError as error:
                yield Finding("repositories", WARN, error.message, f"{error.fix or 'look again'}; {_LOOKING}")


def _images(settings: Settings) -> Sequence[Image]:
    try:
        return load.load(settings.project).images
    except SpecError:  # every other command tells of it
        return ()


def _key(release: ReleaseConfig, settings: Settings) -> list[Finding]:
    given = release.signing
    if given is not None and given.kind == "kms" and given.key.startswith("awskms://"):
        return [cloud.signing_key(given.key, settings)]
    if given is None or given.kind != "key":
        return []
    missing = [path for path in (given.key, given.public_key) if not Path(path).is_file()]
    if missing:
        fix = "make it with `cosign generate-key-pair`, or correct signing: in release.yml"
        return [Finding("signing key", WARN, f"there is no {' and no '.join(missing)}", fix)]
    return [Finding("signing key", OK, given.public_key)]
