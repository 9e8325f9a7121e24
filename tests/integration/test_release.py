"""Releases for real: `invoke release` in a project of its own, the engine, two registries behind passwords."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.project import Project
from tests.support.proxy import Proxy, proxying
from tests.support.registries import PasswordRegistry, make

pytestmark = pytest.mark.integration

TRAINING, INFERENCE = "pytorch-training-2.13.0-cpu-py311", "pytorch-inference-2.13.0-cpu-py311"
TAG = "2.13.0-cpu-py311-debian12"
ALIASES = (TAG, "2.13.0-cpu-py311", "2.13-cpu-py311")
BOTH = ("release", "--framework", "pytorch")


@dataclass
class Site:
    """A registry, and the proxy before it."""

    registry: PasswordRegistry
    proxy: Proxy


@dataclass
class World:
    """A project and two registries that stand for two regions."""

    project: Project
    sites: tuple[Site, Site]

    def repository(self, scope: str) -> str:
        return f"{self.project.prefix}/pytorch-{scope}"

    def names(self, scope: str, tag: str) -> set[str]:
        """The digests under a tag in both registries; empty where it is not there."""
        return {site.registry.digest(self.repository(scope), tag) for site in self.sites}

    def tags(self, scope: str) -> list[set[str]]:
        """The tags that people see, by registry."""
        found = (site.registry.tags(self.repository(scope)) for site in self.sites)
        return [{tag for tag in tags if not tag.startswith("sha256-")} for tags in found]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with ExitStack() as stack:
        sites = []
        for name in ("first", "second"):
            registry = make(tmp_path / name, name, f"s3cret-{name}")
            registry.start()
            stack.callback(registry.kill)
            sites.append(Site(registry, stack.enter_context(proxying(registry.port))))
        project = Project(tmp_path / "project")
        stack.callback(project.close)
        project.environment = {
            f"{name}_{key}": value
            for name, site in zip("AB", sites, strict=True)
            for key, value in (("USER", site.registry.user), ("WORD", site.registry.password))
        }
        project.configure(
            {
                key.lower(): {
                    "kind": "oci",
                    "host": site.proxy.host,
                    "credentials": {"username-from": f"{key}_USER", "password-from": f"{key}_WORD"},
                }
                for key, site in zip("AB", sites, strict=True)
            }
        )
        yield World(project, (sites[0], sites[1]))


def test_a_release_from_plan_to_listing(world: World) -> None:
    shared = os.urandom(2 << 20)
    builds = [world.project.build(image, image.encode(), below=shared) for image in (TRAINING, INFERENCE)]
    plan = world.project.told(*BOTH, "--plan")
    actions = {(one["step"], one["action"]) for one in plan if one["image"] in (TRAINING, "")}
    assert actions == {
        ("build", "skip"),
        ("verify", "skip"),
        ("smoke", "skip"),
        ("size", "do"),
        ("sbom", "not configured"),
        ("changes", "skip"),
        ("push", "do"),
        ("scan", "not configured"),
        ("sign", "not configured"),
        ("check", "not configured"),
        ("replicate", "do"),
        ("promote", "do"),
        ("ledger", "do"),
        ("listing", "do"),
    }
    assert all(not site.proxy.asked for site in world.sites), "a plan asks no registry"

    released = world.project.told(*BOTH)
    for build, one, scope in zip(builds, released, ("training", "inference"), strict=True):
        assert one["config_digest"] == build.config_digest
        for tag in (f"{TAG}-v1", *ALIASES):
            assert world.names(scope, tag) == {one["manifest_digest"]} == {build.engine_id}
        assert world.tags(scope) == [{f"{TAG}-v1", *ALIASES}] * 2
    # Each blob once in each registry: the shared layer is not sent for the second image.
    for site in world.sites:
        unique = sum(path.stat().st_size for path in (site.registry.folder / "data").rglob("blobs/sha256/*/*/data"))
        assert site.proxy.blob_bytes <= 1.02 * unique
    (entry,) = world.project.ledger
    assert [image["tag"] for image in entry["images"]] == [f"{TAG}-v1"] * 2
    assert [place["registry"] for place in entry["images"][0]["places"]] == [site.proxy.host for site in world.sites]
    assert entry["images"][0]["labels"] == {"a": "b"}
    assert f"`{TAG}-v1`" in (world.project.folder / "releases/README.md").read_text()

    uri = world.project.invoke("image-uri", "--framework", "pytorch", "--host", world.sites[1].proxy.host)
    assert uri.stdout.strip() == f"{world.sites[1].proxy.host}/{world.repository('training')}:{TAG}-v1"
    again = world.project.invoke(*BOTH)
    assert "nothing was left to release" in again.stdout and again.returncode == 0
    assert len(world.project.ledger) == 1
