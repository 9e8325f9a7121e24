"""Whether a release could be made from here: registries that accept the credentials, and keys that are there.

Building goes without any of it, so that what is amiss is a warning of the doctor's, not a failure.
"""

from __future__ import annotations

from pathlib import Path

from slipway.doctor import FAIL, OK, WARN, Finding
from slipway.errors import SlipwayError, SpecError
from slipway.registry import Registry, ecr_region
from slipway.release import access, config, destinations
from slipway.release.config import ReleaseConfig
from slipway.settings import Settings

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


def examine(settings: Settings) -> list[Finding]:
    """One finding a registry of release.yml, and one for a signing key in a file."""
    try:
        release = config.load(settings.project)
    except SpecError as error:
        return [
            Finding(
                "release.yml", FAIL, "\n".join([error.message, *map(str, error.faults)]), error.fix, error.exit_code
            )
        ]
    hosts = [one.host for registry in release.registries.values() for one in destinations.of(registry, settings)]
    return [*(_registry(host, release, settings) for host in hosts), *_key(release)]


def _registry(host: str, release: ReleaseConfig, settings: Settings) -> Finding:
    cloud = access.ecr(host, release, settings) is not None or bool(ecr_region(host))
    try:
        Registry(host, access.credentials(host, release, settings)).ping()
    except SlipwayError as error:
        told = "\n".join([error.message, *map(str, error.faults)])
        return Finding("registry", WARN, told, "; ".join(filter(None, (error.fix, _NEEDED if cloud else ""))))
    return Finding("registry", OK, f"{host} accepts the credentials")


def _key(release: ReleaseConfig) -> list[Finding]:
    given = release.signing
    if given is None or given.kind != "key":
        return []
    missing = [path for path in (given.key, given.public_key) if not Path(path).is_file()]
    if missing:
        fix = "make it with `cosign generate-key-pair`, or correct signing: in release.yml"
        return [Finding("signing key", WARN, f"there is no {' and no '.join(missing)}", fix)]
    return [Finding("signing key", OK, given.public_key)]
