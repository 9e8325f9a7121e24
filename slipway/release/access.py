"""How a registry of release.yml, or any other, is reached by programs that talk to it themselves: cosign, scanners."""

from __future__ import annotations

from pathlib import Path

from slipway.ecr import Ecr
from slipway.registry import Credentials, ecr_region, is_loopback
from slipway.release import destinations
from slipway.release.config import ReleaseConfig
from slipway.release.destinations import EcrDestination, OciDestination
from slipway.settings import Settings
from slipway.supply.config import Access


def access(host: str, release: ReleaseConfig, settings: Settings) -> Access:
    """Fresh credentials for a registry. Raises AuthError where release.yml names some that are not there."""
    given = credentials(host, release, settings) or Credentials()
    return Access(
        username=given.username,
        password=given.password,
        token=given.identity_token,
        insecure=is_loopback(host),
        environment=settings.environment,
    )


def credentials(host: str, release: ReleaseConfig, settings: Settings) -> Credentials | None:
    """As release.yml says of the registry; of another, those of `docker login`, or for ECR those of the AWS tools."""
    region = ecr(host, release, settings)
    configured = _destination(host, release, settings)
    if isinstance(configured, OciDestination):
        return configured.credentials()
    if isinstance(configured, EcrDestination):
        return configured.ecr.token()
    folder = settings.environment.get("DOCKER_CONFIG")
    login = destinations.engine_login(host, Path(folder) / "config.json" if folder else None)
    return login or (region.token() if region else None)


def ecr(host: str, release: ReleaseConfig, settings: Settings) -> Ecr | None:
    """The account and region that a host stands for; None where it is no ECR."""
    configured = _destination(host, release, settings)
    if isinstance(configured, EcrDestination):
        return configured.ecr
    if configured is None and (region := ecr_region(host)):
        endpoints = settings.aws_endpoint("ecr"), settings.aws_endpoint("sts")
        return Ecr(host.partition(".")[0], region, "", *endpoints)
    return None


def _destination(host: str, release: ReleaseConfig, settings: Settings) -> destinations.Destination | None:
    found = (one for registry in release.registries.values() for one in destinations.of(registry, settings))
    return next((one for one in found if one.host == host), None)
