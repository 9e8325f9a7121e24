"""Where an image goes: each registry and region made ready to be pushed to, with credentials for this push alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from slipway import local_registry
from slipway.ecr import MUTABILITY, Ecr
from slipway.errors import AuthError, Fault, RegistryError
from slipway.registry import Credentials, Registry, login_command
from slipway.release import tags
from slipway.release.config import EcrRegistry, OciRegistry
from slipway.settings import Settings

Note = Callable[[str], None]


class Destination(Protocol):
    """One registry. `region` is empty outside ECR."""

    @property
    def host(self) -> str: ...

    @property
    def region(self) -> str: ...

    def client(self) -> Registry:
        """A client of the registry, with credentials that are renewed when they end."""

    def open(self, repository: str, tag: str, note: Note) -> Registry:
        """A client of the registry, in which `repository` can take `tag` (without -vN) and its aliases."""


@dataclass(frozen=True)
class OciDestination:
    """Any registry. `credentials` are looked up when it is opened."""

    host: str
    credentials: Callable[[], Credentials | None]
    region: str = ""

    def client(self) -> Registry:
        return Registry(self.host, self.credentials(), renew=self.credentials)

    def open(self, repository: str, tag: str, note: Note) -> Registry:
        registry = self.client()
        registry.ping()
        return registry


@dataclass(frozen=True)
class EcrDestination:
    """One region of an ECR account. `untagged_days` as in EcrRegistry."""

    host: str
    region: str
    ecr: Ecr
    untagged_days: int = 0

    def client(self) -> Registry:
        return Registry(self.host, self.ecr.token(), renew=self.ecr.token, untag=self.ecr.remove_tag)

    def open(self, repository: str, tag: str, note: Note) -> Registry:
        found = self.ecr.repository(repository)
        filters = tags.mutability_filters([tag], found.filters if found else ())
        if found is None:
            self.ecr.create_repository(repository, filters)
            note(f"created the repository {self.host}/{repository}: scanned on push, -vN tags never move")
        elif found.mutability == "IMMUTABLE":
            raise RegistryError(
                f"{self.host}/{repository} lets no tag move, so its aliases could not follow a release",
                fix=f"let them, once: {_mutability_command(self.ecr.region, repository, filters)}",
            )
        elif found.mutability != MUTABILITY:
            note(
                f"{self.host}/{repository} is {found.mutability}: only Slipway keeps its -vN tags from moving; to let "
                f"ECR do so: {_mutability_command(self.ecr.region, repository, filters)}"
            )
        elif not set(filters) <= set(found.filters):
            self.ecr.set_filters(repository, filters)
        if self.untagged_days:
            self._retain(repository, note)
        if self.ecr.mounts_blobs is False:
            note(f"{self.host} mounts no layers across repositories; to let it: {_mounting_command(self.region)}")
        registry = self.client()
        registry.ping()
        return registry

    def _retain(self, repository: str, note: Note) -> None:
        """Have ECR remove what no release named; a policy of somebody else's is left as it is."""
        wanted = _expiring(self.untagged_days)
        present = self.ecr.lifecycle(repository)
        if present == wanted:
            return
        if present is not None and [rule.get("description") for rule in present.get("rules", ())] != [_RULE]:
            note(f"{self.host}/{repository} has a lifecycle policy of its own: untagged-days is left to it")
            return
        self.ecr.set_lifecycle(repository, wanted)
        note(f"{self.host}/{repository} keeps images without a tag for {self.untagged_days} days")


_RULE = "Slipway: images without a tag"


def _expiring(days: int) -> dict[str, Any]:
    """A lifecycle policy as ECR has it."""
    selection = {"tagStatus": "untagged", "countType": "sinceImagePushed", "countUnit": "days", "countNumber": days}
    rule = {"rulePriority": 1, "description": _RULE, "selection": selection, "action": {"type": "expire"}}
    return {"rules": [rule]}


def of(registry: EcrRegistry | OciRegistry, settings: Settings) -> list[Destination]:
    """The destinations of a configured registry, one a region."""
    if isinstance(registry, OciRegistry):
        return [OciDestination(registry.host, lambda: _credentials(registry, settings))]
    endpoint, sts = settings.aws_endpoint("ecr"), settings.aws_endpoint("sts")
    return [
        EcrDestination(
            registry.host(region),
            region,
            Ecr(registry.account, region, registry.role, endpoint, sts),
            registry.untagged_days,
        )
        for region in registry.regions
    ]


def loopback(settings: Settings, note: Note) -> Destination:
    """The project's own registry, started if it does not run."""
    running, started = local_registry.ensure(settings.state)
    if started:
        note(
            f"no registry is configured: started one at {running.host} ({running.kind}), data in "
            f"{settings.text('state')}/registry; to stop it: {local_registry.STOP_COMMAND}"
        )
    return OciDestination(running.host, lambda: None)


def engine_login(host: str, environment_config: Path | None) -> Credentials | None:
    """What `docker login` left for a registry, in its file or in a credential helper; None without a login."""
    from docker import auth
    from docker.credentials.errors import StoreError
    from docker.errors import DockerException

    try:
        found = auth.load_config(str(environment_config) if environment_config else None).resolve_authconfig(host)
    except (DockerException, StoreError) as error:
        raise AuthError(f"the login for {host} cannot be read: {error}", fix=login_command(host)) from None
    given = {key.lower(): value for key, value in (found or {}).items() if value}
    if not given:
        return None
    token = given.get("identitytoken", "")
    return Credentials(given.get("username", ""), given.get("password", ""), token)


def _credentials(registry: OciRegistry, settings: Settings) -> Credentials | None:
    if not registry.username_from:
        folder = settings.environment.get("DOCKER_CONFIG")
        return engine_login(registry.host, Path(folder) / "config.json" if folder else None)
    faults = [
        Fault(f"the variable {name} is not set", "set it for this command; release.yml only names it")
        for name in (registry.username_from, registry.password_from)
        if not settings.environment.get(name)
    ]
    if faults:
        raise AuthError(f"there are no credentials for the registry {registry.name}", faults=faults)
    return Credentials(settings.environment[registry.username_from], settings.environment[registry.password_from])


def _mounting_command(region: str) -> str:
    return f"aws ecr put-account-setting --region {region} --name BLOB_MOUNTING --value ENABLED"


def _mutability_command(region: str, repository: str, filters: tuple[str, ...]) -> str:
    listed = " ".join(f"'filterType=WILDCARD,filter={one}'" for one in filters)
    return (
        f"aws ecr put-image-tag-mutability --region {region} --repository-name {repository} "
        f"--image-tag-mutability {MUTABILITY} --image-tag-mutability-exclusion-filters {listed}"
    )
