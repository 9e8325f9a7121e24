"""What clean takes and what it leaves: only what is on record as Slipway's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from slipway import clean, settings
from slipway.engine.docker import LABEL, OWNER, Engine
from slipway.records import Build, Records

GONE = 2**22 + 1  # no process has a number above the kernel's limit


class Api:
    """Stands in for an engine's API, with images, containers and a build cache."""

    def __init__(self) -> None:
        self.removed: list[str] = []
        self.held: list[dict[str, Any]] = []
        self.labelled: list[dict[str, Any]] = []
        self.in_use: set[str] = set()

    def images(self) -> list[dict[str, Any]]:
        return self.held

    def containers(self, all: bool, filters: dict[str, str]) -> list[dict[str, Any]]:
        name, _, value = filters["label"].partition("=")
        return [item for item in self.labelled if not value or item["Labels"][name] == value]

    def networks(self, filters: dict[str, str]) -> list[dict[str, Any]]:
        return []

    def remove_container(self, name: str, force: bool, v: bool) -> None:
        self.removed.append(name)

    def remove_image(self, name: str) -> None:
        import requests
        from docker.errors import APIError

        if name in self.in_use:
            response = requests.Response()
            response.status_code = 409
            raise APIError("conflict", response=response, explanation="container abc is using it")
        self.removed.append(name)

    def df(self) -> dict[str, Any]:
        return {"BuildCache": [{"Size": 10, "InUse": False}, {"Size": 5, "InUse": True}]}


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def project(tmp_path: Path) -> settings.Settings:
    return settings.read(project=tmp_path, environment={})


def record(project: settings.Settings, engine_id: str, reference: str) -> None:
    fields = {name: "" for name, field in Build.__dataclass_fields__.items() if field.type == "str"}
    fields |= {"engine_id": engine_id, "reference": reference, "config_digest": f"sha256:{engine_id[7:]}"}
    Records(project.state).add_build(Build(**fields, size=1, seconds=1.0))  # type: ignore[arg-type]


def clear(api: Api, project: settings.Settings, *, cache: bool = False) -> list[str]:
    found = clean.of_engine(Engine(api), project, cache=cache)
    return [leftover.remove() for leftover in found]


def test_images_on_record_go_and_others_stay(api: Api, project: settings.Settings) -> None:
    record(project, "sha256:aa", "pytorch-training:1-dev")
    api.held = [
        {"Id": "sha256:aa", "RepoTags": ["pytorch-training:1-dev"], "Size": 7},
        {"Id": "sha256:bb", "RepoTags": ["pytorch-training:2-dev"], "Size": 7},
    ]
    clear(api, project)
    assert api.removed == ["pytorch-training:1-dev"]


def test_a_tag_that_someone_else_gave_stays(api: Api, project: settings.Settings) -> None:
    record(project, "sha256:aa", "pytorch-training:1-dev")
    api.held = [{"Id": "sha256:aa", "RepoTags": ["mine:1", "pytorch-training:1-dev"], "Size": 7}]
    (leftover,) = clean.of_engine(Engine(api), project, cache=False)
    assert (leftover.name, leftover.size) == ("pytorch-training:1-dev", 0), "its layers stay with the other tag"
    leftover.remove()
    assert api.removed == ["pytorch-training:1-dev"]


def test_an_image_that_lost_its_tag_to_a_newer_build_goes(api: Api, project: settings.Settings) -> None:
    record(project, "sha256:aa", "pytorch-training:1-dev")
    api.held = [{"Id": "sha256:aa", "RepoTags": None, "Size": 7}]
    clear(api, project)
    assert api.removed == ["sha256:aa"]


def test_an_image_in_use_stays_and_says_why(api: Api, project: settings.Settings) -> None:
    record(project, "sha256:aa", "x:1-dev")
    api.held = [{"Id": "sha256:aa", "RepoTags": ["x:1-dev"], "Size": 7}]
    api.in_use = {"x:1-dev"}
    assert clear(api, project) == ["container abc is using it"]


def test_a_dead_commands_containers_go_and_a_living_ones_stay(api: Api, project: settings.Settings) -> None:
    api.labelled = [
        {"Id": "dead", "Labels": {LABEL: "one", OWNER: str(GONE)}},
        {"Id": "living", "Labels": {LABEL: "two", OWNER: str(os.getpid())}},
    ]
    clear(api, project)
    assert api.removed == ["dead"]


def test_the_build_cache_is_only_touched_when_asked(api: Api, project: settings.Settings) -> None:
    assert clean.of_engine(Engine(api), project, cache=False) == []
    (leftover,) = clean.of_engine(Engine(api), project, cache=True)
    assert (leftover.kind, leftover.size) == ("cache", 10)


def test_folders_that_are_made_again_go_and_records_stay(project: settings.Settings) -> None:
    for name in ("rootfs", "builds", "registry", "verdicts", "pushes"):
        (project.state / name).mkdir(parents=True)
        (project.state / name / "file").write_text("12345")
    (leftover,) = clean.of_state(project)
    assert (leftover.name, leftover.size) == (".slipway/rootfs", 5)
    leftover.remove()
    assert sorted(path.name for path in project.state.iterdir()) == ["builds", "pushes", "registry", "verdicts"]


@pytest.mark.parametrize(("pid", "expected"), [(os.getpid(), True), (1, True), (GONE, False), (0, False)])
def test_whether_a_process_lives(pid: int, expected: bool) -> None:
    assert clean.alive(pid) is expected
