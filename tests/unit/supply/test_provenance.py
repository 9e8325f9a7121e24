"""Provenance: what it says of a build, and what it must not say."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from slipway.supply import provenance

from .builds import COMMIT, build, hexed

SOURCE = "https://git.example/team/images"


def predicate(**changes: object) -> dict[str, object]:
    return provenance.predicate(build(**changes), source=SOURCE, builder="urn:slipway:builder:local")


def test_it_names_source_inputs_base_lock_and_builder() -> None:
    found = provenance.predicate(
        build(), source=SOURCE, builder="https://ci.example/w", invocation="https://ci.example/7", parameters={"a": "b"}
    )
    definition, run = found["buildDefinition"], found["runDetails"]
    by_name = {one["name"]: one for one in definition["resolvedDependencies"]}
    assert by_name["source"] == {
        "name": "source",
        "uri": f"git+{SOURCE}@{COMMIT}",
        "digest": {"gitCommit": COMMIT},
    }
    assert by_name["base"]["digest"] == {"sha256": hexed("b")}, "the layer that the root filesystem became"
    assert by_name["inputs"]["digest"] == {"sha256": hexed("1")}
    assert by_name["lock"]["digest"] == {"sha256": hexed("2")}
    assert definition["externalParameters"]["settings"] == {"a": "b"}
    assert run["builder"]["id"] == "https://ci.example/w"
    assert run["metadata"] == {
        "invocationId": "https://ci.example/7",
        "startedOn": "2026-11-30T12:00:00+00:00",
        "finishedOn": "2026-11-30T12:00:30+00:00",
    }
    assert run["byproducts"] == [{"name": "image-config", "digest": {"sha256": hexed("c")}}]


def test_the_same_build_gives_the_same_predicate() -> None:
    assert json.dumps(predicate()) == json.dumps(predicate())


@pytest.mark.parametrize("revision", [f"{COMMIT}-dirty", "unknown"])
def test_a_tree_with_changes_is_no_commit(revision: str) -> None:
    found = predicate(revision=revision)
    source = found["buildDefinition"]["resolvedDependencies"][0]  # type: ignore[index]
    assert source == {"name": "source", "uri": f"git+{SOURCE}", "annotations": {"revision": revision}}
    assert provenance.commit_of(found) == ""


def test_a_pulled_base_is_named_by_its_digest() -> None:
    found = predicate(base=f"pulled debian:12@sha256:{hexed('9')}")
    base = found["buildDefinition"]["resolvedDependencies"][1]  # type: ignore[index]
    assert base == {"name": "base", "uri": "docker://debian:12", "digest": {"sha256": hexed("9")}}


def test_it_agrees_with_the_build_that_it_was_made_of_and_with_no_other() -> None:
    found = predicate()
    assert provenance.disagreements(found, build()) == []
    for name, other in (
        ("input_hash", hexed("7")),
        ("lock_hash", hexed("7")),
        ("base", "bootstrapped debian13 (trixie)"),
        ("revision", "5b" * 20),
        ("config_digest", f"sha256:{hexed('7')}"),
        ("image", "other"),
    ):
        (told,) = provenance.disagreements(found, build(**{name: other}))
        assert other in told


def test_an_empty_document_agrees_with_nothing() -> None:
    assert len(provenance.disagreements({}, build())) == 6


def test_the_builder_is_the_workflow_where_there_is_one() -> None:
    assert provenance.builder_of({}) == (provenance.LOCAL_BUILDER, "")
    environment = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_SERVER_URL": "https://git.example",
        "GITHUB_REPOSITORY": "team/images",
        "GITHUB_RUN_ID": "77",
        "GITHUB_RUN_ATTEMPT": "2",
        "GITHUB_WORKFLOW_REF": "team/images/.github/workflows/release.yml@refs/heads/main",
    }
    assert provenance.builder_of(environment) == (
        "https://git.example/team/images/.github/workflows/release.yml@refs/heads/main",
        "https://git.example/team/images/actions/runs/77/attempts/2",
    )


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("https://user:secret@git.example/a.git?token=x#y", "https://git.example/a.git"),
        ("ssh://git@git.example:22/a.git", "ssh://git.example:22/a.git"),
        ("git@git.example:team/a.git", "git@git.example:team/a.git"),
    ],
)
def test_addresses_lose_their_secrets(given: str, told: str, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    assert provenance.origin(tmp_path) == ""
    subprocess.run(["git", "-C", tmp_path, "remote", "add", "origin", given], check=True)
    assert provenance.origin(tmp_path) == told
